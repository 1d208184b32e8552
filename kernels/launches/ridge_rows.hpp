#pragma once
// A ridge as problems give it, a number for all, for every head, row or dimension, spelled out for all of these.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "reference/core/problem.hpp"

namespace assay::tile {

struct RidgeRows {
  bool head_axis;
  int heads, rows, dims;

  /// lambda of every head, row and dimension.
  std::vector<double> all(const Problem& problem) const {
    const Array& given = problem.inputs.at("lambda");
    std::vector<double> numbers(extent(heads) * extent(rows) * extent(dims));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = given.data[place(given, i)];
    return numbers;
  }
  /// The gradient of the given numbers, from those of all: each has the sum, in T, over all that it stands for.
  template <class T>
  Array gradient(const Problem& problem, const std::vector<T>& numbers) const {
    const Array& given = problem.inputs.at("lambda");
    std::vector<T> sums(given.data.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) sums[place(given, i)] += numbers[i];
    return Array(given.shape, std::vector<double>(sums.begin(), sums.end()));
  }

 private:
  /// Of no rows nothing is asked.
  static std::size_t extent(int n) { return static_cast<std::size_t>(std::max(n, 1)); }
  /// Where the number stands that is element i of [heads][rows][dims].
  std::size_t place(const Array& given, std::size_t i) const {
    const std::size_t n = extent(rows), d = extent(dims), lead = head_axis && !given.shape.empty() ? 1 : 0;
    const std::size_t own = lead == 1 ? extent(given.shape[0]) : 1, head = i / (n * d) * own / extent(heads);
    const std::size_t axes = given.shape.size() - lead;
    if (axes == 0) return head;
    if (axes == 1) return head * n + i / d % n;
    return head * n * d + i % (n * d);
  }
};

}  // namespace assay::tile
