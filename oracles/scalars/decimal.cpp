#include "oracles/scalars/decimal.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "reference/core/error.hpp"

namespace assay {
namespace {

using boost::multiprecision::cpp_int;

/// low * 2^exponent <= 5^n <= high * 2^exponent; equal when nothing had to be cut off.
struct Enclosure {
  cpp_int low = 1, high = 1;
  long exponent = 0;
};

Enclosure power_of_five(long n, unsigned bits) {
  Enclosure p;
  for (int i = std::numeric_limits<long>::digits - 1; i >= 0; --i) {
    p.low *= p.low;
    p.high *= p.high;
    p.exponent *= 2;
    if (n >> i & 1) {
      p.low *= 5;
      p.high *= 5;
    }
    if (const auto length = static_cast<unsigned>(msb(p.high)); length > bits) {
      const unsigned cut = length - bits;
      p.low >>= cut;
      p.high = ((p.high - 1) >> cut) + 1;
      p.exponent += cut;
    }
  }
  return p;
}

/// numerator * 2^shift / denominator as quotient and remainder.
void divide(cpp_int numerator, cpp_int denominator, long shift, cpp_int& quotient, cpp_int& remainder) {
  (shift < 0 ? denominator : numerator) <<= static_cast<unsigned>(std::abs(shift));
  divide_qr(numerator, denominator, quotient, remainder);
}

/// m 2^two 5^five to the nearest integer, ties to even; m > 0. Works with an enclosure of the power, widened until both
/// ends round alike: at the latest when it is exact.
cpp_int nearest_integer(const cpp_int& m, long two, long five) {
  cpp_int floor_twice, rest;
  for (unsigned bits = 256;; bits *= 2) {
    const Enclosure power = power_of_five(std::abs(five), bits);
    const bool up = five >= 0;
    const long shift = two + 1 + (up ? power.exponent : -power.exponent);
    divide(up ? cpp_int(m * power.low) : m, up ? cpp_int(1) : power.high, shift, floor_twice, rest);
    cpp_int nearest = (floor_twice + 1) >> 1;
    if (power.low == power.high) {
      const bool tie = rest == 0 && bit_test(floor_twice, 0);
      if (tie && bit_test(nearest, 0)) --nearest;
      return nearest;
    }
    cpp_int ceiling_twice;
    divide(up ? cpp_int(m * power.high) : m, up ? cpp_int(1) : power.low, shift, ceiling_twice, rest);
    if (rest != 0) ++ceiling_twice;
    // Strictly inside, so twice the number is below its ceiling: a tie at the upper end does not count.
    if ((ceiling_twice >> 1) == nearest) return nearest;
  }
}

/// Below log2(m 2^two 10^ten), by less than 1.001.
double log2_below(const cpp_int& m, long two, long ten) {
  return static_cast<double>(static_cast<long>(msb(m)) + two) + static_cast<double>(ten) * std::log2(10.0) - 1e-4;
}

}  // namespace

std::string format_decimal(const Dyadic& x, int digits) {
  require(digits >= 1, "digits must be at least 1, not ", digits);
  const cpp_int size = abs(x.mantissa);
  if (size == 0) return "0.0";
  const cpp_int limit = pow(cpp_int(10), static_cast<unsigned>(digits));
  // Too small an exponent gives too many digits; coming from below, the first that fits is right.
  auto exponent = static_cast<long>(std::floor(log2_below(size, x.exponent, 0) / std::log2(10.0)));
  cpp_int scaled;
  for (;; ++exponent) {
    const long ten = digits - 1 - exponent;
    scaled = nearest_integer(size, x.exponent + ten, ten);
    if (scaled < limit) break;
  }
  std::string text = scaled.str();
  if (digits > 1) text.insert(1, ".");
  if (exponent != 0) text += (exponent > 0 ? "e+" : "e") + std::to_string(exponent);
  return (x.mantissa < 0 ? "-" : "") + text;
}

Decimal read_decimal(std::string_view text) {
  constexpr long largest_exponent = 100'000'000;
  const auto refuse = [&](const char* why) { throw InputError("'" + std::string(text) + "' is not a number: " + why); };

  std::string_view rest = text;
  Decimal x;
  x.is_negative = rest.starts_with('-');
  if (x.is_negative || rest.starts_with('+')) rest.remove_prefix(1);

  bool any = false, point = false;
  for (; !rest.empty(); rest.remove_prefix(1)) {
    const char c = rest.front();
    if (c == '.' && !point) {
      point = true;
    } else if (c >= '0' && c <= '9') {
      any = true;
      // A leading zero would make cpp_int read octal.
      if (c != '0' || !x.digits.empty()) x.digits += c;
      if (point) --x.ten;
    } else {
      break;
    }
  }
  if (!any) refuse("no digits");
  if (rest.starts_with('e') || rest.starts_with('E')) {
    rest.remove_prefix(1);
    if (rest.starts_with('+') && !rest.starts_with("+-")) rest.remove_prefix(1);
    long written = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), written);
    if (error == std::errc::invalid_argument) refuse("no digits in the exponent");
    if (error != std::errc() || written < -largest_exponent || written > largest_exponent)
      refuse("exponent beyond 100 million");
    x.ten += written;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }
  if (!rest.empty()) refuse("unexpected characters");
  return x;
}

Dyadic parse_decimal(std::string_view text, int bits, long lowest) {
  const auto [is_negative, digits, ten] = read_decimal(text);
  if (digits.empty()) return {};
  const cpp_int number(digits);
  auto top = static_cast<long>(std::floor(log2_below(number, 0, ten)));
  for (;; ++top) {
    const long last = std::max(top - bits + 1, lowest);
    const cpp_int mantissa = nearest_integer(number, ten - last, ten);
    if (mantissa == 0 || static_cast<int>(msb(mantissa)) < bits)
      return {is_negative ? cpp_int(-mantissa) : mantissa, last};
  }
}

std::optional<double> parse_nonfinite(std::string_view text) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (text == "inf" || text == "+inf") return infinity;
  if (text == "-inf") return -infinity;
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

}  // namespace assay
