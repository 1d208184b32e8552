#pragma once
// Runs a tile program over its grid with HostBlock, and the arrays that it reads and writes.
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/core/pack.hpp"
#include "kernels/host/host_block.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

/// The launch of a sequence: run(launch, item, stream) computes an item with the random bits of `stream`.
struct HostLaunch : pack::Request {
  const Policy& policy;
  int items;
  RunSizes sizes;  ///< of the launching thread
  void (*run)(const HostLaunch& launch, int item, std::uint64_t stream);
};

/// Runs the items of a launch, in a pack with those of the other sequences. The bits do not depend on the threads.
void run_launch(HostLaunch& launch);

/// Runs `items` blocks; coordinate(i) gives (head, second coordinate) of block i.
template <class Kernel, class T, class Coordinate>
void host_launch(const Policy& policy, const typename Kernel::Args& args, int items, Coordinate coordinate) {
  struct Launch : HostLaunch {
    const typename Kernel::Args& args;
    Coordinate& coordinate;
  };
  Launch launch{{{},
                 policy,
                 items,
                 run_sizes,
                 [](const HostLaunch& l, int item, std::uint64_t stream) {
                   const auto& of_kernel = static_cast<const Launch&>(l);
                   const WithSizes sizes(of_kernel.sizes);
                   HostBlock<T> block(l.policy, stream);
                   const auto shared = std::make_unique<typename Kernel::Smem>();
                   const auto [head, x] = of_kernel.coordinate(item);
                   Kernel::run(block, *shared, of_kernel.args, head, x);
                 }},
                args,
                coordinate};
  run_launch(launch);
}

/// [heads][rows][cols] in the executor's scalar. It starts as NaN: what a kernel forgets to write cannot pass for a
/// number.
template <class T>
struct HostArray {
  int heads, rows, cols;
  std::vector<T> data;

  HostArray(int h, int r, int c)
      : heads(h),
        rows(r),
        cols(c),
        data(static_cast<std::size_t>(h) * static_cast<std::size_t>(r) * static_cast<std::size_t>(c),
             HostBlock<T>::poison) {}

  typename HostBlock<T>::In in() const { return {data.data(), rows, cols}; }
  typename HostBlock<T>::RowIn row_in(bool logs = true) const { return {data.data(), rows, logs}; }
  /// Not wanted: no address, and a program writes nothing.
  typename HostBlock<T>::Out out(bool wanted = true) { return {wanted ? data.data() : nullptr, rows, cols}; }
  typename HostBlock<T>::RowOut row_out() { return {data.data(), rows}; }
};

/// The axes of an array of problems with or without a head axis.
inline std::vector<int> axes_of(bool head_axis, int heads, std::vector<int> rest) {
  if (head_axis) rest.insert(rest.begin(), heads);
  return rest;
}

/// Block i of a launch is block i % of_head of head i / of_head.
struct HeadBlocks {
  int of_head;
  std::pair<int, int> operator()(int i) const { return {i / of_head, i % of_head}; }
};

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
