#pragma once
// Sums of weighted errors over heads, chunks of tokens, positions in a chunk, rows and columns: what leans to one side,
// or is a little too large, is seen here long before any element is beyond its limit. docs/judge-derivation.md derives
// the limits.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "judge/sigma/spread.hpp"
#include "oracles/multiword/parallel.hpp"

namespace assay {

/// Rows are counted in chunks of this many; only in tensors of more rows.
inline constexpr int slice_chunk = 64;
/// And every so many of them are alike.
inline constexpr std::array<int, 3> slice_periods = {16, 32, slice_chunk};

/// Elements that one index of an axis has in common.
struct Slice {
  enum class Axis { tensor, head, chunk, position, column, row, row_of_head };
  Axis axis;
  int index;
  int of = 0;  ///< rows of the chunk, of a position; of a head, of a row of one
  /// "the whole tensor", "head 2", "rows 64 to 127", "position 3 of every chunk of 64", "column 5", "row 7",
  /// "row 7 of head 2"
  std::string name() const;
};

/// Which slices have limits; coarse ones come first. What leans is judged in coarse ones alone: the errors of one row
/// may have a rounding in common, such as that of its divisor.
enum class JudgedSlices { coarse, all };

/// The spread and the reach of the sum of error / sigma over the slice, for a correct kernel.
struct SliceSum {
  Slice slice;
  double sigma;          ///< standard deviation; 0: the slice has nothing that may be off
  double reach;          ///< multiple of sigma that no correct kernel's sum exceeds
  bool widened = false;  ///< sigma is what a witness leans by, here or next to it
};

/// Where the slices of every axis begin in the list of all; the whole tensor is the first, and fine ones are the last.
struct SliceOffsets {
  std::size_t head = 0, chunk = 0, column = 0, row = 0, row_of_head = 0, coarse = 0, count = 1;
  std::array<std::size_t, slice_periods.size()> position{};

  explicit SliceOffsets(const Layout& n);
};

/// The sums over all slices of a tensor of that layout, in the order of slices_of, of its rows' sums, and of its
/// columns' in blocks of rows. Axes along which there is one index are left out.
std::vector<double> slice_sums(const Layout& layout, const std::vector<double>& rows,
                               const std::vector<std::vector<double>>& columns);
/// Those of K terms of the first `count` elements: term(i) is an array of them. The same bits on any number of threads.
template <std::size_t K, class F>
std::array<std::vector<double>, K> slice_sums(const Layout& layout, std::size_t count, int threads, F&& term) {
  constexpr std::size_t block = 1 << 16;
  const auto C = static_cast<std::size_t>(layout.cols), R = layout.size() / C,
             each = std::max<std::size_t>(1, block / C);
  std::array<std::vector<double>, K> rows, sums;
  rows.fill(std::vector<double>(R));
  std::array<std::vector<std::vector<double>>, K> columns;
  columns.fill(std::vector<std::vector<double>>((R + each - 1) / each));
  words::in_parallel(columns[0].size(), threads, [&](std::size_t b) {
    for (auto& parts : columns) parts[b].resize(C);
    for (std::size_t r = b * each; r < std::min(R, (b + 1) * each); ++r)
      for (std::size_t c = 0; c < C && r * C + c < count; ++c) {
        const std::array<double, K> terms = term(r * C + c);
        for (std::size_t k = 0; k < K; ++k) rows[k][r] += terms[k], columns[k][b][c] += terms[k];
      }
  });
  for (std::size_t k = 0; k < K; ++k) sums[k] = slice_sums(layout, rows[k], columns[k]);
  return sums;
}
/// Of weight * error, where there is a weight.
inline std::vector<double> slice_sums(const Layout& layout, const std::vector<double>& weight,
                                      const std::vector<double>& error) {
  return slice_sums<1>(layout, error.size(), 1,
                       [&](std::size_t i) { return std::array{weight[i] == 0 ? 0 : weight[i] * error[i]}; })[0];
}
std::vector<Slice> slices_of(const Layout& layout, JudgedSlices which = JudgedSlices::all);

/// Limits from draws, as spread_of takes them, and from what it says of them: the part of sigma^2 that they do not
/// scatter by is taken for independent from element to element. `weight` is 0 of elements that do not count, of those
/// without sigma among them; `witnesses` are answers of kernels that keep the contract, which no limit rejects: along
/// an axis in which one of their sums is beyond its limit, sigma is at least what they lean by, there and nearby. All
/// limits together reject a correct kernel with probability `false_alarm_rate`.
std::vector<SliceSum> expected_sums(const Runs& draws, const ExactRun& exact,
                                    const std::vector<std::vector<double>>& witnesses, const Layout& layout,
                                    const std::vector<double>& weight, const Spread& spread, double false_alarm_rate,
                                    JudgedSlices which = JudgedSlices::all, int threads = 1);

}  // namespace assay
