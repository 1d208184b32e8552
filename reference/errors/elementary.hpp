#pragma once
// Elementary functions made of exp and log alone, so that every scalar of the oracles has them; none of them cancels.
#include <cmath>

#include "reference/errors/carried_error.hpp"

namespace assay {

/// log(1 + y) for y >= 0, to the last digits however small y is: log(1 + y) of the rounded sum, and what rounding took.
template <class S>
S log_of_one_plus(const S& y) {
  using std::log;
  const S sum = S(1) + y;
  return log(sum) + (y - (sum - S(1))) / sum;
}

/// A scalar that holds several numbers, which need not have the same sign.
template <class S>
concept Several = requires(S x) {
  x.take(0, x);
  x.number(0).word[0];
  S::size;
};

/// `positive` where the middle of x is, and `other` where it is not: number by number.
template <Several S>
S chosen(const S& x, const S& positive, const S& other) {
  S result = other;
  for (int i = 0; i < S::size; ++i)
    if (x.number(i).word[0] > 0) result.take(i, positive);
  return result;
}

/// 1 / (1 + exp(-x)).
template <class S>
S sigmoid(const S& x) {
  using std::exp;
  if constexpr (Several<S>) {  // true of any x; the choice keeps exp from overflowing
    const S power = exp(chosen(x, S(-x), x)), sum = S(1) + power;
    return chosen(x, S(S(1) / sum), S(power / sum));
  } else {
    if (is_larger(x, S(0)).value_or(false)) return S(1) / (S(1) + exp(-x));  // at zero either form will do
    const S power = exp(x);
    return power / (S(1) + power);
  }
}

/// log(1 + exp(x)).
template <class S>
S softplus(const S& x) {
  using std::exp;
  if constexpr (Several<S>) {
    const S rest = log_of_one_plus(S(exp(chosen(x, S(-x), x))));
    return chosen(x, S(x + rest), rest);
  } else {
    return is_larger(x, S(0)).value_or(false) ? x + log_of_one_plus(S(exp(-x))) : log_of_one_plus(S(exp(x)));
  }
}

}  // namespace assay
