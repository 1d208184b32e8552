#pragma once
// Forward-mode differentiation: a value and its derivative along one direction. Judges every backward, because it
// shares no algebra with them.
#include <cmath>
#include <type_traits>
#include <utility>

namespace assay {

/// Comparisons look at the value alone. A slope of exactly zero marks a constant: it contributes nothing, even where
/// the derivative it multiplies is infinite (sqrt at 0, an operand of -inf), so constants never turn into NaN.
template <class S>
struct Dual {
  S value = S(0);
  S slope = S(0);

  Dual() = default;
  Dual(S v, S s = S(0)) : value(std::move(v)), slope(std::move(s)) {}
  template <class X>
  requires std::is_arithmetic_v<X> Dual(X v) : value(v) {}

  Dual& operator+=(const Dual& b) { return *this = *this + b; }
  Dual& operator-=(const Dual& b) { return *this = *this - b; }
  Dual& operator*=(const Dual& b) { return *this = *this * b; }
  Dual& operator/=(const Dual& b) { return *this = *this / b; }

  friend Dual operator+(const Dual& a) { return a; }
  friend Dual operator-(const Dual& a) { return {-a.value, -a.slope}; }
  friend Dual operator+(const Dual& a, const Dual& b) { return {a.value + b.value, a.slope + b.slope}; }
  friend Dual operator-(const Dual& a, const Dual& b) { return {a.value - b.value, a.slope - b.slope}; }
  friend Dual operator*(const Dual& a, const Dual& b) {
    return {a.value * b.value, times(a.slope, b.value) + times(b.slope, a.value)};
  }
  friend Dual operator/(const Dual& a, const Dual& b) {
    const S quotient = a.value / b.value;
    return {quotient, over(a.slope - times(b.slope, quotient), b.value)};
  }

  friend bool operator==(const Dual& a, const Dual& b) { return a.value == b.value; }
  friend bool operator!=(const Dual& a, const Dual& b) { return a.value != b.value; }
  friend bool operator<(const Dual& a, const Dual& b) { return a.value < b.value; }
  friend bool operator>(const Dual& a, const Dual& b) { return a.value > b.value; }
  friend bool operator<=(const Dual& a, const Dual& b) { return a.value <= b.value; }
  friend bool operator>=(const Dual& a, const Dual& b) { return a.value >= b.value; }

  friend Dual exp(const Dual& a) {
    using std::exp;
    const S power = exp(a.value);
    return {power, times(a.slope, power)};
  }
  friend Dual log(const Dual& a) {
    using std::log;
    return {log(a.value), over(a.slope, a.value)};
  }
  friend Dual sqrt(const Dual& a) {
    using std::sqrt;
    const S root = sqrt(a.value);
    return {root, over(a.slope, root + root)};
  }
  /// At zero, where the derivative does not exist, the slope passes unchanged.
  friend Dual abs(const Dual& a) { return a.value < S(0) ? -a : a; }
  /// A constant of that value: what the references hold fixed where a gradient is stopped.
  friend Dual stop_gradient(const Dual& a) { return {a.value}; }
  friend bool isfinite(const Dual& a) {
    using std::isfinite;
    return isfinite(a.value) && isfinite(a.slope);
  }
  friend bool isnan(const Dual& a) {
    using std::isnan;
    return isnan(a.value) || isnan(a.slope);
  }

 private:
  static S times(const S& slope, const S& factor) { return slope == S(0) ? slope : slope * factor; }
  static S over(const S& slope, const S& divisor) { return slope == S(0) ? slope : slope / divisor; }
};

}  // namespace assay
