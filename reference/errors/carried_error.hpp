#pragma once
// How the errors of a state travel through a linear recurrence S' = M S + w, for scalars that enclose their numbers.
//
// Number by number, a step widens enclosures by the matrix of the sizes |M_ij|, whose norm exceeds M's: the delta rule,
// which makes errors smaller, would seem to double them every few steps. Taken together, as vectors, the errors of a
// column grow by the norm of M and no more. So they are taken off before a step, which then shows its own rounding
// errors alone, and put back after it. docs/error-analysis.md, section 8.
//
// For every other scalar there are no errors, and all of this is nothing.
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <type_traits>

#include "reference/core/columns.hpp"

namespace assay {

/// Upper bounds, one for each number that a scalar holds. Every operation rounds up.
template <std::size_t N>
struct UpperBounds {
  std::array<double, N> at{};

  friend UpperBounds operator*(UpperBounds a, const UpperBounds& b) {
    for (std::size_t i = 0; i < N; ++i) a.at[i] = a.at[i] * b.at[i] * (1 + 0x1p-50);
    return a;
  }
  friend UpperBounds operator+(UpperBounds a, const UpperBounds& b) {
    for (std::size_t i = 0; i < N; ++i) a.at[i] = (a.at[i] + b.at[i]) * (1 + 0x1p-50);
    return a;
  }
  /// Nothing is no part of anything, 0 / 0 = 0; any other part is large enough to be squared.
  friend UpperBounds operator/(UpperBounds a, const UpperBounds& b) {
    for (std::size_t i = 0; i < N; ++i) a.at[i] = a.at[i] == 0 ? 0 : a.at[i] / b.at[i] * (1 + 0x1p-50) + 0x1p-500;
    return a;
  }
  friend UpperBounds sqrt(UpperBounds a) {
    for (double& x : a.at) x = std::sqrt(x) * (1 + 0x1p-50);
    return a;
  }
  friend UpperBounds smaller(UpperBounds a, const UpperBounds& b) {
    for (std::size_t i = 0; i < N; ++i) a.at[i] = a.at[i] <= b.at[i] ? a.at[i] : b.at[i];
    return a;
  }
  /// Where one of them is unknown (NaN), so is the larger.
  friend UpperBounds larger(UpperBounds a, const UpperBounds& b) {
    for (std::size_t i = 0; i < N; ++i) a.at[i] = a.at[i] >= b.at[i] ? a.at[i] : b.at[i] + 0 * a.at[i];
    return a;
  }
  /// As doubles, one for each number, rounded up; and back.
  const std::array<double, N>& doubles() const { return at; }
  static UpperBounds of(const std::array<double, N>& x) { return {x}; }
};
/// The bounds of a scalar that has no errors.
struct NoBounds {
  friend NoBounds operator*(NoBounds, NoBounds) { return {}; }
  friend NoBounds operator+(NoBounds, NoBounds) { return {}; }
};

/// An enclosure has `Bounds`, `sizes`, `nearest`, `widened`, `take_joint_error`, `take_errors` and `set_joint_error`.
/// Between steps the errors of a column are *joint*: every number of it has the same radius, and that bounds the 2-norm
/// of all of them.
template <class S>
concept Enclosure = requires {
  typename S::Bounds;
};

/// Whether a > b. An enclosure has its own, which says nothing where it cannot tell.
template <class S>
std::optional<bool> is_larger(const S& a, const S& b) {
  return a > b;
}

namespace detail {
template <class S>
struct BoundsOf {
  using type = NoBounds;
};
template <Enclosure S>
struct BoundsOf<S> {
  using type = typename S::Bounds;
};
}  // namespace detail
template <class S>
using Bounds = typename detail::BoundsOf<S>::type;

/// At least |x|.
template <class S>
Bounds<S> size_of([[maybe_unused]] const S& x) {
  if constexpr (Enclosure<S>)
    return x.sizes();
  else
    return {};
}

/// `x`, or what it holds with an error more.
template <class S>
decltype(auto) widened(const S& x, [[maybe_unused]] const Bounds<S>& error) {
  if constexpr (Enclosure<S>)
    return x.widened(error);
  else
    return (x);
}

/// The sum of the squares of x_0 ... x_{n-1}, each given by `x(i)`; zero unless S is an Enclosure.
template <class S, class F>
S squares_of([[maybe_unused]] int n, [[maybe_unused]] F&& x) {
  S sum = S(0);
  if constexpr (Enclosure<S>)
    for (int i = 0; i < n; ++i) sum += x(i) * x(i);
  return sum;
}

/// As above: at least their 2-norm.
template <class S, class F>
Bounds<S> norm_of([[maybe_unused]] int n, [[maybe_unused]] F&& x) {
  if constexpr (Enclosure<S>)
    return sqrt(size_of(squares_of<S>(n, x)));
  else
    return {};
}

/// At least the 2-norm of alpha I - beta x x^T, |x|^2 = `square`.
template <class S>
Bounds<S> symmetric_norm([[maybe_unused]] const S& alpha, [[maybe_unused]] const S& beta,
                         [[maybe_unused]] const S& square) {
  if constexpr (Enclosure<S>)
    return larger(size_of(alpha), size_of(S(alpha - beta * square)));
  else
    return {};
}

/// Makes the errors of every column joint: before the first step.
template <class S>
void join_errors([[maybe_unused]] Columns<S>& state) {
  if constexpr (Enclosure<S>)
    for (int j = 0; j < state.size(1); ++j)
      S::set_joint_error(state.column(j), state.size(0), S::take_errors(state.column(j), state.size(0)));
}

/// The joint error of a column of a state while a step maps it.
template <class S>
class CarriedError {
 public:
  /// Takes it off.
  CarriedError(Columns<S>&, int) {}
  /// `x`, which is linear in the column, with the error that the column's makes of it: at most `norm` times as large.
  const S& whole(const S& x, NoBounds) const { return x; }
  /// After a step of that norm: what it carries along, and what it rounded.
  void put_back(Columns<S>&, int, NoBounds) const {}
};

template <Enclosure S>
class CarriedError<S> {
 public:
  CarriedError(Columns<S>& state, int column) : error_(S::take_joint_error(state.column(column), state.size(0))) {}
  S whole(const S& x, const Bounds<S>& norm) const { return x.widened(norm * error_); }
  void put_back(Columns<S>& state, int column, const Bounds<S>& norm) const {
    const Bounds<S> own = S::take_errors(state.column(column), state.size(0));
    S::set_joint_error(state.column(column), state.size(0), norm * error_ + own);
  }

 private:
  Bounds<S> error_;
};

}  // namespace assay
