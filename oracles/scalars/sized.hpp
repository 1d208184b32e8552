#pragma once
// A double that knows how large the numbers are that it is made of, whatever has cancelled since, and whether its
// arithmetic is exact in any order.
#include <bit>
#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

#include "oracles/scalars/scalar.hpp"

namespace assay {

/// `size` is the largest number on the way to this one, carried on by what it has been multiplied by since: that of a
/// difference is the larger operand's. `unit` is a power of two that all terms are multiples of, and `total` the sum of
/// their magnitudes: an accumulator of p bits holds every partial sum in any order if total <= 2^p unit. Where that is
/// not so once, or a quotient, root or exponential has no such unit, `unit` is 0 from there on.
struct Sized {
  double value = 0, size = 0, total = 0, unit = infinite;

  Sized() = default;
  Sized(double v)  // NOLINT(google-explicit-constructor): as the other scalars
      : value(v), size(std::fabs(v)), total(size), unit(lowest_bit(v)) {}

  /// Whether its arithmetic is exact in any order.
  bool exact() const { return unit > 0; }

  /// Bits of the accumulators of this thread, until it is called again.
  static void accumulate_in(int bits) { capacity = std::ldexp(1.0, bits); }

  Sized& operator+=(const Sized& b) { return *this = *this + b; }
  Sized& operator-=(const Sized& b) { return *this = *this - b; }
  Sized& operator*=(const Sized& b) { return *this = *this * b; }
  Sized& operator/=(const Sized& b) { return *this = *this / b; }

  friend Sized operator+(const Sized& a) { return a; }
  friend Sized operator-(const Sized& a) { return {-a.value, a.size, a.total, a.unit}; }
  friend Sized operator+(const Sized& a, const Sized& b) { return sum(a, b, a.value + b.value); }
  friend Sized operator-(const Sized& a, const Sized& b) { return sum(a, b, a.value - b.value); }
  friend Sized operator*(const Sized& a, const Sized& b) {
    if (a.total == 0 || b.total == 0) return {a.value * b.value, 0, 0, infinite};
    const double v = a.value * b.value;
    // Two differences that leave nothing may have been multiplied out.
    const double size = a.value == 0 && b.value == 0
                            ? a.size * b.size
                            : larger(larger(a.size * std::fabs(b.value), std::fabs(a.value) * b.size), std::fabs(v));
    return kept({v, size, a.total * b.total, a.unit * b.unit});
  }
  friend Sized operator/(const Sized& a, const Sized& b) {
    const double v = a.value / b.value, by = std::fabs(b.value);
    if (a.total == 0) return {v, 0, 0, infinite};
    return kept({v, larger(larger(a.size / by, std::fabs(v) * b.size / by), std::fabs(v)), a.total / by,
                 b.is_power_of_two() ? a.unit / by : 0});
  }

  friend bool operator==(const Sized& a, const Sized& b) { return a.value == b.value; }
  friend auto operator<=>(const Sized& a, const Sized& b) { return a.value <=> b.value; }

  friend Sized abs(const Sized& a) { return {std::fabs(a.value), a.size, a.total, a.unit}; }
  friend Sized sqrt(const Sized& a) {
    const double v = std::sqrt(a.value);
    if (a.total == 0 || (a.is_power_of_two() && v * v == a.value)) return v;
    return {v, v > 0 ? larger(a.size / (2 * v), v) : std::sqrt(a.size), v, 0};
  }
  friend Sized exp(const Sized& a) {
    const double v = std::exp(a.value);
    if (a.total == 0) return 1;  // of a difference that is zero it is not: kernels take 2^x of other multiples
    return {v, v * larger(a.size, 1), v, v == 0 ? infinite : 0};
  }
  friend Sized log(const Sized& a) {
    const double v = std::log(a.value);
    if (a.value == 1 && a.exact()) return 0;
    return {v, larger(a.size / a.value, std::fabs(v)), std::fabs(v), 0};
  }
  friend bool isfinite(const Sized& a) { return std::isfinite(a.value); }
  friend bool isnan(const Sized& a) { return std::isnan(a.value); }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();
  static inline thread_local double capacity = 0x1p53;

  Sized(double v, double s, double t, double u) : value(v), size(s), total(t), unit(u) {}

  static double larger(double a, double b) { return a > b ? a : b; }
  /// The power of two that ends x; infinite for 0, which is a multiple of all.
  static double lowest_bit(double x) {
    if (x == 0 || !std::isfinite(x)) return infinite;
    constexpr std::uint64_t fraction = 0x000fffffffffffff, exponent = 0x7ff0000000000000;
    const auto bits = std::bit_cast<std::uint64_t>(x);
    const double binade = std::bit_cast<double>(bits & exponent);
    if ((bits & fraction) == 0) return binade;
    return std::ldexp(binade, std::countr_zero(bits) - 52);  // 0 below the smallest normal number: of unknown unit
  }
  bool is_power_of_two() const {
    return exact() && total == std::fabs(value) && (std::bit_cast<std::uint64_t>(value) & 0x000fffffffffffff) == 0;
  }
  static Sized kept(Sized x) {
    if (!(x.total <= capacity * x.unit)) x.unit = 0;
    return x;
  }
  static Sized sum(const Sized& a, const Sized& b, double v) {
    if (a.total == 0) return {v, b.size, b.total, b.unit};
    if (b.total == 0) return {v, a.size, a.total, a.unit};
    return kept({v, larger(larger(a.size, b.size), std::fabs(v)), a.total + b.total, std::fmin(a.unit, b.unit)});
  }
};

template <>
struct ScalarTraits<Sized> {
  static std::string name() { return "sized"; }
  static double rounded(const Sized& x) { return x.value; }
};

}  // namespace assay
