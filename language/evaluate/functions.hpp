#pragma once
// The meaning of the operations in every scalar: functions of single numbers, and numbers that do not exist.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "language/evaluate/value.hpp"
#include "oracles/multiword/pack.hpp"
#include "oracles/scalars/emulated.hpp"
#include "oracles/scalars/scalar.hpp"
#include "oracles/scalars/sized.hpp"
#include "reference/errors/carried_error.hpp"
#include "reference/errors/elementary.hpp"

namespace assay::language {

template <class S>
inline constexpr bool is_dual = false;
template <class S>
inline constexpr bool is_dual<Dual<S>> = true;
/// Scalars whose arithmetic does not carry what is undefined along by itself.
template <class S>
inline constexpr bool must_be_asked = std::is_same_v<S, Ball> || std::is_same_v<S, Rational>;
/// A double that operations may round.
template <class S>
inline constexpr bool is_machine = std::is_same_v<S, double> || std::is_same_v<S, Emulated>;
/// Scalars whose sums and products are written over an operand that is not read again.
template <class S>
inline constexpr bool goes_in_place = Several<S> || is_machine<S> || std::is_same_v<S, W2> || std::is_same_v<S, Sized>;

template <class S>
S undefined() {
  if constexpr (must_be_asked<S>)
    return S::parse("nan");
  else if constexpr (is_dual<S>)
    return undefined<decltype(S::value)>();
  else
    return S(std::numeric_limits<double>::quiet_NaN());
}

/// Whether no number is there: in any lane of packs; in enclosures, known to be none.
template <class S>
bool is_undefined(const S& x) {
  using std::isnan;
  if constexpr (std::is_same_v<S, Ball>)
    return x.is_undefined();
  else if constexpr (Several<S>) {
    for (int lane = 0; lane < S::size; ++lane)
      if (std::isnan(x.number(lane).word[0])) return true;
    return false;
  } else if constexpr (is_dual<S>)
    return isnan(x.value);
  else
    return isnan(x);
}

/// Whether something is known of it, and it is finite.
template <class S>
bool is_sound(const S& x) {
  using std::isfinite;
  if constexpr (std::is_same_v<S, Ball> || Several<S>) {
    try {
      return isfinite(x);
    } catch (const Undecided&) {
      return false;
    }
  } else {
    return isfinite(x);
  }
}

/// Whether it is zero and nothing else. Not asked of packs.
template <class S>
bool is_zero(const S& x) {
  if constexpr (std::is_same_v<S, Ball>)
    return x.is_zero();
  else if constexpr (is_dual<S>)
    return x.value == 0 && x.slope == 0;
  else
    return !is_undefined(x) && x == S(0);
}

/// Whether a pack is that number in all lanes, and nothing else.
template <class S>
bool is_everywhere(const S& x, double number) {
  for (int lane = 0; lane < S::size; ++lane)
    if (const WordBall one = x.number(lane); one.word[0] != number || one.word[1] != 0 || one.radius != 0) return false;
  return true;
}

/// Calls f unless an operand is undefined, for the scalars that must be asked.
template <class S, class F, class... X>
S defined(F&& f, const X&... x) {
  if constexpr (must_be_asked<S>)
    if ((is_undefined(x) || ...)) return undefined<S>();
  return f(x...);
}

/// The draw that numbers of this scalar are part of, on this thread, or null.
template <class S>
PerturbedArithmetic* draw_of() {
  if constexpr (std::is_same_v<S, Emulated>)
    return PerturbedArithmetic::current();
  else
    return nullptr;
}

/// The value of a W2, as one operation of a machine's scalar leaves it.
template <class S>
S rounded_once(double x) {
  if (PerturbedArithmetic* draw = draw_of<S>()) return draw->operation(x);
  return x;
}

/// libm's differ between machines: those of doubles come from pairs.
template <class S>
double machine(const S& x) {
  if constexpr (std::is_same_v<S, Emulated>)
    return x.value;
  else
    return x;
}

template <class S>
S exponential(const S& x) {
  using std::exp;
  if constexpr (std::is_same_v<S, double>)
    return exp(W2(x)).hi;
  else
    return exp(x);
}

template <class S>
S logarithm(const S& x) {
  using std::log;
  if constexpr (is_machine<S>) {
    return rounded_once<S>(log(W2(machine(x))).hi);
  } else if constexpr (std::is_same_v<S, Ball>) {
    if (x.is_zero()) return {-std::numeric_limits<double>::infinity()};
    return is_larger(Ball(0), x).value_or(false) ? undefined<S>() : log(x);
  } else if constexpr (Several<S>) {
    return is_everywhere(x, 0) ? S(-std::numeric_limits<double>::infinity()) : log(x);
  } else {
    return log(x);
  }
}

template <class S>
S square_root(const S& x) {
  using std::sqrt;
  if constexpr (std::is_same_v<S, Ball>) {
    if (is_larger(Ball(0), x).value_or(false)) return undefined<S>();
    if (x.contains_zero() && !x.is_zero()) throw Undecided();  // it may be none
  }
  return sqrt(x);
}

/// (e^2x - 1) / (e^2x + 1): cancels near zero, which enclosures notice.
template <class S>
S hyperbolic_tangent(const S& x) {
  using std::tanh;
  if constexpr (is_machine<S>) {
    const double v = machine(x);
    if (std::fabs(v) > 40) return rounded_once<S>(v < 0 ? -1 : 1);
    const W2 power = exp(W2(2 * v)), one(1);
    return rounded_once<S>(std::isnan(v) || v == 0 ? v : ((power - one) / (power + one)).hi);
  } else if constexpr (is_dual<S>) {
    const auto y = hyperbolic_tangent(x.value);
    return {y, x.slope == 0 ? x.slope : decltype(y)(x.slope * (1 - y * y))};
  } else if constexpr (requires { tanh(x); }) {
    return tanh(x);
  } else {
    const S less = -abs(x), power = exp(S(less + less));
    const S size = (S(1) - power) / (S(1) + power);
    if constexpr (Several<S>)
      return chosen(x, size, S(-size));
    else if constexpr (std::is_same_v<S, Ball>) {
      const std::optional<bool> positive = is_larger(x, S(0));
      if (positive) return *positive ? size : -size;
      const S both = exp(S(x + x));
      return (both - S(1)) / (both + S(1));
    } else
      return x < S(0) ? S(-size) : size;
  }
}

template <class S>
S logistic(const S& x) {
  if constexpr (is_machine<S>)
    return rounded_once<S>(sigmoid(W2(machine(x))).hi);
  else
    return sigmoid(x);
}

template <class S>
S soft_plus(const S& x) {
  if constexpr (is_machine<S>)
    return rounded_once<S>(softplus(W2(machine(x))).hi);
  else
    return softplus(x);
}

template <class S>
S magnitude(const S& x) {
  using std::abs;
  if constexpr (is_dual<S>)  // the slope of |x| at 0 is 0
    return x.value == 0 ? S(x.value) : abs(x);
  else
    return abs(x);
}

template <class S>
S held(const S& x) {
  if constexpr (is_dual<S>)
    return stop_gradient(x);
  else
    return x;
}

/// Nothing is divided by zero.
template <class S>
S quotient(const S& a, const S& b) {
  if constexpr (!Several<S>)
    if (is_zero(b)) return undefined<S>();
  if constexpr (is_dual<S>)
    if (b.value == 0) return undefined<S>();
  return a / b;
}

/// Whether a product with zero is asked what it would be before zero absorbs it.
template <class S>
inline constexpr bool absorbs_products = Several<S> || std::is_same_v<S, Sized>;

/// Where `zero` is exactly zero, `otherwise` whatever. A difference that is zero carries its terms on: where they do
/// not cancel, what is left of them is multiplied like any other number.
template <class S>
S absorbed(const S& zero, const S& otherwise) {
  if constexpr (Several<S>) {
    if (is_sound(otherwise)) return otherwise;
    S result = otherwise;
    for (int lane = 0; lane < S::size; ++lane) {
      const WordBall known = result.number(lane);
      if (std::isfinite(known.word[0]) && std::isfinite(known.radius)) continue;
      const WordBall x = zero.number(lane);
      if (x.word[0] == 0 && x.radius == 0) result.take(lane, 0.0);
    }
    return result;
  } else if constexpr (std::is_same_v<S, Sized>) {
    return is_zero(zero) && (zero.nothing() || !isfinite(otherwise)) ? S(0) : otherwise;
  } else {
    return is_zero(zero) ? S(0) : otherwise;
  }
}

/// The first where it is strictly larger, else the second.
template <class S>
S maximum(const S& a, const S& b) {
  if constexpr (std::is_same_v<S, Ball> || Several<S>)
    return larger(a, b);
  else if constexpr (std::is_same_v<S, Rational>)
    return b < a ? a : b;
  else
    return is_undefined(a) ? a : b < a ? a : b;  // undefined if either is: no comparison with b holds then
}

template <class S>
S power(S x, std::int64_t n) {
  if (n < 0 && !Several<S>)
    if constexpr (!Several<S>)
      if (is_zero(x)) return undefined<S>();
  S result = S(1);
  for (std::uint64_t left = n < 0 ? -static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n); left > 0;) {
    if (left % 2 == 1) result = S(result * x);
    left /= 2;
    if (left > 0) x = S(x * x);
  }
  return n < 0 ? quotient(S(1), result) : result;
}

/// Compares a and b; throws Undecided for enclosures that overlap.
template <class S>
Truth compared(Op op, const S& a, const S& b) {
  if (is_undefined(a) || is_undefined(b)) {
    if constexpr (Several<S>) throw Undecided();
    return Truth::undefined;
  }
  if constexpr (Several<S>) {  // differences of infinities are not known
    constexpr double closed = -std::numeric_limits<double>::infinity();
    const bool first = is_everywhere(a, closed), second = is_everywhere(b, closed);
    if (first || second)
      return (op == Op::lt ? !second : op == Op::le ? first : first && second) ? Truth::yes : Truth::no;
  }
  const bool yes = op == Op::lt ? a < b : op == Op::le ? a <= b : a == b;
  return yes ? Truth::yes : Truth::no;
}

/// An exact number near `top`, the largest score of a softmax, that may be taken off its scores.
template <class S>
S shift_near(const S& top) {
  if constexpr (Several<S>) {
    S shift;
    const auto near = top.nearest();
    for (int lane = 0; lane < S::size; ++lane) {
      const double x = near[static_cast<std::size_t>(lane)];
      shift.take(lane, std::isfinite(x) ? x : 0.0);
    }
    return shift;
  } else if constexpr (std::is_same_v<S, Rational>) {
    return isfinite(top) ? top : S(0);
  } else {
    const double near = to_double(top);
    if (std::isfinite(near)) return S(near);
    if (!is_sound(top)) return S(0);
    S middle = top;  // beyond the doubles
    if constexpr (Enclosure<S>) S::take_joint_error(&middle, 1);
    return middle;
  }
}

/// "1/10"
template <class S>
S constant(const std::string& fraction) {
  const std::size_t slash = fraction.find('/');
  if constexpr (std::is_same_v<S, Emulated> || std::is_same_v<S, Sized>) {
    return S(constant<double>(fraction));
  } else if constexpr (std::is_same_v<S, double>) {
    const W2 top = from_decimal<W2>(fraction.substr(0, slash));
    return slash == std::string::npos ? top.hi : (top / from_decimal<W2>(fraction.substr(slash + 1))).hi;
  } else {
    const S top = from_decimal<S>(fraction.substr(0, slash));
    return slash == std::string::npos ? top : S(top / from_decimal<S>(fraction.substr(slash + 1)));
  }
}

template <class S>
S function(Op op, const S& x) {
  switch (op) {
    case Op::neg:
      return -x;
    case Op::exp:
      return exponential(x);
    case Op::log:
      return logarithm(x);
    case Op::sqrt:
      return square_root(x);
    case Op::tanh:
      return hyperbolic_tangent(x);
    case Op::sigmoid:
      return logistic(x);
    case Op::softplus:
      return soft_plus(x);
    case Op::abs:
      return magnitude(x);
    default:
      return held(x);
  }
}

template <class S>
S function(Op op, const S& a, const S& b) {
  switch (op) {
    case Op::add:
      return a + b;
    case Op::sub:
      return a - b;
    case Op::mul:
      return a * b;
    case Op::div:
      return quotient(a, b);
    default:
      return maximum(a, b);
  }
}

}  // namespace assay::language
