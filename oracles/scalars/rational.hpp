#pragma once
// Rational: exact to the last bit, for rules without exp, log and sqrt, or where those are rational: gates that are
// open or closed, roots of squares. Anything else is refused (UNSUPPORTED), never rounded. A number that does not exist
// is NaN, which may be added to and printed, no more.
#include <boost/multiprecision/cpp_int.hpp>
#include <string>
#include <string_view>

namespace assay {

class Rational {
 public:
  using Number = boost::multiprecision::cpp_rational;

  Rational() = default;
  /// Exactly that number; -inf is a closed gate, +inf is refused.
  // As with the other scalars, S(1) and S(K) are how references write numbers.
  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions)
  Rational(double x);
  explicit Rational(Number x) : value_(std::move(x)) {}

  /// The number that `text` stands for, exactly; "-inf" and "nan" too. Throws InputError on anything else.
  static Rational parse(std::string_view text);

  const Number& value() const { return value_; }

  Rational operator-() const { return Rational(Number(-finite())); }
  Rational& operator+=(const Rational& b) {
    return kind_ == Kind::undefined || b.kind_ == Kind::undefined ? *this = undefined()
                                                                  : set(Number(finite() + b.finite()));
  }
  Rational& operator-=(const Rational& b) { return set(Number(finite() - b.finite())); }
  Rational& operator*=(const Rational& b) { return set(Number(finite() * b.finite())); }
  /// Throws Refusal (NONFINITE) if `b` is zero.
  Rational& operator/=(const Rational& b);
  friend Rational operator+(Rational a, const Rational& b) { return a += b; }
  friend Rational operator-(Rational a, const Rational& b) { return a -= b; }
  friend Rational operator*(Rational a, const Rational& b) { return a *= b; }
  friend Rational operator/(Rational a, const Rational& b) { return a /= b; }

  friend bool operator==(const Rational& a, const Rational& b) { return compare(a, b) == 0; }
  friend bool operator!=(const Rational& a, const Rational& b) { return compare(a, b) != 0; }
  friend bool operator<(const Rational& a, const Rational& b) { return compare(a, b) < 0; }
  friend bool operator>(const Rational& a, const Rational& b) { return compare(a, b) > 0; }
  friend bool operator<=(const Rational& a, const Rational& b) { return compare(a, b) <= 0; }
  friend bool operator>=(const Rational& a, const Rational& b) { return compare(a, b) >= 0; }

  friend Rational exp(const Rational& a);
  friend Rational log(const Rational& a);
  friend Rational sqrt(const Rational& a);
  friend Rational abs(const Rational& a) { return a.finite() < 0 ? -a : a; }
  /// Refuses a logarithm.
  friend bool isfinite(const Rational& a) {
    if (a.kind_ == Kind::logarithm) a.finite();
    return a.kind_ == Kind::finite;
  }
  friend bool isnan(const Rational& a) { return a.kind_ == Kind::undefined; }

  /// `digits` >= 1 significant digits, rounded to nearest, as format_decimal prints them.
  std::string decimal(int digits) const;

 private:
  static Rational undefined();
  const Number& finite() const;
  Rational& set(Number x) {
    value_ = std::move(x);
    return *this;
  }
  static int compare(const Rational& a, const Rational& b);

  Number value_ = 0;
  /// A logarithm keeps its argument as its value: its exponential is rational again.
  enum class Kind { finite, minus_infinity, undefined, logarithm } kind_ = Kind::finite;
};

}  // namespace assay
