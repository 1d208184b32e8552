#pragma once
// A double that knows how large the numbers are that it is made of, whatever has cancelled since, and whether its
// arithmetic is exact in any order.
#include <bit>
#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

#include "oracles/scalars/held_in.hpp"
#include "oracles/scalars/scalar.hpp"
#include "reference/errors/lines.hpp"

namespace assay {

/// `size` is the largest number on the way to this one, carried on by what it has been multiplied by since: that of a
/// difference is the larger operand's.
///
/// `noise` is the sum of the squares of all numbers on that way, each carried on likewise: what they leave together
/// where each is rounded, one after the other. It counts where all has cancelled and nothing but roundings is left.
///
/// Its terms are of two kinds: multiples of `unit`, a power of two, with `total` as the sum of their magnitudes, and
/// the `rest`, the sum of the magnitudes of all others (quotients, roots, exponentials). An accumulator of p bits holds
/// every partial sum of the first, in any order, if total <= 2^p unit, and a rest below 2^-p of the unit leaves no
/// trace in any but zero. Where that is not so, all is rest from there on.
///
/// `factor` is the largest number that it, or a term of it, has been multiplied by. A product's operand may carry every
/// factor that comes later, and where that makes it smaller than the normal numbers of its format, it is off by as much
/// as the smallest of these is, beside a number that is no larger than `factor`.
struct Sized {
  double value = 0, size = 0, noise = 0, total = 0, unit = infinite, rest = 0, factor = 0;

  Sized() = default;
  Sized(double v)  // NOLINT(google-explicit-constructor): as the other scalars
      : value(v), size(std::fabs(v)), total(size), unit(lowest_bit(v)) {}

  /// Whether it is zero in every arithmetic.
  bool nothing() const { return total == 0 && rest == 0; }
  /// Whether it is the same number, to the bit, in any order of its arithmetic.
  bool exact() const { return rest == 0 || (total > 0 && std::fabs(value) > rest); }
  /// The size to which roundings are relative: 0 without any. Where only the rest comes and goes, no more than that; of
  /// numbers below the normal ones, what these leave. Of what has cancelled every rounding counts, two of them at one
  /// such size.
  double rounded_at() const {
    if (exact()) return 0;
    if (smallest_normal > 0) return smallest_normal * factor;
    if (total > 0 && rest * capacity < size) return rest * capacity;
    const double of_all = std::sqrt(noise / 2);
    return has_cancelled() && std::isfinite(of_all) ? larger(size, of_all) : size;
  }

  /// Whether such terms and such a rest are all rest. A quarter of a unit: the spacing below a power of two is half of
  /// that above, and what is half of it may round either way. No branches, for loops that vectorise.
  static bool spills(double total, double unit, double rest, double units) {
    return (total > 0) & !((total <= units * unit) & (rest <= unit / (4 * units)));
  }

  /// The numbers of this thread, until it is called again.
  static void hold_in(const HeldIn& numbers) {
    capacity = std::ldexp(1.0, numbers.bits), smallest_normal = numbers.smallest_normal;
  }

  Sized& operator+=(const Sized& b) { return *this = *this + b; }
  Sized& operator-=(const Sized& b) { return *this = *this - b; }
  Sized& operator*=(const Sized& b) { return *this = *this * b; }
  Sized& operator/=(const Sized& b) { return *this = *this / b; }

  friend Sized operator+(const Sized& a) { return a; }
  friend Sized operator-(const Sized& a) { return {-a.value, a.size, a.noise, a.total, a.unit, a.rest, a.factor}; }
  friend Sized operator+(const Sized& a, const Sized& b) { return sum(a, b, a.value + b.value); }
  friend Sized operator-(const Sized& a, const Sized& b) { return sum(a, b, a.value - b.value); }
  friend Sized operator*(const Sized& a, const Sized& b) {
    const double v = a.value * b.value;
    if (a.nothing() || b.nothing()) return {v, 0, 0, 0, infinite, 0};
    // Two differences that leave nothing that shows may have been multiplied out. Beside one, both errors multiply.
    const double both = a.size * b.size, left = std::fabs(a.value), right = std::fabs(b.value);
    const double of_factors = larger(larger(a.size * right, left * b.size), std::fabs(v));
    const bool cancelled = a.has_cancelled() && b.has_cancelled();
    const double largest = cancelled ? both : larger(both / capacity, of_factors);
    const double its_noise =
        noise_of(a, cancelled ? b.size : right, b, cancelled ? a.size : left, cancelled ? both : v);
    const double terms = a.total * b.total;
    const double its_factor = larger(larger(left, right), larger(a.factor, b.factor));
    return kept({v, largest, its_noise, terms, terms == 0 ? infinite : a.unit * b.unit,
                 a.total * b.rest + a.rest * b.total + a.rest * b.rest, its_factor});
  }
  friend Sized operator/(const Sized& a, const Sized& b) {
    const double v = a.value / b.value, by = std::fabs(b.value);
    if (a.nothing()) return {v, 0, 0, 0, infinite, 0};
    const double its_noise = noise_of(a, 1 / by, b, v / by, v);
    const double largest = larger(larger(a.size / by, std::fabs(v) * b.size / by), std::fabs(v));
    if (!b.is_power_of_two())
      return {v, largest, its_noise, 0, infinite, larger(largest, (a.total + a.rest) / by), a.factor};
    return kept({v, largest, its_noise, a.total / by, a.unit / by, (a.rest + a.total * b.rest / by) / by, a.factor});
  }

  // Whole lines at once: what the loops of reference/errors/lines.hpp do, to the bit.
  static void add_dot(Sized& sum, const Line<const Sized>& a, const Line<const Sized>& b) { add_dot(sum, a, b, 1); }
  static void subtract_dot(Sized& sum, const Line<const Sized>& a, const Line<const Sized>& b) {
    add_dot(sum, a, b, -1);
  }
  static void add_scaled(const Line<Sized>& y, const Sized& a, const Line<const Sized>& x) { add_scaled(y, a, x, 1); }
  static void subtract_scaled(const Line<Sized>& y, const Sized& a, const Line<const Sized>& x) {
    add_scaled(y, a, x, -1);
  }

  friend bool operator==(const Sized& a, const Sized& b) { return a.value == b.value; }
  friend auto operator<=>(const Sized& a, const Sized& b) { return a.value <=> b.value; }

  friend Sized abs(const Sized& a) { return {std::fabs(a.value), a.size, a.noise, a.total, a.unit, a.rest, a.factor}; }
  friend Sized sqrt(const Sized& a) {
    const double v = std::sqrt(a.value);
    if (a.nothing()) return v;
    if (a.is_power_of_two() && v * v == a.value)
      return kept({v, larger(a.size / (2 * v), v), noise_of(a, 1 / (2 * v), 0), v, v, a.rest / (2 * v)});
    return v > 0 ? inexact(v, larger(a.size / (2 * v), v), noise_of(a, 1 / (2 * v), v))
                 : inexact(v, std::sqrt(a.size), a.size);
  }
  friend Sized exp(const Sized& a) {
    const double v = std::exp(a.value);
    if (a.nothing()) return 1;  // of a difference that is zero it is not: kernels take 2^x of other multiples
    return v == 0 ? Sized(0) : inexact(v, v * larger(a.size, 1), noise_of(a, v, v));
  }
  friend Sized log(const Sized& a) {
    const double v = std::log(a.value);
    if (a.value == 1 && a.exact()) return a.rest == 0 ? Sized(0) : inexact(v, a.rest, a.rest * a.rest);
    return inexact(v, larger(a.size / a.value, std::fabs(v)), noise_of(a, 1 / a.value, v));
  }
  friend bool isfinite(const Sized& a) { return std::isfinite(a.value); }
  friend bool isnan(const Sized& a) { return std::isnan(a.value); }

 private:
  static void add_dot(Sized& sum, const Line<const Sized>& a, const Line<const Sized>& b, double sign);
  static void add_scaled(const Line<Sized>& y, const Sized& a, const Line<const Sized>& x, double sign);

  static constexpr double infinite = std::numeric_limits<double>::infinity();
  static inline thread_local double capacity = 0x1p53, smallest_normal = 0;

  Sized(double v, double s, double n, double t, double u, double r, double f = 0)
      : value(v), size(s), noise(n), total(t), unit(u), rest(r), factor(f) {}
  static Sized inexact(double v, double size, double noise) { return {v, size, noise, 0, infinite, size}; }
  /// That of a number, itself rounded at `own`, which moves with its operands so many times as far as they do.
  static double noise_of(const Sized& a, double times, double own) { return a.noise * times * times + own * own; }
  static double noise_of(const Sized& a, double times, const Sized& b, double by, double own) {
    return noise_of(a, times, own) + b.noise * by * by;
  }

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
  /// Whether it is less than one rounding of its terms.
  bool has_cancelled() const { return std::fabs(value) * capacity <= size; }
  bool is_power_of_two() const {
    return total > 0 && total == std::fabs(value) && (std::bit_cast<std::uint64_t>(value) & 0x000fffffffffffff) == 0;
  }
  static Sized kept(Sized x) {
    if (spills(x.total, x.unit, x.rest, capacity)) x.rest += x.total, x.total = 0, x.unit = infinite;
    return x;
  }
  static Sized sum(const Sized& a, const Sized& b, double v) {
    if (a.nothing()) return {v, b.size, b.noise, b.total, b.unit, b.rest, b.factor};
    if (b.nothing()) return {v, a.size, a.noise, a.total, a.unit, a.rest, a.factor};
    return kept({v, larger(larger(a.size, b.size), std::fabs(v)), noise_of(a, 1, b, 1, v), a.total + b.total,
                 std::fmin(a.unit, b.unit), a.rest + b.rest, larger(a.factor, b.factor)});
  }
};

template <>
struct ScalarTraits<Sized> {
  static std::string name() { return "sized"; }
  static double rounded(const Sized& x) { return x.value; }
};

}  // namespace assay
