#include "oracles/scalars/scalar.hpp"

#include <utility>

#include "reference/core/parse_number.hpp"

namespace assay {
namespace {

using boost::multiprecision::cpp_int;

Dyadic dyadic(double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return {cpp_int(std::ldexp(fraction, 53)), exponent - 53};
}

template <class S>
Dyadic dyadic(const S& x) {
  constexpr int bits = std::numeric_limits<S>::digits;
  int exponent = 0;
  const S fraction = frexp(x, &exponent);
  return {static_cast<cpp_int>(ldexp(fraction, bits)), exponent - bits};
}

Dyadic dyadic(const W2& x) {
  Dyadic large = dyadic(x.hi), small = dyadic(x.lo);
  if (large.exponent < small.exponent) std::swap(large, small);
  return {(large.mantissa << static_cast<unsigned>(large.exponent - small.exponent)) + small.mantissa, small.exponent};
}

template <class S>
std::string format(const S& x, int digits) {
  using std::isfinite, std::isnan;
  if (!isfinite(x)) return isnan(x) ? "nan" : x < S(0) ? "-inf" : "inf";
  return format_decimal(dyadic(x), digits);
}

}  // namespace

double ScalarTraits<double>::parse(std::string_view text) {
  if (const auto special = parse_nonfinite(text)) return *special;
  if (const auto x = parse_number<double>(text); x && *x != 0 && std::isfinite(*x)) return *x;
  constexpr int lowest = -1074;
  const Dyadic x = parse_decimal(text, std::numeric_limits<double>::digits, lowest);
  return std::ldexp(static_cast<double>(x.mantissa), static_cast<int>(x.exponent));
}
std::string ScalarTraits<double>::format(double x, int digits) { return assay::format(x, digits); }

W2 ScalarTraits<W2>::parse(std::string_view text) { return to_w2(from_decimal<Mp100>(text)); }
std::string ScalarTraits<W2>::format(const W2& x, int digits) { return assay::format(x, digits); }

template <class S>
S MultiprecisionTraits<S>::parse(std::string_view text) {
  if (const auto special = parse_nonfinite(text)) return S(*special);
  // MPFR reads to the nearest number. The exponents that we accept are far inside its range.
  const bool is_zero = read_decimal(text).digits.empty();
  return is_zero ? S() : S(std::string(text));
}
template <class S>
std::string MultiprecisionTraits<S>::format(const S& x, int digits) {
  return assay::format(x, digits);
}

template struct MultiprecisionTraits<Mp50>;
template struct MultiprecisionTraits<Mp100>;
template struct MultiprecisionTraits<Mp200>;

}  // namespace assay
