#pragma once
// Runs a tile program over its grid with HostBlock, and moves arrays in and out of the executor's scalar.
#include <memory>
#include <vector>

#include "kernels/core/pack.hpp"
#include "kernels/host/host_block.hpp"
#include "reference/core/problem.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

/// The launch of a sequence: run(launch, item, stream) computes an item with the random bits of `stream`.
struct HostLaunch : pack::Request {
  const Policy& policy;
  int items;
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
                 [](const HostLaunch& l, int item, std::uint64_t stream) {
                   const auto& of_kernel = static_cast<const Launch&>(l);
                   HostBlock<T> block(l.policy, stream);
                   const auto shared = std::make_unique<typename Kernel::Smem>();
                   const auto [head, x] = of_kernel.coordinate(item);
                   Kernel::run(block, *shared, of_kernel.args, head, x);
                 }},
                args,
                coordinate};
  run_launch(launch);
}

/// An array of a problem in the executor's scalar, seen as [heads][rows][cols]. Outputs start as NaN: what a kernel
/// forgets to write cannot pass for a number.
template <class T>
struct HostArray {
  int heads = 1, rows = 0, cols = 1;
  std::vector<int> shape;
  std::vector<T> data;

  HostArray() = default;
  HostArray(int h, int r, int c, std::vector<int> s)
      : heads(h),
        rows(r),
        cols(c),
        shape(std::move(s)),
        data(static_cast<std::size_t>(h) * static_cast<std::size_t>(r) * static_cast<std::size_t>(c),
             HostBlock<T>::poison) {}

  typename HostBlock<T>::In in() const { return {data.data(), rows, cols}; }
  typename HostBlock<T>::RowIn row_in(bool logs = true) const { return {data.data(), rows, logs}; }
  typename HostBlock<T>::Out out() { return {data.data(), rows, cols}; }
  typename HostBlock<T>::RowOut row_out() { return {data.data(), rows}; }
  Array array() const { return Array(shape, std::vector<double>(data.begin(), data.end())); }
};

/// How a problem is laid out: with or without a head axis.
struct HostShape {
  bool head_axis;
  int heads, shared_heads;
  std::vector<int> shape(int h, std::vector<int> rest) const {
    if (head_axis) rest.insert(rest.begin(), h);
    return rest;
  }
};

/// [T][d] or [H][T][d] (rank 2), [T] or [H][T] (rank 1) of an array with or without a head axis, as
/// [heads][rows][cols].
template <class T>
HostArray<T> host_array(const Array& a, bool head_axis, int rank) {
  const std::size_t lead = head_axis ? 1 : 0;
  HostArray<T> h;
  h.shape = a.shape;
  h.heads = head_axis ? a.shape[0] : 1;
  h.rows = a.shape[lead];
  h.cols = rank == 2 ? a.shape[lead + 1] : 1;
  h.data.assign(a.data.begin(), a.data.end());
  return h;
}

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
