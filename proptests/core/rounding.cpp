// The formats on trial: every code, every neighbour and midpoint, every exponent, against integer arithmetic.
#include "reference/core/rounding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "proptests/core/table.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

const std::vector<Format> narrow = {Format::fp32, Format::tf32, Format::bf16, Format::fp16, Format::e4m3,
                                    Format::e5m2, Format::e2m1, Format::int8, Format::int4};
const std::vector<Format> coded = {Format::bf16, Format::fp16, Format::e4m3, Format::e5m2};

unsigned codes_of(Format format) { return info(format).bits == 8 ? 0x100 : 0x10000; }

std::uint64_t bits_of(double x) { return std::bit_cast<std::uint64_t>(x); }
bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) && std::signbit(a) == std::signbit(b) : bits_of(a) == bits_of(b);
}

// An independent rounding: integers only, from the definitions of the modes. A finite |x| is significand * 2^exponent;
// the dithers, odd multiples of 2^-53 of a unit, become integers too, so no step of it rounds.
__extension__ using Int = __int128;

Int nearest_even_quotient(Int n, int shift) {  // n / 2^shift
  if (shift <= 0) return n << -shift;
  if (shift > 120) return 0;
  const Int floor = n >> shift, rest = n - (floor << shift), half = Int{1} << (shift - 1);
  return floor + (rest > half || (rest == half && (floor & 1)) ? 1 : 0);
}

double slow_round(double x, Format format, Overflow overflow, Rounding rounding, std::uint64_t random_bits) {
  const FormatInfo f = info(format);
  if (std::isnan(x)) return x;
  const double unbounded = f.has_infinity ? inf : nan,
               limit = overflow == Overflow::saturate ? f.max_finite : unbounded;
  if (std::isinf(x)) return std::copysign(limit, x);
  if (x == 0) return x;
  int exponent = 0;
  const auto significand = static_cast<Int>(std::ldexp(std::frexp(std::fabs(x), &exponent), 53));
  exponent -= 53;
  // The spacing of the grid around x, and the unit of the value's own binade, as powers of two.
  const int own_unit = exponent + 52 - f.mantissa_bits;
  const int unit = std::max(own_unit, f.min_exponent - f.mantissa_bits);
  const int shift = unit - exponent;
  const Int dither = 2 * static_cast<Int>(random_bits >> 12) + 1 - (Int{1} << 52);  // times 2^-53
  Int quotient = 0;
  switch (rounding) {
    case Rounding::nearest_even:
      quotient = nearest_even_quotient(significand, shift);
      break;
    case Rounding::toward_zero:
      quotient = shift > 120 ? 0 : significand >> shift;
      break;
    case Rounding::stochastic:  // |x| < 2^-53 units rounds up with probability below 2^-52: treated as never
      if (shift <= 53 + 53) {
        const int scale = std::max(53 - shift, 0);  // the sum in units of 2^-53 unit, or of 2^exponent if finer
        quotient = nearest_even_quotient((significand << scale) + (dither << std::max(shift - 53, 0)), shift + scale);
      }
      break;
    case Rounding::jittered:  // 2^(exponent - mantissa_bits - 1) is 2^-53 of own_unit
      quotient = nearest_even_quotient((significand << (f.mantissa_bits + 1)) + dither, shift + f.mantissa_bits + 1);
      break;
  }
  const double y = std::ldexp(static_cast<double>(quotient), unit);
  if (y <= f.max_finite) return std::copysign(y, x);
  return std::copysign(rounding == Rounding::toward_zero ? f.max_finite : limit, x);
}

// How often round_to, encode, or round_span where it draws the same words, disagrees with slow_round; and the first
// time.
struct Disagreements {
  long count = 0, cases = 0;
  std::string first;

  void compare(double got, double expected, double x, Format format, Overflow overflow, Rounding rounding,
               std::uint64_t random_bits) {
    ++cases;
    if (same(got, expected)) return;
    if (count++ > 0) return;
    std::ostringstream text;
    text << std::hexfloat << x << " to " << name_of(format) << ", " << name_of(rounding) << ", " << name_of(overflow)
         << ", random bits " << std::hex << random_bits << ": " << got << " instead of " << expected;
    first = text.str();
  }
  void check(double x, Format format, Overflow overflow, Rounding rounding, std::uint64_t random_bits = 0) {
    const double expected = slow_round(x, format, overflow, rounding, random_bits);
    compare(round_to(x, format, overflow, rounding, random_bits), expected, x, format, overflow, rounding, random_bits);
    if (rounding == Rounding::nearest_even && std::ranges::find(coded, format) != coded.end())
      compare(decode(encode(x, format, overflow), format), expected, x, format, overflow, rounding, random_bits);
  }
};

bool draws(Rounding rounding) { return rounding == Rounding::stochastic || rounding == Rounding::jittered; }

// All finite non-negative values of an 8- or 16-bit format from the definition of its fields, in increasing order.
std::vector<double> grid(Format format) {
  const FormatInfo f = info(format);
  const int significands = static_cast<int>(std::ldexp(1.0, f.mantissa_bits));
  std::vector<double> values;
  for (int field = 0;; ++field)
    for (int significand = 0; significand < significands; ++significand) {
      const int digits = field == 0 ? significand : significand + significands;
      const double x = std::ldexp(digits, std::max(field, 1) - 1 + f.min_exponent - f.mantissa_bits);
      if (x > f.max_finite) return values;
      values.push_back(x);
    }
}

// A double of the given format's working range: all exponents from far below its smallest number to far above its
// largest.
double in_range(Format format, std::uint64_t word) {
  const FormatInfo f = info(format);
  const int lowest = f.min_exponent - f.mantissa_bits - 3, count = f.max_exponent + 3 - lowest;
  const int exponent = lowest + static_cast<int>((word >> 53) % static_cast<unsigned>(count));
  const double x = std::ldexp(1.0 + static_cast<double>(word & 0xfffffffffffff) * 0x1p-52, exponent);
  return word >> 52 & 1 ? -x : x;
}

TEST(Formats, NamesRoundTrip) {
  const char* const formats[] = {"exact", "fp64", "fp32", "tf32", "bf16", "fp16", "e4m3", "e5m2"};
  const char* const roundings[] = {"nearest_even", "toward_zero", "stochastic", "jittered"};
  for (std::size_t i = 0; i < std::size(all_formats); ++i) {
    EXPECT_STREQ(name_of(all_formats[i]), formats[i]);
    EXPECT_EQ(format_from(formats[i]), all_formats[i]);
  }
  for (std::size_t i = 0; i < std::size(all_roundings); ++i) {
    EXPECT_STREQ(name_of(all_roundings[i]), roundings[i]);
    EXPECT_EQ(rounding_from(roundings[i]), all_roundings[i]);
  }
  for (const char* word : {"", "f32", "FP32", "fp8", "fp32 ", "?"}) {
    EXPECT_EQ(format_from(word), std::nullopt) << word;
    EXPECT_EQ(rounding_from(word), std::nullopt) << word;
  }
}

TEST(Formats, ParametersAgreeWithEachOther) {
  for (const Format format : all_formats) {
    const FormatInfo f = info(format);
    // e4m3 gives up its last significand (all ones) to NaN; the others a whole exponent.
    const double last = std::ldexp(1.0, -f.mantissa_bits) * (f.has_infinity ? 1 : 2);
    EXPECT_EQ(f.max_finite, std::ldexp(2.0 - last, f.max_exponent)) << name_of(format);
    EXPECT_EQ(f.min_positive, std::ldexp(1.0, f.min_exponent - f.mantissa_bits)) << name_of(format);
    EXPECT_EQ(unit_roundoff(format), format == Format::exact ? 0.0 : std::ldexp(1.0, -f.mantissa_bits - 1));
    EXPECT_EQ(f.on_overflow, f.bits == 8 ? Overflow::saturate : Overflow::ieee);
  }
  EXPECT_EQ(unit_roundoff(Format::fp32), std::numeric_limits<float>::epsilon() / 2);
  EXPECT_EQ(info(Format::fp32).max_finite, std::numeric_limits<float>::max());
  EXPECT_EQ(info(Format::fp32).min_positive, std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(info(Format::fp64).max_finite, std::numeric_limits<double>::max());
}

TEST(Formats, CodesCountUpTheGridAndSurviveDecodeAndEncode) {
  for (const Format format : coded) {
    const std::vector<double> values = grid(format);
    const unsigned codes = codes_of(format), sign = codes / 2;
    for (unsigned code = 0; code < codes; ++code) {
      const double x = decode(static_cast<std::uint16_t>(code), format);
      const unsigned magnitude = code % sign;
      if (magnitude < values.size())
        ASSERT_EQ(bits_of(x), bits_of(code < sign ? values[magnitude] : -values[magnitude]))
            << name_of(format) << ' ' << code;
      else
        ASSERT_FALSE(std::isfinite(x)) << name_of(format) << ' ' << code;
      for (const Overflow overflow : {Overflow::saturate, Overflow::ieee})
        if (!std::isinf(x) || overflow == Overflow::ieee) {
          ASSERT_EQ(encode(x, format, overflow), code) << name_of(format) << ' ' << x;
        }
      for (const Rounding rounding : all_roundings)
        for (const std::uint64_t random_bits : {std::uint64_t{0}, ~std::uint64_t{0}})
          ASSERT_TRUE(same(round_to(x, format, Overflow::ieee, rounding, random_bits), x))
              << name_of(format) << ' ' << x << ' ' << name_of(rounding);
    }
  }
}

// Table 1 of the OCP OFP8 specification (v1.0), and the IEEE 754 and bfloat16 codes every framework writes.
TEST(Formats, KnownCodes) {
  const Json rows = test_table("core/codes.json");
  for (const Json& row : rows) {
    const Format format = format_from(row.at("format").get<std::string>()).value();
    const double x = std::stod(row.at("number").get<std::string>());
    const int code = std::stoi(row.at("code").get<std::string>(), nullptr, 16);
    const auto overflow = row.value("overflow", std::string("usual"));
    EXPECT_EQ(overflow == "usual" ? encode(x, format)
                                  : encode(x, format, overflow == "ieee" ? Overflow::ieee : Overflow::saturate),
              code)
        << row;
  }
  // A payload that is cut to nothing must not turn into infinity.
  EXPECT_EQ(encode(std::bit_cast<double>(0xfff0000000000001), Format::bf16), 0xffc0);
}

TEST(Formats, RejectsWhatHasNoCode) {
  for (const Format format : {Format::exact, Format::fp64, Format::fp32, Format::tf32, Format::e2m1, Format::int8}) {
    EXPECT_THROW(encode(1.0, format), InputError);
    EXPECT_THROW(decode(0, format), InputError);
  }
  EXPECT_THROW(decode(0x100, Format::e4m3), InputError);
  EXPECT_THROW(decode(0x100, Format::e5m2), InputError);
}

TEST(Rounding, ExactAndFp64ReturnTheValue) {
  const RandomBits random{1};
  for (std::uint64_t i = 0; i < 1000; ++i)
    for (const Rounding rounding : all_roundings)
      for (const Format format : {Format::exact, Format::fp64}) {
        const double x = std::bit_cast<double>(random.at(i));
        EXPECT_TRUE(same(round_to(x, format, rounding, random.at(i + 1)), x));
      }
}

// Every grid point, midpoint, and the doubles next to each; around overflow the grid continues as if unbounded.
TEST(Rounding, NeighboursAndMidpointsOfEveryCodedFormat) {
  for (const Format format : coded) {
    std::vector<double> values = grid(format);
    const double step = values.back() - values[values.size() - 2];
    for (int i = 0; i < 3; ++i) values.push_back(values.back() + step);
    Disagreements bad;
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      const double midpoint = 0.5 * (values[i] + values[i + 1]);
      for (const double centre : {values[i], midpoint})
        for (const double x : {std::nextafter(centre, -inf), centre, std::nextafter(centre, inf)})
          for (const double signed_x : {x, -x})
            for (const Overflow overflow : {Overflow::saturate, Overflow::ieee}) {
              bad.check(signed_x, format, overflow, Rounding::nearest_even);
              bad.check(signed_x, format, overflow, Rounding::toward_zero);
              for (const std::uint64_t word : {0ull, 1ull << 63, (1ull << 63) - 1, ~0ull}) {
                bad.check(signed_x, format, overflow, Rounding::jittered, word);
                // Below the smallest number the fraction has more digits than the 2^-52 that stochastic resolves.
                if (std::fabs(x) >= values[1]) bad.check(signed_x, format, overflow, Rounding::stochastic, word);
              }
            }
    }
    EXPECT_EQ(bad.count, 0) << "of " << bad.cases << "; first: " << bad.first;
  }
}

// From the midpoint beyond the largest number on, to infinity; signed zeros, numbers that become one, and NaN.
TEST(Rounding, EndsOfEveryRangeAreAsIntegerArithmeticHasThem) {
  Disagreements bad;
  for (const Format format : narrow) {
    const FormatInfo f = info(format);
    const double midpoint = f.max_finite + std::ldexp(0.5, f.max_exponent - f.mantissa_bits);
    for (const double size :
         {0.0, f.min_positive / 4, std::nextafter(midpoint, 0.0), midpoint, std::nextafter(midpoint, inf),
          2 * f.max_finite, 0x1p1000, std::numeric_limits<double>::max(), inf, nan})
      for (const double x : {size, -size})
        for (const Overflow overflow : {Overflow::saturate, Overflow::ieee})
          for (const Rounding rounding : all_roundings) bad.check(x, format, overflow, rounding, 1ull << 63);
  }
  EXPECT_EQ(bad.count, 0) << "of " << bad.cases << "; first: " << bad.first;
}

// Twenty million: half of them any bit pattern, half in and around the format's range, in spans and one by one.
TEST(Rounding, RandomDoublesAgreeWithIntegerArithmetic) {
  constexpr std::uint64_t total = 20'000'000;
  const std::uint64_t pairs = narrow.size() * std::size(all_roundings), per_pair = total / pairs;
  for (const Format format : narrow)
    for (const Rounding rounding : all_roundings) {
      const RandomBits source{static_cast<std::uint64_t>(format) * 16 + static_cast<std::uint64_t>(rounding)};
      std::vector<double> x(per_pair);
      for (std::uint64_t i = 0; i < per_pair; ++i)
        x[i] = i % 2 ? std::bit_cast<double>(source.at(i)) : in_range(format, source.at(i));
      for (const Overflow overflow : {Overflow::saturate, Overflow::ieee}) {
        std::vector<double> y = x;
        const std::uint64_t half = per_pair / 2, first = overflow == Overflow::saturate ? 0 : half;
        RandomBits random{7, 1000};
        round_span(y.data() + first, half, format, overflow, rounding, random);
        EXPECT_EQ(random.counter, draws(rounding) ? 1000 + half : 1000);
        Disagreements bad;
        for (std::uint64_t i = 0; i < half; ++i) {
          const double value = x[first + i];
          const std::uint64_t word = draws(rounding) ? random.at(1000 + i) : 0;
          const double expected = slow_round(value, format, overflow, rounding, word);
          for (const double got : {y[first + i], round_to(value, format, overflow, rounding, word)})
            bad.compare(got, expected, value, format, overflow, rounding, word);
        }
        EXPECT_EQ(bad.count, 0) << "of " << bad.cases << "; first: " << bad.first;
      }
    }
}

TEST(Rounding, SpansOfEveryLengthTouchNothingElse) {
  for (std::size_t n = 0; n <= 100; ++n)
    for (const Rounding rounding : all_roundings) {
      std::vector<double> x(n + 2), y;
      const RandomBits source{n};
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = in_range(Format::bf16, source.at(i));
      y = x;
      RandomBits span{3, 5}, one{3, 5};
      round_span(y.data() + 1, n, Format::bf16, rounding, span);
      EXPECT_EQ(y.front(), x.front());
      EXPECT_EQ(y.back(), x.back());
      for (std::size_t i = 1; i <= n; ++i)
        ASSERT_TRUE(same(y[i], round_to(x[i], Format::bf16, rounding, draws(rounding) ? one.next() : 0)))
            << n << ' ' << i;
      EXPECT_EQ(span.counter, one.counter);
      if (rounding != Rounding::nearest_even) continue;
      round_span(x.data() + 1, n, Format::bf16);
      EXPECT_EQ(x, y);
    }
}

TEST(Rounding, RandomBitsAreSplitMix64) {
  // The first outputs of the authors' splitmix64.c for state 0.
  RandomBits random;
  EXPECT_EQ(random.next(), 0xe220a8397b1dcdaf);
  EXPECT_EQ(random.next(), 0x6e789e6aa1b965f4);
  EXPECT_EQ(random.next(), 0x06c45d188009454f);
  EXPECT_EQ(random.counter, 3);
  EXPECT_EQ(random.at(1), 0x6e789e6aa1b965f4);
}

}  // namespace
}  // namespace assay
