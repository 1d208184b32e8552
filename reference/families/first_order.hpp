#pragma once
// The first-order family, one head (delta-family.md section 3): one write of rank one per token into a decaying state
// S [K, V],
//   R_t = diag(D_t) S_{t-1}
//   e_t = v_t - R_t^T p_t  (decayed)   |   v_t - S_{t-1}^T p_t  (undecayed)   |   v_t  (none)
//   S_t = R_t + beta_t k_t e_t^T,   o_t = scale S_t^T q_t
#include <cmath>
#include <utility>

#include "reference/core/columns.hpp"
#include "reference/core/recurrent.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"

namespace assay::first_order {

enum class Error { none, decayed, undecayed };

/// o [T, V] and the final state [K, V]. D(t, i) is the decay of channel i, beta(t) the strength of the write.
template <class In, class Decay, class Strength>
ReadsAndState<typename In::scalar> forward(const In& in, Error error, const decltype(In::k)& p, Decay&& D,
                                           Strength&& beta) {
  using S = typename In::scalar;
  const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
  Tensor<S, 2> o(T, V), state = in.initial_state;
  for (int t = 0; t < T; ++t)
    for (int j = 0; j < V; ++j) {
      const Line<S> s = column(state, j);
      S predicted = S(0);
      if (error == Error::undecayed) add_dot(predicted, s, line(p, t));
      for (int i = 0; i < K; ++i) s[i] *= D(t, i);
      if (error == Error::decayed) add_dot(predicted, s, line(p, t));
      add_scaled(s, S(beta(t) * (in.v(t, j) - predicted)), line(in.k, t));
      o(t, j) = dot(s, line(in.q, t)) * in.scale();
    }
  return ReadsAndState<S>{std::move(o), std::move(state)};
}

/// exp of log decays.
template <class S, int Rank>
Tensor<S, Rank> decays(Tensor<S, Rank> log_decay) {
  using std::exp;
  for (S& x : log_decay.data) x = exp(x);
  return log_decay;
}

}  // namespace assay::first_order
