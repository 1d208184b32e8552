#pragma once
// A number of a narrow format, so that a reference runs in that arithmetic, operation by operation.
#include <cmath>
#include <compare>
#include <cstdint>

#include "oracles/scalars/perturbed.hpp"
#include "oracles/scalars/scalar.hpp"
#include "reference/core/lines.hpp"
#include "reference/core/rounding.hpp"

namespace assay {

/// How the operations of Emulated round on this thread while it lives: to `operations`, and what a kernel would keep
/// for a product to `operands`. Exact and fp64 are double itself. One at a time; the one before is back when it ends.
class EmulatedArithmetic {
 public:
  EmulatedArithmetic(Format operations, Format operands, Rounding rounding, std::uint64_t seed)
      : operations_(operations), operands_(operands), rounding_(rounding), random_{seed, 0}, before_(current) {
    current = this;
  }
  EmulatedArithmetic(const EmulatedArithmetic&) = delete;
  EmulatedArithmetic(EmulatedArithmetic&&) = delete;
  EmulatedArithmetic& operator=(const EmulatedArithmetic&) = delete;
  EmulatedArithmetic& operator=(EmulatedArithmetic&&) = delete;
  ~EmulatedArithmetic() { current = before_; }

  /// What an operation makes of its exact result x, which is a double's worth of it: of numbers of at most 25 bits, a
  /// sum, product, quotient or root rounds as if it had come in one step (Figueroa, SIGNUM Newsletter 30, 1995).
  static double rounded(double x) { return current == nullptr ? x : current->to(current->operations_, x); }
  /// What a product reads of x.
  static double kept(double x) { return current == nullptr ? x : current->to(current->operands_, x); }

 private:
  double to(Format format, double x) {
    if (format == Format::exact || format == Format::fp64) return x;
    if (rounding_ != Rounding::nearest_even) return round_to(x, format, rounding_, random_.next());
    return format == Format::fp32 ? static_cast<double>(static_cast<float>(x)) : round_to(x, format);
  }

  Format operations_, operands_;
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
  static void add_left_over(const Line<Emulated>& y, const Emulated& left, const Line<const Emulated>& m) {
    if (PerturbedArithmetic::current() != nullptr) add_scaled(y, left, m);
  }

  friend bool operator==(const Emulated& a, const Emulated& b) { return a.value == b.value; }
  friend auto operator<=>(const Emulated& a, const Emulated& b) { return a.value <=> b.value; }

  friend Emulated abs(const Emulated& a) { return std::abs(a.value); }
  friend Emulated sqrt(const Emulated& a) { return rounded(std::sqrt(a.value)); }
  /// libm's differ between machines.
  friend Emulated exp(const Emulated& a) {
    const double power = assay::exp(W2(a.value)).hi;
    PerturbedArithmetic* perturbed = PerturbedArithmetic::current();
    return perturbed != nullptr ? Emulated(perturbed->exponential(power)) : rounded(power);
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
