#pragma once
// Operands for the tests of scalars: seeded, the same bits everywhere.
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

#include "oracles/scalars/scalar.hpp"

namespace assay::scalars {

inline constexpr double u = 0x1p-53;

/// mt19937_64 is fixed by the standard to the bit; the library's distributions are not. One draw per statement: the
/// order of evaluation inside an expression is the compiler's choice.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : bits_(seed) {}

  int integer(int low, int high) {
    return low + static_cast<int>(bits_() % static_cast<std::uint64_t>(high - low + 1));
  }
  /// A random sign, 52 random bits, an exponent from the range.
  double real(int lowest_exponent, int highest_exponent) {
    const std::uint64_t bits = bits_(), one = std::uint64_t{1023} << 52, sign = bits << 63;
    return std::ldexp(std::bit_cast<double>(bits >> 12 | one | sign), integer(lowest_exponent, highest_exponent));
  }
  /// A low word just under half an ulp, far below, or absent.
  W2 word_pair(int lowest_exponent, int highest_exponent) {
    constexpr int gaps[] = {54, 55, 61, 101, 151};
    const double high = real(lowest_exponent, highest_exponent);
    const int kind = integer(0, 5);
    if (kind == 5) return high;
    const double ratio = real(-gaps[kind], -gaps[kind]);
    return two_sum(high, high * ratio);
  }
  /// Close to -a, so that the leading words cancel, in part or wholly.
  W2 opposite(const W2& a) {
    const int kind = integer(0, 3);
    const double ratio = real(0, 0), distance = real(-110, -2);
    if (kind == 0) return two_sum(-a.hi, a.lo);
    if (kind == 1) return two_sum(-a.hi, -a.lo * ratio);
    if (kind == 2) return two_sum(std::nextafter(-a.hi, a.hi), a.lo);
    return -a * (W2(1) + W2(distance));
  }

 private:
  std::mt19937_64 bits_;
};

/// Exact while the words are less than 280 bits apart, which Draw guarantees.
inline Mp100 exact(const W2& x) { return Mp100(x.hi) + Mp100(x.lo); }

}  // namespace assay::scalars
