#pragma once
// What all of many elements add up to, by several threads.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

#include "oracles/multiword/parallel.hpp"

namespace assay::words {

/// Adds up `of`(first, last) of blocks of neighbours in their order: the same bits on any number of threads.
template <class F>
auto sum_of_blocks(std::size_t count, int threads, F&& of) {
  constexpr std::size_t block = 1 << 16;
  std::vector<decltype(of(0, 0))> parts(std::max<std::size_t>(1, (count + block - 1) / block));
  in_parallel(parts.size(), threads,
              [&](std::size_t b) { parts[b] = of(b * block, std::min(count, (b + 1) * block)); });
  for (std::size_t b = 1; b < parts.size(); ++b) parts[0] += parts[b];
  return parts[0];
}

/// Whether `holds`(i) for every i in [0, count); those behind the first where it does not need not be asked.
template <class F>
bool all_in_parallel(std::size_t count, int threads, F&& holds) {
  std::atomic<bool> all = true;
  for_each_in_parallel(count, threads, [&](std::size_t i) {
    if (all && !holds(i)) all = false;
  });
  return all;
}

}  // namespace assay::words
