#include "oracles/scalars/rational.hpp"

#include <cmath>
#include <limits>

#include "oracles/scalars/decimal.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

using boost::multiprecision::cpp_int;
using boost::multiprecision::cpp_rational;

[[noreturn]] void refuse(const char* what, const cpp_rational& x) {
  throw Refusal(Status::unsupported, -1, text("exact: ", what, "(", x.str(), ") is not rational"));
}

cpp_rational power_of_two(long n) {
  const cpp_int power = cpp_int(1) << static_cast<unsigned>(std::abs(n));
  return n < 0 ? cpp_rational(1, power) : cpp_rational(power);
}

cpp_rational power_of_ten(long n) {
  const cpp_int power = pow(cpp_int(10), static_cast<unsigned>(std::abs(n)));
  return n < 0 ? cpp_rational(1, power) : cpp_rational(power);
}

/// The root of a square; false if n is none.
bool root_of(const cpp_int& n, cpp_int& root) {
  cpp_int rest;
  root = boost::multiprecision::sqrt(n, rest);
  return rest == 0;
}

}  // namespace

Rational::Rational(double x) {
  if (!std::isfinite(x)) {
    require(!(x > 0), "exact: ", x, " has no place in exact arithmetic");
    kind_ = x < 0 ? Kind::minus_infinity : Kind::undefined;
    return;
  }
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  value_ = cpp_rational(cpp_int(std::ldexp(fraction, 53))) * power_of_two(exponent - 53);
}

Rational Rational::parse(std::string_view text) {
  if (const auto special = parse_nonfinite(text)) return {*special};
  const auto [is_negative, digits, ten] = read_decimal(text);
  if (digits.empty()) return {0.0};
  require(std::abs(ten) <= 4000, "exact: '", text, "' has an exponent beyond 4000");
  const cpp_int mantissa(digits);
  return Rational(cpp_rational((is_negative ? cpp_rational(-mantissa) : cpp_rational(mantissa)) * power_of_ten(ten)));
}

Rational& Rational::operator/=(const Rational& b) {
  if (b.finite() == 0) throw Refusal(Status::nonfinite, -1, "exact: division by zero");
  return set(Number(finite() / b.finite()));
}

Rational exp(const Rational& a) {
  if (a.kind_ == Rational::Kind::minus_infinity) return {0};
  if (a.kind_ == Rational::Kind::logarithm) return Rational(a.value_);
  if (a.finite() == 0) return {1};
  refuse("exp", a.value_);
}

Rational log(const Rational& a) {
  if (a.finite() == 1) return {0};
  if (a.value_ <= 0) refuse("log", a.value_);
  Rational result(a.value_);
  result.kind_ = Rational::Kind::logarithm;
  return result;
}

Rational sqrt(const Rational& a) {
  cpp_int above, below;
  const bool square = a.finite() >= 0 && root_of(numerator(a.value_), above) && root_of(denominator(a.value_), below);
  if (!square) refuse("sqrt", a.value_);
  return Rational(cpp_rational(above, below));
}

std::string Rational::decimal(int digits) const {
  require(digits >= 1, "digits must be at least 1, not ", digits);
  if (kind_ != Kind::finite) return kind_ == Kind::undefined ? "nan" : "-inf";
  if (value_ == 0) return "0.0";
  const cpp_rational size = abs(value_);
  const cpp_int limit = pow(cpp_int(10), static_cast<unsigned>(digits));
  // Too small an exponent gives too many digits; coming from below, the first that fits is right.
  const auto bits = static_cast<long>(msb(numerator(size))) - static_cast<long>(msb(denominator(size)));
  auto exponent = static_cast<long>(std::floor(static_cast<double>(bits - 1) * std::log10(2.0))) - 1;
  cpp_int scaled;
  for (;; ++exponent) {
    const cpp_rational exact = size * power_of_ten(digits - 1 - exponent);
    cpp_int rest;
    divide_qr(cpp_int(2 * numerator(exact)), denominator(exact), scaled, rest);
    const bool tie = rest == 0 && bit_test(scaled, 0);
    scaled = (scaled + 1) >> 1;
    if (tie && bit_test(scaled, 0)) --scaled;  // to even
    if (scaled < limit) break;
  }
  std::string text = scaled.str();
  if (digits > 1) text.insert(1, ".");
  if (exponent != 0) text += (exponent > 0 ? "e+" : "e") + std::to_string(exponent);
  return (value_ < 0 ? "-" : "") + text;
}

Rational Rational::undefined() { return {std::numeric_limits<double>::quiet_NaN()}; }

const Rational::Number& Rational::finite() const {
  if (kind_ == Kind::logarithm) refuse("log", value_);
  if (kind_ != Kind::finite) throw Refusal(Status::unsupported, -1, text("exact: arithmetic with ", decimal(1)));
  return value_;
}

int Rational::compare(const Rational& a, const Rational& b) {
  const bool a_least = a.kind_ == Kind::minus_infinity, b_least = b.kind_ == Kind::minus_infinity;
  if (a_least || b_least) return static_cast<int>(b_least) - static_cast<int>(a_least);
  return a.finite().compare(b.finite());
}

}  // namespace assay
