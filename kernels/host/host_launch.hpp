#pragma once
// Runs a tile program over its grid with HostBlock, and the arrays that it reads and writes.
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/core/pack.hpp"
#include "kernels/host/host_block.hpp"
#include "kernels/host/tile_device.hpp"

namespace assay::tile {

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

/// [heads][rows][cols] in the executor's scalar, or in doubles on a device. It starts as NaN: what a kernel forgets to
/// write cannot pass for a number.
template <class T>
struct HostArray {
  int heads, rows, cols;
  std::vector<T> data;
  TileDevice::Memory elsewhere{};  ///< in place of `data`

  HostArray(int h, int r, int c) : heads(h), rows(r), cols(c), data(count(), HostBlock<T>::poison) {}
  HostArray(int h, int r, int c, TileDevice::Memory memory)
      : heads(h), rows(r), cols(c), elsewhere(std::move(memory)) {}

  std::size_t count() const {
    return static_cast<std::size_t>(heads) * static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
  }
  const T* numbers() const {
    if constexpr (std::is_same_v<T, double>)
      if (elsewhere) return elsewhere.get();
    return data.data();
  }
  T* numbers() {
    if constexpr (std::is_same_v<T, double>)
      if (elsewhere) return elsewhere.get();
    return data.data();
  }

  typename HostBlock<T>::In in() const { return {numbers(), rows, cols}; }
  typename HostBlock<T>::RowIn row_in(bool logs = true) const { return {numbers(), rows, logs}; }
  /// Not wanted: no address, and a program writes nothing.
  typename HostBlock<T>::Out out(bool wanted = true) { return {wanted ? numbers() : nullptr, rows, cols}; }
  typename HostBlock<T>::RowOut row_out() { return {numbers(), rows}; }
};

/// The axes of an array of problems with or without a head axis.
inline std::vector<int> axes_of(bool head_axis, int heads, std::vector<int> rest) {
  if (head_axis) rest.insert(rest.begin(), heads);
  return rest;
}

}  // namespace assay::tile
