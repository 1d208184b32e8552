// Decimal text both ways: correctly rounded, by exact rational arithmetic and by known values.
#include <gtest/gtest.h>

#include <boost/multiprecision/cpp_int.hpp>
#include <cstdlib>
#include <limits>
#include <string>

#include "proptests/core/table.hpp"
#include "proptests/oracles/scalars_inputs.hpp"
#include "reference/core/error.hpp"

namespace assay::scalars {
namespace {

using boost::multiprecision::cpp_int, boost::multiprecision::cpp_rational;

cpp_rational power(int base, int exponent) {
  const cpp_rational size = pow(cpp_int(base), static_cast<unsigned>(std::abs(exponent)));
  return exponent < 0 ? 1 / size : size;
}

/// The number that scientific text stands for, exactly.
cpp_rational exact_value(const std::string& text) {
  const std::size_t e = text.find('e');
  std::string digits = text.substr(0, e);
  const bool negative = digits[0] == '-';
  int exponent = e == std::string::npos ? 0 : std::stoi(text.substr(e + 1));
  if (const std::size_t point = digits.find('.'); point != std::string::npos) {
    exponent -= static_cast<int>(digits.size() - point - 1);
    digits.erase(point, 1);
  }
  digits.erase(0, digits.find_first_not_of("-0"));
  const cpp_rational size = cpp_int(digits) * power(10, exponent);
  return negative ? -size : size;
}
template <class S>
cpp_rational exact_value(const S& x) {
  return cpp_rational(x);
}
cpp_rational exact_value(const W2& x) { return cpp_rational(x.hi) + cpp_rational(x.lo); }

std::string random_text(Draw& draw, int lowest_exponent, int highest_exponent) {
  std::string text = draw.integer(0, 1) ? "-" : "";
  text += static_cast<char>('1' + draw.integer(0, 8));
  text += '.';
  for (int n = draw.integer(1, 60); n > 0; --n) text += static_cast<char>('0' + draw.integer(0, 9));
  return text + "e" + std::to_string(draw.integer(lowest_exponent, highest_exponent));
}

template <class S>
S neighbour(const S& x, const S& towards) {
  if constexpr (std::is_same_v<S, double>) {
    return std::nextafter(x, towards);
  } else {
    return boost::multiprecision::nextafter(x, towards);
  }
}

/// No other number of the type is nearer, and a tie goes to even: the odd neighbour is not the answer.
template <class S>
void expect_nearest(const std::string& text) {
  const S got = from_decimal<S>(text);
  const cpp_rational truth = exact_value(text), error = abs(exact_value(got) - truth);
  for (const double side : {-1.0, 1.0}) {
    const S other = neighbour(got, S(side * std::numeric_limits<double>::infinity()));
    ASSERT_LE(error, cpp_rational(abs(exact_value(other) - truth))) << text;
  }
}

TEST(Decimal, ParsesToTheNearestNumber) {
  Draw draw(11);
  for (int i = 0; i < 400; ++i) {
    const std::string text = random_text(draw, -40, 40);
    expect_nearest<double>(text);
    expect_nearest<double>(random_text(draw, -330, 307));
    expect_nearest<Mp50>(text);
    expect_nearest<Mp100>(text);
    // hi nearest, lo nearest to the rest: together within u^2, up to the 335 bits they are taken from.
    const W2 pair = from_decimal<W2>(text);
    const cpp_rational truth = exact_value(text);
    ASSERT_EQ(pair.hi, from_decimal<double>(text));
    ASSERT_LE(cpp_rational(abs(exact_value(pair) - truth)), cpp_rational(u * u) * abs(truth));
  }
}

// The mantissa was computed with mpmath.
TEST(Decimal, ParsesExponentsOfManyMillions) {
  const cpp_int mantissa("218459449501093287742842451309695322466835308020929");
  EXPECT_EQ(from_decimal<Mp50>("1.2345e-43000000"), ldexp(Mp50(mantissa), -142843075));
}

/// A number in C's notation: subnormal ones, too.
double as_double(const Json& text) { return std::strtod(text.get<std::string>().c_str(), nullptr); }

// Ties go to even; the ends of the range; and numbers beside a tie, where 5^n does not fit the first, 256-bit enclosure
// and neighbours round differently.
TEST(Decimal, ParsesKnownTexts) {
  const Json rows = test_table("oracles/decimals.json").at("parsed");
  for (const auto& [text, number] : rows.items()) EXPECT_EQ(from_decimal<double>(text), as_double(number)) << text;
  const Mp50 tie = ldexp(Mp50(1), 168);
  EXPECT_EQ(from_decimal<Mp50>(Mp100(Mp100(tie) + 1).str(0, std::ios_base::fixed)), tie);
  EXPECT_EQ(from_decimal<Mp50>(Mp100(Mp100(tie) + 3).str(0, std::ios_base::fixed)), tie + 4);
}

// The way from many bits to a double rounds once, below the normal range too.
TEST(Decimal, RoundsOnceOnTheWayToDouble) {
  for (const char* text : {"2.2250738585072011e-308", "1.5e-323", "7.4109846876186981626e-324", "-3.3e-310"}) {
    EXPECT_EQ(to_double(from_decimal<Mp50>(text)), from_decimal<double>(text)) << text;
    EXPECT_EQ(to_double(from_decimal<Mp100>(text)), from_decimal<double>(text)) << text;
    EXPECT_EQ(from_decimal<W2>(text).hi, from_decimal<double>(text)) << text;
  }
}

int exponent_of(const std::string& text) {
  const std::size_t e = text.find('e');
  return e == std::string::npos ? 0 : std::stoi(text.substr(e + 1));
}

template <class S>
void expect_nearest_decimal(const S& x, int digits) {
  const std::string text = to_decimal(x, digits);
  const cpp_rational last_digit = power(10, exponent_of(text) - digits + 1);
  ASSERT_LE(cpp_rational(2 * abs(exact_value(text) - exact_value(x))), last_digit) << text;
}

template <class S>
void expect_round_trip(const S& x, int digits) {
  const std::string text = to_decimal(x, digits);
  ASSERT_EQ(from_decimal<S>(text), x) << text;
}

TEST(Decimal, FormatsToTheNearestDecimalAndBack) {
  Draw draw(13);
  for (int i = 0; i < 300; ++i) {
    const double any = draw.real(-1074, 1023);
    expect_nearest_decimal(any, draw.integer(2, 45));
    const W2 x = draw.word_pair(-30, 30);
    const Mp50 y = Mp50(x.hi) + Mp50(x.lo);
    expect_nearest_decimal(x, 40);
    expect_nearest_decimal(y, 40);
    expect_nearest_decimal(x.hi, 7);
    // max_digits10 digits tell all numbers of a type apart.
    expect_round_trip(x.hi, 17);
    expect_round_trip(any, 17);
    expect_round_trip(y / 3, std::numeric_limits<Mp50>::max_digits10);
    expect_round_trip(Mp100(y) / 3, std::numeric_limits<Mp100>::max_digits10);
  }
}

// Digits, text, and the number: one double in every scalar, or the two words of a pair. The expected texts were
// computed with mpmath.
TEST(Decimal, FormatsKnownValues) {
  const Json rows = test_table("oracles/decimals.json").at("formatted");
  for (const Json& row : rows) {
    const int digits = row.at(0).get<int>();
    const auto text = row.at(1).get<std::string>();
    const double hi = as_double(row.at(2));
    EXPECT_EQ(to_decimal(W2(hi, row.size() > 3 ? as_double(row.at(3)) : 0), digits), text) << row;
    if (row.size() > 3) continue;
    EXPECT_EQ(to_decimal(hi, digits), text) << row;
    EXPECT_EQ(to_decimal(Mp50(hi), digits), text) << row;
    EXPECT_EQ(to_decimal(Rational(hi), digits), text) << row;
  }
  EXPECT_EQ(to_decimal(Mp50(Mp50(1) / 3), 50), "3.3333333333333333333333333333333333333333333333333e-1");
  EXPECT_EQ(to_decimal(Mp50(Mp50(-2) / 7000), 40), "-2.857142857142857142857142857142857142857e-4");
  EXPECT_EQ(to_decimal(Mp50(ldexp(Mp50(3), 4000)), 40), "3.954612280292829300311669382709774089552e+1204");
  EXPECT_EQ(to_decimal(Mp50(ldexp(Mp50(-5), -100000000)), 40), "-1.356975119458846337235460337958108281336e-30102999");
  EXPECT_EQ(to_decimal(Mp100(sqrt(Mp100(2))), 90),
            "1.41421356237309504880168872420969807856967187537694807317667973799073247846210703885038753");
  EXPECT_EQ(to_decimal(Mp100(exp(Mp100(-1))), 40), "3.678794411714423215955237701614608674458e-1");
}

TEST(Decimal, CarriesInfinitiesAndNan) {
  const auto check = [](auto zero) {
    using S = decltype(zero);
    EXPECT_EQ(to_decimal(from_decimal<S>("-inf"), 9), "-inf");
    EXPECT_EQ(to_decimal(from_decimal<S>("inf"), 9), "inf");
    EXPECT_EQ(to_decimal(from_decimal<S>("nan"), 9), "nan");
    EXPECT_EQ(to_double(from_decimal<S>("-inf")), -std::numeric_limits<double>::infinity());
    EXPECT_TRUE(std::isnan(to_double(from_decimal<S>("nan"))));
    using std::exp;
    EXPECT_EQ(exp(from_decimal<S>("-inf")), zero);
  };
  check(0.0);
  check(W2());
  check(Mp50());
  check(Mp100());
  check(Dual<Mp50>());
}

// One exponent is the least long, whose absolute value is none.
TEST(Decimal, RefusesWhatIsNotANumber) {
  const Json texts = test_table("oracles/decimals.json").at("refused");
  for (const std::string text : texts) EXPECT_THROW(from_decimal<Mp50>(text), InputError) << text;
  EXPECT_THROW(to_decimal(1.0, 0), InputError);
}

TEST(Decimal, SplitsIntoTwoDoubles) {
  const W2 third = to_w2(Mp100(1) / 3);
  EXPECT_EQ(third, W2(0x1.5555555555555p-2, 0x1.5555555555555p-56));
  EXPECT_EQ(to_w2(Mp50(-std::numeric_limits<double>::infinity())), W2(-std::numeric_limits<double>::infinity()));
  EXPECT_EQ(to_w2(third), third);
}

TEST(Scalar, HasNames) {
  EXPECT_EQ(scalar_name<double>(), "double");
  EXPECT_EQ(scalar_name<W2>(), "w2");
  EXPECT_EQ(scalar_name<Mp50>(), "mp50");
  EXPECT_EQ(scalar_name<Mp100>(), "mp100");
  EXPECT_EQ(scalar_name<Dual<Mp50>>(), "dual<mp50>");
}

}  // namespace
}  // namespace assay::scalars
