#pragma once
// Ball: a real number known to lie within a radius of a midpoint, in as many bits as asked for (FLINT's arb). Every
// operation widens the radius by what it rounds away, so a result is proven, not estimated.
#include <arb.h>

#include <array>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace assay {

/// Two balls overlap where an algorithm wants to know which number is larger: more bits may tell.
class Undecided : public std::exception {
 public:
  const char* what() const noexcept override { return "two enclosures overlap"; }
};

/// Sets the precision of this thread's balls while it lives.
class BallPrecision {
 public:
  explicit BallPrecision(long bits) : before_(bits_) { bits_ = bits; }
  ~BallPrecision() { bits_ = before_; }
  BallPrecision(const BallPrecision&) = delete;
  BallPrecision& operator=(const BallPrecision&) = delete;
  static long bits() { return bits_; }

 private:
  inline static thread_local long bits_ = 192;
  long before_;
};

/// An upper bound of a few bits and any exponent: of errors that no double could hold. Every operation rounds up.
class ErrorBound {
 public:
  ErrorBound() { mag_init(m_); }
  ErrorBound(const ErrorBound& b) : ErrorBound() { mag_set(m_, b.m_); }
  ErrorBound(ErrorBound&& b) noexcept : ErrorBound() { mag_swap(m_, b.m_); }
  ~ErrorBound() { mag_clear(m_); }
  ErrorBound& operator=(const ErrorBound& b) {
    mag_set(m_, b.m_);
    return *this;
  }
  ErrorBound& operator=(ErrorBound&& b) noexcept {
    mag_swap(m_, b.m_);
    return *this;
  }

  friend ErrorBound operator*(ErrorBound a, const ErrorBound& b) {
    mag_mul(a.m_, a.m_, b.m_);
    return a;
  }
  friend ErrorBound operator+(ErrorBound a, const ErrorBound& b) {
    mag_add(a.m_, a.m_, b.m_);
    return a;
  }
  /// Nothing is no part of anything: 0 / 0 = 0.
  friend ErrorBound operator/(ErrorBound a, const ErrorBound& b) {
    if (mag_is_zero(a.m_) == 0) mag_div(a.m_, a.m_, b.m_);
    return a;
  }
  friend ErrorBound sqrt(ErrorBound a) {
    mag_sqrt(a.m_, a.m_);
    return a;
  }
  friend ErrorBound larger(ErrorBound a, const ErrorBound& b) {
    mag_max(a.m_, a.m_, b.m_);
    return a;
  }
  /// As a double, rounded up; and back: unknown where it is no number.
  std::array<double, 1> doubles() const { return {mag_get_d(m_)}; }
  static ErrorBound of(const std::array<double, 1>& x) {
    ErrorBound b;
    if (x[0] < std::numeric_limits<double>::infinity())
      mag_set_d(b.m_, x[0]);
    else
      mag_inf(b.m_);
    return b;
  }

 private:
  friend class Ball;
  mag_t m_;
};

class Ball {
 public:
  Ball() { arb_init(x_); }
  /// Exactly that number.
  // As with the other scalars, S(1) and S(K) are how references write numbers.
  // NOLINTNEXTLINE(google-explicit-constructor,hicpp-explicit-conversions)
  Ball(double x) : Ball() { arb_set_d(x_, x); }
  Ball(const Ball& b) : Ball() { arb_set(x_, b.x_); }
  Ball(Ball&& b) noexcept : Ball() { arb_swap(x_, b.x_); }
  ~Ball() { arb_clear(x_); }
  Ball& operator=(const Ball& b) {
    arb_set(x_, b.x_);
    return *this;
  }
  Ball& operator=(Ball&& b) noexcept {
    arb_swap(x_, b.x_);
    return *this;
  }

  /// The number that `text` stands for, enclosed; "inf", "-inf" and "nan" too. Throws InputError on anything else.
  static Ball parse(std::string_view text);

  // The interface of an enclosure for reference/errors/carried_error.hpp.
  using Bounds = ErrorBound;
  /// At least |x| for every x in the ball.
  ErrorBound sizes() const {
    ErrorBound b;
    arb_get_mag(b.m_, x_);
    return b;
  }
  Ball widened(const ErrorBound& by) const {
    Ball r = *this;
    arb_add_error_mag(r.x_, by.m_);
    return r;
  }
  /// Within 2^-50 of every number, relatively, or within 2^-700; NaN where nothing is.
  std::array<double, 1> nearest() const;
  /// The radius that n balls share; they become zero.
  static ErrorBound take_joint_error(Ball* first, int n);
  /// At least the 2-norm of n radii, which become zero.
  static ErrorBound take_errors(Ball* first, int n);
  /// Every radius becomes that.
  static void set_joint_error(Ball* first, int n, const ErrorBound& error);

  Ball operator-() const {
    Ball r;
    arb_neg(r.x_, x_);
    return r;
  }
  Ball& operator+=(const Ball& b) {
    arb_add(x_, x_, b.x_, BallPrecision::bits());
    return *this;
  }
  Ball& operator-=(const Ball& b) {
    arb_sub(x_, x_, b.x_, BallPrecision::bits());
    return *this;
  }
  Ball& operator*=(const Ball& b) {
    arb_mul(x_, x_, b.x_, BallPrecision::bits());
    return *this;
  }
  Ball& operator/=(const Ball& b) {
    arb_div(x_, x_, b.x_, BallPrecision::bits());
    return *this;
  }
  friend Ball operator+(Ball a, const Ball& b) { return a += b; }
  friend Ball operator-(Ball a, const Ball& b) { return a -= b; }
  friend Ball operator*(Ball a, const Ball& b) { return a *= b; }
  friend Ball operator/(Ball a, const Ball& b) { return a /= b; }

  // True or false for every pair of numbers in the balls, or Undecided.
  friend bool operator<(const Ball& a, const Ball& b) { return decided(arb_lt(a.x_, b.x_), arb_ge(a.x_, b.x_)); }
  friend bool operator>(const Ball& a, const Ball& b) { return b < a; }
  friend bool operator<=(const Ball& a, const Ball& b) { return decided(arb_le(a.x_, b.x_), arb_gt(a.x_, b.x_)); }
  friend bool operator>=(const Ball& a, const Ball& b) { return b <= a; }
  friend bool operator==(const Ball& a, const Ball& b) { return decided(arb_eq(a.x_, b.x_), arb_ne(a.x_, b.x_)); }
  friend bool operator!=(const Ball& a, const Ball& b) { return !(a == b); }

  friend Ball exp(const Ball& a) { return applied(arb_exp, a); }
  friend Ball log(const Ball& a) { return applied(arb_log, a); }
  /// The number is taken to be in the domain, however far below zero its ball reaches.
  friend Ball sqrt(const Ball& a) { return applied(arb_sqrtpos, a); }
  friend Ball abs(const Ball& a) {
    Ball r;
    arb_abs(r.x_, a.x_);
    return r;
  }
  /// Whether a > b, if all pairs of numbers in the balls agree on that.
  friend std::optional<bool> is_larger(const Ball& a, const Ball& b) {
    const bool yes = arb_gt(a.x_, b.x_) != 0;
    return yes || arb_le(a.x_, b.x_) != 0 ? std::optional(yes) : std::nullopt;
  }
  /// Encloses the larger of any two numbers of the balls; never Undecided.
  friend Ball larger(const Ball& a, const Ball& b) {
    Ball r;
    arb_max(r.x_, a.x_, b.x_, BallPrecision::bits());
    return r;
  }
  friend Ball smaller(const Ball& a, const Ball& b) {
    Ball r;
    arb_min(r.x_, a.x_, b.x_, BallPrecision::bits());
    return r;
  }
  /// Undecided if the ball knows nothing, as after dividing by a ball around zero.
  friend bool isfinite(const Ball& a) {
    return decided(arb_is_finite(a.x_), mag_is_zero(arb_radref(a.x_)) && arf_is_inf(arb_midref(a.x_)));
  }
  /// No ball is known to be no number.
  friend bool isnan(const Ball& a) { return !decided(!arf_is_nan(arb_midref(a.x_)), false); }

  /// The nearest double to the midpoint.
  double middle() const { return arf_get_d(arb_midref(x_), ARF_RND_NEAR); }
  /// At least the radius.
  double radius() const { return mag_get_d(arb_radref(x_)); }
  bool contains_zero() const { return arb_contains_zero(x_) != 0; }
  bool is_zero() const { return arb_is_zero(x_) != 0; }
  /// Whether it was set to NaN, for a number that does not exist; what no operation makes.
  bool is_undefined() const { return arf_is_nan(arb_midref(x_)) && mag_is_zero(arb_radref(x_)); }
  /// At least |x| for every x in the ball.
  double largest_size() const;

  /// The `digits` significant digits that every number of the ball rounds to; nothing if they differ.
  std::optional<std::string> decimal(int digits) const;
  /// Those of the midpoint.
  std::string middle_decimal(int digits) const;

 private:
  static Ball applied(void (*f)(arb_t, const arb_t, slong), const Ball& a) {
    Ball r;
    f(r.x_, a.x_, BallPrecision::bits());
    return r;
  }
  static bool decided(bool yes, bool no) {
    if (yes == no) throw Undecided();
    return yes;
  }

  arb_t x_;
};

}  // namespace assay
