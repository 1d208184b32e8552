#include "oracles/scalars/ball.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "oracles/scalars/decimal.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

using boost::multiprecision::cpp_int;

/// The finite number x, exactly.
Dyadic dyadic(const arf_t x) {
  fmpz_t mantissa, exponent;
  fmpz_init(mantissa), fmpz_init(exponent);
  arf_get_fmpz_2exp(mantissa, exponent, x);
  char* digits = fmpz_get_str(nullptr, 16, mantissa);
  const bool negative = digits[0] == '-';
  Dyadic result{cpp_int(std::string("0x") + (negative ? digits + 1 : digits)), fmpz_get_si(exponent)};
  if (negative) result.mantissa = -result.mantissa;
  flint_free(digits);
  fmpz_clear(mantissa), fmpz_clear(exponent);
  return result;
}

}  // namespace

Ball Ball::parse(std::string_view text) {
  if (const auto special = parse_nonfinite(text)) return {*special};
  // Refuses what is no number; the exponents it accepts are within arb's.
  read_decimal(text);
  Ball x;
  const std::string copy(text);
  require(arb_set_str(x.x_, copy.c_str(), BallPrecision::bits()) == 0, "'", text, "' is not a number");
  return x;
}

double Ball::largest_size() const {
  mag_t size;
  mag_init(size);
  arb_get_mag(size, x_);
  arf_t bound;
  arf_init(bound);
  arf_set_mag(bound, size);
  // Not mag_get_d, which knows nothing below 2^-1000.
  const double upper = arf_get_d(bound, ARF_RND_UP);
  arf_clear(bound);
  mag_clear(size);
  return upper;
}

std::optional<std::string> Ball::decimal(int digits) const {
  if (!arb_is_finite(x_)) {
    if (!mag_is_zero(arb_radref(x_)) || arf_is_nan(arb_midref(x_))) return std::nullopt;
    return arf_sgn(arb_midref(x_)) < 0 ? "-inf" : "inf";
  }
  if (arb_is_exact(x_)) return format_decimal(dyadic(arb_midref(x_)), digits);
  // Rounding to nearest is monotonic: what both ends round to, all between do.
  arf_t low, high;
  arf_init(low), arf_init(high);
  arb_get_interval_arf(low, high, x_, BallPrecision::bits() + 64);
  std::optional<std::string> text = format_decimal(dyadic(low), digits);
  if (*text != format_decimal(dyadic(high), digits)) text.reset();
  arf_clear(low), arf_clear(high);
  return text;
}

std::string Ball::middle_decimal(int digits) const {
  if (arf_is_nan(arb_midref(x_))) return "nan";
  if (arf_is_inf(arb_midref(x_))) return arf_sgn(arb_midref(x_)) < 0 ? "-inf" : "inf";
  return format_decimal(dyadic(arb_midref(x_)), digits);
}

std::array<double, 1> Ball::nearest() const {
  const double x = middle(), rest = radius() + 0x1p-52 * std::fabs(x);
  const bool near = rest <= std::max(0x1p-50 * std::fabs(x), 0x1p-701);
  return {near ? x : std::numeric_limits<double>::quiet_NaN()};
}

ErrorBound Ball::take_joint_error(Ball* first, int n) {
  ErrorBound joint;
  if (n > 0) mag_set(joint.m_, arb_radref(first->x_));
  for (int i = 0; i < n; ++i) mag_zero(arb_radref(first[i].x_));
  return joint;
}

ErrorBound Ball::take_errors(Ball* first, int n) {
  ErrorBound squares;
  for (int i = 0; i < n; ++i) {
    mag_ptr radius = arb_radref(first[i].x_);
    mag_addmul(squares.m_, radius, radius);
    mag_zero(radius);
  }
  return sqrt(std::move(squares));
}

void Ball::set_joint_error(Ball* first, int n, const ErrorBound& error) {
  for (int i = 0; i < n; ++i) mag_set(arb_radref(first[i].x_), error.m_);
}

}  // namespace assay
