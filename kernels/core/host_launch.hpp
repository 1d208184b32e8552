#pragma once
// Runs a tile program over its grid with HostBlock, and moves arrays in and out of the executor's scalar.
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/core/host_block.hpp"
#include "reference/core/problem.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

/// Runs `items` blocks; coordinate(i) gives (head, second coordinate) of block i. The bits do not depend on the
/// threads.
template <class Kernel, class T, class Coordinate>
void host_launch(const Policy& policy, const typename Kernel::Args& args, int items, Coordinate coordinate) {
  int threads = policy.threads > 0 ? policy.threads : static_cast<int>(std::thread::hardware_concurrency());
  threads = policy.stats != nullptr || policy.asked != nullptr ? 1 : std::max(1, std::min(threads, items));
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(threads));
  const auto work = [&](int t) {
    try {
      for (int i = t; i < items; i += threads) {
        HostBlock<T> block(policy, static_cast<std::uint64_t>(i));
        const auto shared = std::make_unique<typename Kernel::Smem>();
        const auto [head, x] = coordinate(i);
        Kernel::run(block, *shared, args, head, x);
      }
    } catch (...) {
      errors[static_cast<std::size_t>(t)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> pool;
    for (int t = 1; t < threads; ++t) pool.emplace_back(work, t);
    work(0);
  }
  for (const std::exception_ptr& e : errors)
    if (e) std::rethrow_exception(e);
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
