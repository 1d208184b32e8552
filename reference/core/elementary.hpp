#pragma once
// Elementary functions made of exp and log alone, so that every scalar of the oracles has them; none of them cancels.
#include <cmath>

#include "reference/core/carried_error.hpp"
#include "reference/core/planted.hpp"

namespace assay {
inline namespace ASSAY_REFERENCES {

/// log(1 + y) for y >= 0, to the last digits however small y is: log(1 + y) of the rounded sum, and what rounding took.
template <class S>
S log_of_one_plus(const S& y) {
  using std::log;
  const S sum = S(1) + y;
  return log(sum) + (y - (sum - S(1))) / sum;
}

/// 1 / (1 + exp(-x)).
template <class S>
S sigmoid(const S& x) {
  using std::exp;
  if (is_larger(x, S(0)) == true) return S(1) / (S(1) + exp(-x));  // at zero either form will do
  const S power = exp(x);
  return power / (S(1) + power);
}

/// log(1 + exp(x)).
template <class S>
S softplus(const S& x) {
  using std::exp;
  return is_larger(x, S(0)) == true ? x + log_of_one_plus(S(exp(-x))) : log_of_one_plus(S(exp(x)));
}

}  // namespace ASSAY_REFERENCES
}  // namespace assay
