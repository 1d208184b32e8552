#pragma once
// Single numbers of up to four words, with a proven relative error: the scale of a read, the inverse bandwidth.
#include <array>

namespace assay::words {

/// A factor known to 2^-195 or exactly; its first W words serve an engine of W words.
struct Factor {
  std::array<double, 4> word{};
  double error = 0;  ///< relative, of all four words

  /// Bound on the relative error of the first `words` words.
  double error_of(int words) const;
};

/// x itself.
Factor exactly(double x);
/// 1 / x, x normal and not zero.
Factor reciprocal(double x);
/// 1 / sqrt(x), x > 0 normal.
Factor reciprocal_sqrt(double x);

}  // namespace assay::words
