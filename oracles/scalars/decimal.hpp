#pragma once
// Decimal text to binary numbers and back, correctly rounded (nearest, ties to even) at any size of the exponent.
#include <boost/multiprecision/cpp_int.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace assay {

/// The number mantissa * 2^exponent, exactly.
struct Dyadic {
  boost::multiprecision::cpp_int mantissa;
  long exponent = 0;
};

/// "0.0", "-9.4921875e-1", "1.5", "2.5e+1": `digits` >= 1 significant digits, trailing zeros kept, no "e" for exponent
/// 0.
std::string format_decimal(const Dyadic& x, int digits);

/// The number digits * 10^ten, with a sign; no leading zeros, and no digits at all of zero.
struct Decimal {
  bool is_negative = false;
  std::string digits;
  long ten = 0;
};

/// Accepts an optional sign, digits with an optional point, and an optional exponent up to 100 million in size.
/// Throws InputError on anything else, "inf" and "nan" included.
Decimal read_decimal(std::string_view text);

/// The number nearest to `text` among those of at most `bits` bits whose last bit is not below 2^`lowest`. Throws as
/// read_decimal does.
Dyadic parse_decimal(std::string_view text, int bits, long lowest);

/// The double that "inf", "+inf", "-inf" or "nan" stands for.
std::optional<double> parse_nonfinite(std::string_view text);

}  // namespace assay
