#pragma once
// What all of many elements add up to, by several threads.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
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

/// The first i in [0, count) of which `holds`(i), if there is one.
template <class F>
std::optional<std::size_t> first_in_parallel(std::size_t count, int threads, F&& holds) {
  constexpr std::size_t block = 1 << 14;
  std::atomic<std::size_t> first = count;
  in_parallel((count + block - 1) / block, threads, [&](std::size_t b) {
    std::size_t i = b * block;
    const std::size_t end = std::min({count, i + block, first.load()});
    while (i < end && !holds(i)) ++i;
    for (std::size_t known = first; i < end && i < known && !first.compare_exchange_weak(known, i);) continue;
  });
  return first < count ? std::optional<std::size_t>(first) : std::nullopt;
}

/// Whether `holds`(i) for every i in [0, count).
template <class F>
bool all_in_parallel(std::size_t count, int threads, F&& holds) {
  return !first_in_parallel(count, threads, [&](std::size_t i) { return !holds(i); });
}

}  // namespace assay::words
