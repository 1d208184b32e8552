#pragma once
// A number of a narrow format, so that a reference runs in that arithmetic, operation by operation.
#include <bit>
#include <cmath>
#include <compare>
#include <cstdint>

#include "oracles/scalars/perturbed.hpp"
#include "oracles/scalars/scalar.hpp"
#include "reference/core/rounding.hpp"
#include "reference/errors/kept.hpp"
#include "reference/errors/lines.hpp"

namespace assay {

/// How the operations of Emulated round on this thread while it lives. Exact and fp64 are double itself. One at a time;
/// the one before is back when it ends.
class EmulatedArithmetic {
 public:
  struct Formats {
    Format operations = Format::exact;
    Format operands = Format::exact;   ///< of what a kernel would keep for a product
    Format states = Format::exact;     ///< of what a recurrence carries from token to token
    Format gradients = Format::exact;  ///< of the states' gradients, which it carries back
    /// Exponentials are off by up to two units in the last place of fp32 in random rounding, as ex2.approx is.
    bool approximate_exponentials = false;
  };

  EmulatedArithmetic(const Formats& formats, Rounding rounding, std::uint64_t seed)
      : formats_(formats), rounding_(rounding), random_{seed, 0}, before_(current) {
    current = this;
  }
  EmulatedArithmetic(const EmulatedArithmetic&) = delete;
  EmulatedArithmetic& operator=(const EmulatedArithmetic&) = delete;
  ~EmulatedArithmetic() { current = before_; }

  /// Rounds an operation's exact result, of which x is a double's worth: for numbers of at most 25 bits, a sum,
  /// product, quotient or root rounds as if it had come in one step (Figueroa, SIGNUM Newsletter 30, 1995).
  static double rounded(double x) { return current == nullptr ? x : current->to(current->formats_.operations, x); }
  /// Rounds x as a product reads it.
  static double kept(double x) { return current == nullptr ? x : current->to(current->formats_.operands, x); }
  /// Whether what is carried from token to token is stored in fewer bits.
  static bool stores(Kept what) {
    if (current == nullptr) return false;
    return (what == Kept::state ? current->formats_.states : current->formats_.gradients) != Format::exact;
  }
  /// Rounds x as it is carried from token to token.
  static double carried(Kept what, double x) {
    if (current == nullptr) return x;
    return current->to(what == Kept::state ? current->formats_.states : current->formats_.gradients, x);
  }
  /// Rounds the exact result of an exponential.
  static double exponential(double power) {
    return current == nullptr ? power : current->to(current->formats_.operations, current->approximated(power));
  }

 private:
  double to(Format format, double x) {
    if (format == Format::exact) return x;
    if (format == Format::fp64) return rounding_ == Rounding::jittered ? jittered_fp64(x) : x;
    if (rounding_ == Rounding::jittered && format == Format::fp32) return jittered_fp32(x);
    if (rounding_ != Rounding::nearest_even) return round_to(x, format, rounding_, random_.next());
    return format == Format::fp32 ? static_cast<double>(static_cast<float>(x)) : round_to(x, format);
  }

  /// Rounding::jittered to fp32, in two operations on the bits: uniform numbers are added to those below its last one,
  /// and these cut off. That is what sigma of a recurrence costs.
  double jittered_fp32(double x) {
    const auto bits = std::bit_cast<std::uint64_t>(x), magnitude = bits & ~(std::uint64_t{1} << 63);
    // Where fp32 is normal; elsewhere its grid is another one.
    constexpr std::uint64_t least = std::uint64_t{1023 - 126} << 52, beyond = std::uint64_t{1023 + 127} << 52;
    if (magnitude < least || magnitude >= beyond)
      return x == 0 ? x : round_to(x, Format::fp32, Rounding::jittered, random_.next());
    constexpr std::uint64_t below = (std::uint64_t{1} << 29) - 1;
    if ((bits & below) == 0) return x;
    return std::bit_cast<double>((bits + (random_.next() >> 35)) & ~below);
  }

  /// The operation has rounded to nearest already. A step up or down, each in one case of twelve,
  /// has twice the variance of that.
  double jittered_fp64(double x) {
    const std::uint64_t random = random_.next();
    constexpr std::uint64_t twelfth = ~std::uint64_t{0} / 12;
    if (x == 0 || random >= 2 * twelfth) return x;
    return std::nextafter(x, random < twelfth ? 2 * x : 0);
  }

  /// Errs as draws do, whose variance is twice that of a kernel's roundings: uniform within sqrt(2) times two units.
  double approximated(double power) {
    if (!formats_.approximate_exponentials || rounding_ != Rounding::jittered) return power;
    const double uniform = static_cast<double>(random_.next() >> 11) * 0x1p-53 - 0.5;
    return power * (1 + uniform * 2 * 1.4142135623730951 * 2 * 0x1p-23);
  }

  Formats formats_;
  Rounding rounding_;
  RandomBits random_;
  EmulatedArithmetic* before_;
  static inline thread_local EmulatedArithmetic* current = nullptr;
};

/// A double that every operation rounds, or that errs as PerturbedArithmetic has it where there is one. Numbers that
/// come in are taken as they are.
struct Emulated {
  double value = 0;

  Emulated() = default;
  Emulated(double v) : value(v) {}  // NOLINT(google-explicit-constructor): as the other scalars

  Emulated& operator+=(const Emulated& b) { return *this = *this + b; }
  Emulated& operator-=(const Emulated& b) { return *this = *this - b; }
  Emulated& operator*=(const Emulated& b) { return *this = *this * b; }
  Emulated& operator/=(const Emulated& b) { return *this = *this / b; }

  friend Emulated operator+(const Emulated& a) { return a; }
  friend Emulated operator-(const Emulated& a) { return -a.value; }
  friend Emulated operator+(const Emulated& a, const Emulated& b) { return rounded(a.value + b.value); }
  friend Emulated operator-(const Emulated& a, const Emulated& b) { return rounded(a.value - b.value); }
  friend Emulated operator*(const Emulated& a, const Emulated& b) { return rounded(a.value * b.value); }
  friend Emulated operator/(const Emulated& a, const Emulated& b) { return rounded(a.value / b.value); }

  static void add_dot(Emulated& sum, const Line<const Emulated>& a, const Line<const Emulated>& b) {
    if (PerturbedArithmetic* perturbed = PerturbedArithmetic::current())
      sum.value = perturbed->dot(sum.value, strided(a), strided(b), 1);
    else
      for (int i = 0; i < a.size; ++i) sum += a[i] * b[i];
  }
  static void subtract_dot(Emulated& sum, const Line<const Emulated>& a, const Line<const Emulated>& b) {
    if (PerturbedArithmetic* perturbed = PerturbedArithmetic::current())
      sum.value = perturbed->dot(sum.value, strided(a), strided(b), -1);
    else
      for (int i = 0; i < a.size; ++i) sum -= a[i] * b[i];
  }
  static void add_scaled(const Line<Emulated>& y, const Emulated& a, const Line<const Emulated>& x) {
    if (PerturbedArithmetic* perturbed = PerturbedArithmetic::current())
      perturbed->add_scaled(numbers(y), y.step, a.value, strided(x), 1);
    else
      for (int i = 0; i < x.size; ++i) y[i] += a * x[i];
  }
  static void subtract_scaled(const Line<Emulated>& y, const Emulated& a, const Line<const Emulated>& x) {
    if (PerturbedArithmetic* perturbed = PerturbedArithmetic::current())
      perturbed->add_scaled(numbers(y), y.step, a.value, strided(x), -1);
    else
      for (int i = 0; i < x.size; ++i) y[i] -= a * x[i];
  }
  static bool errs() { return PerturbedArithmetic::current() != nullptr; }
  static bool stores_states() {
    return errs() && PerturbedArithmetic::current()->states() == PerturbedArithmetic::States::stored;
  }
  static void add_left_over(const Line<Emulated>& y, const Emulated& left, const Line<const Emulated>& m) {
    if (errs()) add_scaled(y, left, m);
  }

  static void keep(Kept what, const Line<Emulated>& line) {
    if (errs()) return;
    for (int i = 0; i < line.size; ++i) line[i].value = EmulatedArithmetic::carried(what, line[i].value);
  }

  friend bool operator==(const Emulated& a, const Emulated& b) { return a.value == b.value; }
  friend auto operator<=>(const Emulated& a, const Emulated& b) { return a.value <=> b.value; }

  friend Emulated abs(const Emulated& a) { return std::abs(a.value); }
  friend Emulated sqrt(const Emulated& a) { return rounded(std::sqrt(a.value)); }
  /// libm's differ between machines.
  friend Emulated exp(const Emulated& a) {
    const double power = exp_to_nearest(a.value);
    PerturbedArithmetic* perturbed = PerturbedArithmetic::current();
    return perturbed != nullptr ? perturbed->exponential(power) : EmulatedArithmetic::exponential(power);
  }
  friend Emulated log(const Emulated& a) { return rounded(assay::log(W2(a.value)).hi); }
  friend bool isfinite(const Emulated& a) { return std::isfinite(a.value); }
  friend bool isnan(const Emulated& a) { return std::isnan(a.value); }

 private:
  static Emulated rounded(double x) {
    if (PerturbedArithmetic* perturbed = PerturbedArithmetic::current()) return perturbed->operation(x);
    return EmulatedArithmetic::rounded(x);
  }
  static double* numbers(const Line<Emulated>& line) { return line.first == nullptr ? nullptr : &line.first->value; }
  static Strided strided(const Line<const Emulated>& line) {
    return {line.first == nullptr ? nullptr : &line.first->value, line.step, line.size};
  }
};
static_assert(sizeof(Emulated) == sizeof(double));

template <>
struct ScalarTraits<Emulated> {
  static std::string name() { return "emulated"; }
  static double rounded(const Emulated& x) { return x.value; }
};

}  // namespace assay
