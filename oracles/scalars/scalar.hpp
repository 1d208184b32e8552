#pragma once
// Functions of every scalar beyond arithmetic: its name, decimal text both ways, and its rounding to double.
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "oracles/scalars/ball.hpp"
#include "oracles/scalars/decimal.hpp"
#include "oracles/scalars/dual.hpp"
#include "oracles/scalars/precise.hpp"
#include "oracles/scalars/rational.hpp"
#include "oracles/scalars/w2.hpp"

namespace assay {

/// Specialised per scalar: `name`, `parse`, `format`, `rounded`.
template <class S>
struct ScalarTraits;

/// The number in `text`, correctly rounded; "inf", "-inf" and "nan" too. W2 gets hi nearest to it, lo nearest to the
/// rest. Throws InputError when `text` is not a number.
template <class S>
S from_decimal(std::string_view text) {
  return ScalarTraits<S>::parse(text);
}

/// `digits` >= 1 significant digits, rounded to nearest: "-9.492187500e-1", "1.500", "0.0", "inf", "-inf", "nan".
template <class S>
std::string to_decimal(const S& x, int digits) {
  return ScalarTraits<S>::format(x, digits);
}

/// The nearest double. For a Dual, that of its value.
template <class S>
double to_double(const S& x) {
  return ScalarTraits<S>::rounded(x);
}

/// "double", "w2", "mp50", "mp100", ...
template <class S>
std::string scalar_name() {
  return ScalarTraits<S>::name();
}

/// The nearest double and the double nearest to what it leaves.
template <class S>
W2 to_w2(const S& x) {
  const double high = to_double(x);
  return std::isfinite(high) ? W2(high, to_double(S(x - S(high)))) : W2(high);
}

template <>
struct ScalarTraits<double> {
  static std::string name() { return "double"; }
  static double parse(std::string_view text);
  static std::string format(double x, int digits);
  static double rounded(double x) { return x; }
};

template <>
struct ScalarTraits<W2> {
  static std::string name() { return "w2"; }
  static W2 parse(std::string_view text);
  static std::string format(const W2& x, int digits);
  static double rounded(const W2& x) { return x.hi; }
};

template <>
struct ScalarTraits<Ball> {
  static std::string name() { return "ball"; }
  static Ball parse(std::string_view text) { return Ball::parse(text); }
  static std::string format(const Ball& x, int digits) { return x.middle_decimal(digits); }
  static double rounded(const Ball& x) { return x.middle(); }
};

template <>
struct ScalarTraits<Rational> {
  static std::string name() { return "exact"; }
  static Rational parse(std::string_view text) { return Rational::parse(text); }
  static std::string format(const Rational& x, int digits) { return x.decimal(digits); }
  static double rounded(const Rational& x) { return from_decimal<double>(x.decimal(800)); }
};

/// The common traits of Mp50, Mp100 and Mp200.
template <class S>
struct MultiprecisionTraits {
  static std::string name() { return "mp" + std::to_string(std::numeric_limits<S>::digits10); }
  static S parse(std::string_view text);
  static std::string format(const S& x, int digits);
  static double rounded(const S& x) { return static_cast<double>(x); }
};
extern template struct MultiprecisionTraits<Mp50>;
extern template struct MultiprecisionTraits<Mp100>;
extern template struct MultiprecisionTraits<Mp200>;

template <>
struct ScalarTraits<Mp50> : MultiprecisionTraits<Mp50> {};
template <>
struct ScalarTraits<Mp100> : MultiprecisionTraits<Mp100> {};
template <>
struct ScalarTraits<Mp200> : MultiprecisionTraits<Mp200> {};

template <class S>
struct ScalarTraits<Dual<S>> {
  static std::string name() { return "dual<" + scalar_name<S>() + ">"; }
  static Dual<S> parse(std::string_view text) { return from_decimal<S>(text); }
  static std::string format(const Dual<S>& x, int digits) { return to_decimal(x.value, digits); }
  static double rounded(const Dual<S>& x) { return to_double(x.value); }
};

}  // namespace assay
