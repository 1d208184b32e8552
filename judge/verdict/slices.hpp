#pragma once
// Signed sums of error / sigma over heads, chunks of tokens, positions in a chunk and columns: what leans to one side
// is seen here long before any element is beyond its limit. docs/judge-derivation.md derives the limits.
#include <string>
#include <vector>

#include "judge/sigma/spread.hpp"

namespace assay {

/// Rows are counted in chunks of this many; only in tensors of more rows.
inline constexpr int slice_chunk = 64;

/// Elements that one index of an axis has in common.
struct Slice {
  enum class Axis { tensor, head, chunk, position, column };
  Axis axis;
  int index;
  /// "the whole tensor", "head 2", "rows 64 to 127", "position 3 of every chunk of 64", "column 5"
  std::string name() const;
};

/// What is expected of the sum of error / sigma over the slice, of a correct kernel.
struct SliceSum {
  Slice slice;
  double sigma;          ///< standard deviation; 0: the slice has nothing that may be off
  double reach;          ///< multiple of sigma that no correct kernel's sum exceeds
  bool widened = false;  ///< sigma is what a witness leans by, here or next to it
};

/// The sums of weight * error over all slices of a tensor of that layout, in the order of slices_of. Axes along which
/// there is one index are left out.
std::vector<double> slice_sums(const Layout& layout, const std::vector<double>& weight,
                               const std::vector<double>& error);
std::vector<Slice> slices_of(const Layout& layout);

/// Limits from draws under jittered rounding, as spread_of takes them. `weight` is 1 / sigma of every element, 0 of
/// those that do not count; `undrawn` is the part of sigma^2 that the draws do not scatter by, taken for independent
/// from element to element; `witnesses` are answers of kernels that keep the contract, which no limit rejects: along an
/// axis in which one of their sums is beyond its limit, sigma is at least what they lean by, there and nearby. All
/// limits together reject a correct kernel with probability `false_alarm_rate`.
std::vector<SliceSum> expected_sums(const std::vector<std::vector<double>>& draws, const ExactRun& exact,
                                    const std::vector<std::vector<double>>& witnesses, const Layout& layout,
                                    const std::vector<double>& weight, const std::vector<double>& undrawn,
                                    double false_alarm_rate);

}  // namespace assay
