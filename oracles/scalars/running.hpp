#pragma once
// Running error analysis (Wilkinson 1963; Higham, Accuracy and Stability of Numerical Algorithms, section 3.3).
#include <algorithm>
#include <cmath>
#include <limits>

#include "oracles/scalars/w2.hpp"

namespace assay {

/// A double and a bound on what rounding did to it: |value - exact| <= error * 2^-53.
///
/// The bound is rigorous: second-order terms, underflow and the rounding of the bound itself are included. To first
/// order, error * unit_roundoff(format) bounds the same algorithm in another format. Every operation is charged a full
/// rounding, lucky or not, so the bound holds for any machine; exp and log are W2's rounded to double. Infinite error
/// means that no bound is known. An infinity that comes from an infinite operand is exact, one from overflow is not.
struct Running {
  double value = 0;
  double error = 0;

  Running() = default;
  Running(double v, double e = 0) : value(v), error(e) {}

  Running& operator+=(const Running& b) { return *this = *this + b; }
  Running& operator-=(const Running& b) { return *this = *this - b; }
  Running& operator*=(const Running& b) { return *this = *this * b; }
  Running& operator/=(const Running& b) { return *this = *this / b; }

  friend Running operator+(const Running& a) { return a; }
  friend Running operator-(const Running& a) { return {-a.value, a.error}; }
  friend Running operator+(const Running& a, const Running& b) {
    const double sum = a.value + b.value;
    return bounded(sum, a.error + b.error + std::abs(sum), a, b);
  }
  friend Running operator-(const Running& a, const Running& b) { return a + -b; }
  friend Running operator*(const Running& a, const Running& b) {
    const double product = a.value * b.value;
    if (product == 0 && (a.exactly_zero() || b.exactly_zero())) return product;
    const double inherited = std::abs(a.value) * b.error + std::abs(b.value) * a.error + unit * a.error * b.error;
    return bounded(product, inherited + rounding(product), a, b);
  }
  friend Running operator/(const Running& a, const Running& b) {
    const double quotient = a.value / b.value, divisor = std::abs(b.value) - unit * b.error;
    if (divisor > 0 && a.exactly_zero()) return quotient;
    const double inherited = (a.error + std::abs(quotient) * b.error) / divisor;
    return bounded(quotient, divisor > 0 ? inherited + rounding(quotient) : unknown, a, b);
  }

  friend bool operator==(const Running& a, const Running& b) { return a.value == b.value; }
  friend auto operator<=>(const Running& a, const Running& b) { return a.value <=> b.value; }

  friend Running abs(const Running& a) { return {std::abs(a.value), a.error}; }
  /// The exact argument is taken to be in the domain, however far below zero its bound reaches.
  friend Running sqrt(const Running& a) {
    const double root = std::sqrt(a.value), lowest = std::sqrt(std::max(0.0, a.value - unit * a.error));
    if (a.error == 0) return bounded(root, root, a);
    if (root == 0) return bounded(root, std::sqrt(a.error / unit), a);
    return bounded(root, a.error / (root + lowest) + rounding(root), a);
  }
  friend Running exp(const Running& a) {
    const double power = exp_to_nearest(a.value), shift = unit * a.error;
    if (a.error == 0) return bounded(power, rounding(power), a);
    // exp(s) - 1 <= s + s^2 up to s = 1.79; beyond, exp(s) itself.
    const double growth = shift <= 1 ? a.error + a.error * shift : exp_to_nearest(shift) / unit;
    return bounded(power, std::max(power, smallest) * growth + rounding(power), a);
  }
  /// As for sqrt, the exact argument is taken to be positive.
  friend Running log(const Running& a) {
    const double logarithm = assay::log(W2(a.value)).hi, lowest = a.value - unit * a.error;
    if (a.exactly_zero()) return logarithm;
    return bounded(logarithm, lowest > 0 ? a.error / lowest + std::abs(logarithm) : unknown, a);
  }
  friend bool isfinite(const Running& a) { return std::isfinite(a.value); }
  friend bool isnan(const Running& a) { return std::isnan(a.value); }

 private:
  static constexpr double unit = 0x1p-53, smallest = std::numeric_limits<double>::min(),
                          unknown = std::numeric_limits<double>::infinity();

  bool exactly_zero() const { return value == 0 && error == 0; }
  bool exactly_infinite() const { return std::isinf(value) && error == 0; }

  /// One rounding of `result`: a relative one, or 2^-1075 below the normal range. The spare factor of eight there
  /// covers what underflows inside the bound.
  static double rounding(double result) {
    return std::abs(result) + (std::abs(result) < 2 * smallest ? 8 * smallest : 0);
  }

  /// At most eight operations formed `error`, all of them on numbers >= 0 but one: 1 + 2^-49 pays for their rounding.
  template <class... Operands>
  static Running bounded(double value, double error, const Operands&... operands) {
    if ((std::isinf(operands.error) || ...)) return {value, unknown};
    if ((operands.exactly_infinite() || ...)) return {value, std::isnan(value) ? unknown : 0};
    error *= 1 + 0x1p-49;
    return {value, std::isfinite(value) && !std::isnan(error) ? error : unknown};
  }
};

}  // namespace assay
