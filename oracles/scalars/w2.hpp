#pragma once
// W2: a number of about 106 bits as the unevaluated sum of two doubles.
//
// Relative error bounds, u = 2^-53, for finite operands and results:
//   + -        3u^2 + 13u^3   AccurateDWPlusDW  (Joldes, Muller, Popescu 2017, algorithm 6), cancellation included
//   *          5u^2           DWTimesDW3        (same, algorithm 12)
//   /          15u^2 + 56u^3  DWDivDW2          (same, algorithm 17)
//   sqrt       25/8 u^2       SQRTDWtoDW        (Lefevre, Louvet, Muller, Picot, Rideau 2023)
//   exp        5u^2           derived in w2.cpp; measured 1.8u^2 (300,000 arguments)
//   log        35u^2          derived in w2.cpp, near 1 too; measured 6.3u^2 (same)
// Near underflow * / sqrt exp lose an absolute error: see w2_underflow.
//
// Only + - * / sqrt fma, all correctly rounded by IEEE 754: the same bits under every compiler and machine.
// Needs -ffp-contract=off and round to nearest.
#include <cmath>
#include <compare>
#include <span>

namespace assay {

struct W2 {
  double hi = 0;  ///< the value rounded to double
  double lo = 0;  ///< the rest, |lo| <= ulp(hi) / 2; zero when hi is not finite

  W2() = default;
  W2(double value) : hi(value) {}
  /// Takes the pair as it is: `high` must equal the rounded sum.
  W2(double high, double low) : hi(high), lo(low) {}

  W2& operator+=(const W2& b);
  W2& operator-=(const W2& b);
  W2& operator*=(const W2& b);
  W2& operator/=(const W2& b);

  friend bool operator==(const W2&, const W2&) = default;
  friend std::partial_ordering operator<=>(const W2& a, const W2& b) {
    const auto order = a.hi <=> b.hi;
    return order == 0 ? a.lo <=> b.lo : order;
  }
};

/// Absolute error that one * adds to its relative bound; / adds this times (1 + 1 / |divisor|), sqrt this / |root|,
/// exp this. It stands for at most eight residues or results lost below 2^-1074.
inline constexpr double w2_underflow = 0x1p-1071;

/// a + b exactly, any order of magnitude (Knuth).
inline W2 two_sum(double a, double b) {
  const double sum = a + b, part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

/// a * b exactly, unless the product's last bit is below 2^-1074.
inline W2 two_product(double a, double b) {
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}

/// a + b exactly for |a| >= |b| (Dekker). A sum that is not finite carries no low word, so infinities stay infinities.
inline W2 fast_two_sum(double a, double b) {
  const double sum = a + b;
  return std::isfinite(sum) ? W2(sum, b - (sum - a)) : W2(sum);
}

inline W2 operator+(const W2& a) { return a; }
inline W2 operator-(const W2& a) { return {-a.hi, -a.lo}; }

inline W2 operator+(const W2& a, const W2& b) {
  const W2 high = two_sum(a.hi, b.hi);
  if (!std::isfinite(high.hi)) return high.hi;
  const W2 low = two_sum(a.lo, b.lo);
  const W2 sum = fast_two_sum(high.hi, high.lo + low.hi);
  return fast_two_sum(sum.hi, low.lo + sum.lo);
}
inline W2 operator-(const W2& a, const W2& b) { return a + -b; }

inline W2 operator*(const W2& a, const W2& b) {
  const W2 high = two_product(a.hi, b.hi);
  if (!std::isfinite(high.hi)) return high.hi;
  const double cross = std::fma(a.lo, b.hi, std::fma(a.hi, b.lo, a.lo * b.lo));
  return fast_two_sum(high.hi, high.lo + cross);
}

inline W2 operator/(const W2& a, const W2& b) {
  const double quotient = a.hi / b.hi;
  if (!std::isfinite(quotient) || std::isinf(b.hi)) return quotient;
  const W2 high = two_product(b.hi, quotient);
  const W2 product = fast_two_sum(high.hi, b.lo * quotient);
  const W2 back = fast_two_sum(product.hi, product.lo + high.lo);
  const double rest = (a.hi - back.hi) + (a.lo - back.lo);
  return fast_two_sum(quotient, rest / b.hi);
}

inline W2& W2::operator+=(const W2& b) { return *this = *this + b; }
inline W2& W2::operator-=(const W2& b) { return *this = *this - b; }
inline W2& W2::operator*=(const W2& b) { return *this = *this * b; }
inline W2& W2::operator/=(const W2& b) { return *this = *this / b; }

inline W2 abs(const W2& a) { return std::signbit(a.hi) ? -a : a; }
inline bool isfinite(const W2& a) { return std::isfinite(a.hi); }
inline bool isnan(const W2& a) { return std::isnan(a.hi); }

/// Negative gives NaN, zero and infinity give themselves.
inline W2 sqrt(const W2& a) {
  const double root = std::sqrt(a.hi);
  if (!(root > 0) || std::isinf(root)) return root;
  const double rest = std::fma(-root, root, a.hi) + a.lo;
  return fast_two_sum(root, rest / (2 * root));
}

/// exp(-inf) = 0; overflow gives infinity, underflow zero or a subnormal.
W2 exp(const W2& x);

/// exp(x).hi, to the bit and ten times as soon.
double exp_to_nearest(double x);

/// log(0) = -inf; negative gives NaN.
W2 log(const W2& x);

/// 2^(j/64) = (hi + lo)(1 + tail): hi and lo are rounded, tail is what they miss.
struct W2Node {
  double hi, lo, tail;
};
/// The table of exp and log, for j from 0 to 64.
std::span<const W2Node> w2_nodes();

}  // namespace assay
