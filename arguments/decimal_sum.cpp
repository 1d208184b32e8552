#include "arguments/decimal_sum.hpp"

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <charconv>

#include "reference/core/error.hpp"

namespace assay::arguments {
namespace {

/// mantissa * 10^exponent
struct Decimal {
  boost::multiprecision::cpp_int mantissa;
  long exponent = 0;
};

Decimal parsed(std::string_view text) {
  Decimal x;
  const std::size_t e = std::min(text.find_first_of("eE"), text.size());
  std::string digits;
  bool fraction = false;
  for (const char c : text.substr(0, e)) {
    if (c == '.') fraction = true;
    if (c < '0' || c > '9') continue;
    digits += c;
    x.exponent -= fraction ? 1 : 0;
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));  // a leading zero would mean octal
  if (!digits.empty()) x.mantissa.assign(digits);
  if (text.starts_with('-')) x.mantissa = -x.mantissa;
  if (e < text.size()) {
    const std::string_view power = text.substr(e + (text.substr(e + 1).starts_with('+') ? 2 : 1));
    long n = 0;
    std::from_chars(power.data(), power.data() + power.size(), n);
    x.exponent += n;
  }
  return x;
}

}  // namespace

std::string decimal_sum(std::string_view a, std::string_view b) {
  constexpr long most_digits = 20000;
  Decimal x = parsed(a), y = parsed(b);
  if (x.mantissa == 0) return std::string(b);
  if (y.mantissa == 0) return std::string(a);
  if (x.exponent < y.exponent) std::swap(x, y);
  require_domain(x.exponent - y.exponent <= most_digits, -1, "cotangents: ", a, " and ", b,
                 " of the same state are too far apart to be added");
  for (long shift = x.exponent - y.exponent; shift > 0; --shift) x.mantissa *= 10;
  return boost::multiprecision::cpp_int(x.mantissa + y.mantissa).str() + 'e' + std::to_string(y.exponent);
}

}  // namespace assay::arguments
