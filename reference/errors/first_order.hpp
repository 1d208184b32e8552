#pragma once
// The first-order family, one head (delta-family.md section 3): one write of rank one per token into a decaying state
// S [K, V],
//   R_t = diag(D_t) S_{t-1}
//   e_t = v_t - R_t^T p_t  (decayed)   |   v_t - S_{t-1}^T p_t  (undecayed)   |   v_t  (none)
//   S_t = R_t + beta_t k_t e_t^T,   o_t = scale S_t^T q_t
// Its rooms say which decay, which error and which p they mean; the recurrence and its reverse are here, once.
#include <cmath>
#include <utility>
#include <vector>

#include "reference/core/planted.hpp"
#include "reference/core/replay.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/erring.hpp"
#include "reference/errors/kept.hpp"
#include "reference/errors/lines.hpp"
#include "reference/errors/state.hpp"

namespace assay {
inline namespace ASSAY_REFERENCES {

namespace first_order {

enum class Error { none, decayed, undecayed };

/// What a room of the family binds.
template <class S>
struct Terms {
  Error error = Error::none;
  S scale;
  Tensor<S, 2> q, k, v;        // [T, K], [T, K], [T, V]
  Tensor<S, 2> p;              // [T, K]; not read if there is no error
  Tensor<S, 1> beta;           // [T]
  Tensor<S, 2> decay;          // D = exp(log_decay), [T, K]; an extent of 1 stands for all tokens or all channels
  Tensor<S, 2> initial_state;  // [K, V]

  const S& D(int t, int i) const { return decay(decay.size(0) == 1 ? 0 : t, decay.size(1) == 1 ? 0 : i); }
};

template <class S>
struct Reads {
  Tensor<S, 2> o, final_state;  // [T, V], [K, V]
};

/// Gradients; `k` holds the write's part alone, and `log_decay` is as wide as the decay was.
template <class S>
struct Gradients {
  Tensor<S, 2> q, k, v, p;
  Tensor<S, 1> beta;
  Tensor<S, 2> log_decay, initial_state;
};

/// exp of log decays [T, K], [T] or one number, as [T, K], [T, 1] or [1, 1].
template <class S, int Rank>
Tensor<S, 2> decays(const Tensor<S, Rank>& log_decay) {
  using std::exp;
  Tensor<S, 2> decay(1, 1);
  for (int r = 0; r < Rank; ++r) decay.extent[static_cast<std::size_t>(r)] = log_decay.size(r);
  decay.data = log_decay.data;
  for (S& x : decay.data) x = exp(x);
  return decay;
}

/// beta of a rule that has none.
template <class S>
Tensor<S, 1> ones(int count) {
  Tensor<S, 1> all(count);
  for (S& x : all.data) x = S(1);
  return all;
}

/// The numbers of `source` in the shape of `like`.
template <class S, int Rank>
Tensor<S, Rank> shaped(Tensor<S, Rank> like, const Tensor<S, 2>& source) {
  like.data = source.data;
  return like;
}

template <class S>
Tensor<S, 2> sum(Tensor<S, 2> a, const Tensor<S, 2>& b) {
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] += b.data[i];
  return a;
}

inline constexpr Fault reads_before_the_write{"first_order_reads_before_the_write", "o_t reads R_t, not S_t"};
inline constexpr Fault swaps_the_error{"first_order_swaps_the_error", "the error reads the other one of R and S_{t-1}"};
inline constexpr Fault decays_once{"first_order_decays_once", "every token decays like the first"};
inline constexpr Fault forgets_the_decay_backward{"first_order_forgets_the_decay_backward", "G passes undecayed"};
inline constexpr Fault decay_gradient_with_the_write{"first_order_decay_gradient_with_the_write",
                                                     "dg reads S_t, not R_t"};
inline constexpr Fault forgets_the_prediction_backward{"first_order_forgets_the_prediction_backward",
                                                       "G misses -p de^T"};
inline constexpr Fault prediction_gradient_sign{"first_order_prediction_gradient_sign", "dp has the wrong sign"};
inline constexpr Fault query_gradient_before_the_write{"first_order_query_gradient_before_the_write",
                                                       "dq reads S_{t-1}, not S_t"};

inline constexpr Fault reads_the_first_channel{"first_order_reads_the_first_channel",
                                               "o reads q_t[0] in every channel"};
inline constexpr Fault writes_the_first_value{"first_order_writes_the_first_value", "e_t takes v_t[0] in every column"};
inline constexpr Fault strength_gradient_of_values{"first_order_strength_gradient_of_values",
                                                   "dbeta reads v_t, not e_t"};

/// What step t maps a column of S_{t-1} by, and in reverse a column of G: the decay D, then what the write makes of it
/// (`last`), together `all`.
template <class S>
struct Matrices {
  Direction<S> k, p, q;
  StepMatrix<S> D, last, all;

  Matrices(const Terms<S>& in, int t)
      : k(direction(line(in.k, t))),
        q(direction(line(in.q, t))),
        D(decay_matrix<S>(in.decay.size(1), [&](int i) -> const S& { return in.D(t, i); })),
        all(D) {
    if (in.error == Error::none) return;
    p = direction(line(in.p, t));
    if (in.error == Error::decayed)
      last = delta_matrix(S(1), in.beta(t), k, p), all = last * D;
    else
      all = in.decay.size(1) == 1 ? delta_matrix(in.D(t, 0), in.beta(t), k, p) : D + outer_matrix(in.beta(t), k, p);
  }
};

/// Takes `state` over token t; sets row t of `error`, and row t of `o` to what the query reads.
template <class S>
void step(const Terms<S>& in, int t, State<S>& state, Tensor<S, 2>& error, Tensor<S, 2>& o) {
  const int K = in.k.size(1), V = in.v.size(1);
  const bool of_decayed =
      planted<"first_order_swaps_the_error">(in.error == Error::decayed, in.error != Error::decayed);
  const Matrices<S> M(in, t);
  for (int j = 0; j < V; ++j) {
    const TakenColumn<S> s = state.take(j);
    S predicted = S(0);
    if (in.error != Error::none && !of_decayed) add_dot(predicted, s, line(in.p, t));
    for (int i = 0; i < K; ++i) s[i] *= planted<"first_order_decays_once">(in.D(t, i), in.D(0, i));
    if (in.error != Error::none && of_decayed) add_dot(predicted, s, line(in.p, t));
    const S e = planted<"first_order_writes_the_first_value">(in.v(t, j), in.v(t, 0)) - predicted;
    const S write = in.beta(t) * e;
    Line<const S> query = line(in.q, t);
    query.step = planted<"first_order_reads_the_first_channel">(1, 0);
    const bool reads_last = planted<"first_order_reads_before_the_write">(true, false);
    S read = S(0);
    if (!reads_last) add_dot(read, s, query);
    s.write(write, line(in.k, t));
    s.keep(Kept::state);
    if (reads_last) add_dot(read, s, query);
    s.put_back(M.all);
    error(t, j) = in.error == Error::decayed ? s.whole(e, M.p, M.D) : s.whole(e, M.p);
    o(t, j) = s.whole(read, M.q, M.all) * in.scale;
  }
}

template <class S>
Reads<S> forward(const Terms<S>& in) {
  const int T = in.k.size(0), V = in.v.size(1);
  Tensor<S, 2> error(T, V), o(T, V);
  State<S> state(in.initial_state);
  for (int t = 0; t < T; ++t) step(in, t, state, error, o);
  return {o, state.tensor()};
}

/// Reverse recurrence (delta-family.md 3.2), G = dL/dS_t with the read at t included:
///   dq = scale S_t do,  G += scale q do^T,  dbeta = k^T G e,  dk = beta G e,  de = dv = beta G^T k
///   decayed:    dp = -R de,        H = G - p de^T,  dlog D = rowsum(H o R),  G <- diag(D) H
///   undecayed:  dp = -S_{t-1} de,  dlog D = rowsum(G o R),                   G <- diag(D) G - p de^T
///   none:       dlog D = rowsum(G o R),                                      G <- diag(D) G
template <class S>
Gradients<S> backward(const Terms<S>& in, const Reads<S>& cotangent) {
  const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
  Tensor<S, 2> error(T, V), o(T, V);
  State<S> G(cotangent.final_state);
  Replay states(State<S>(in.initial_state), T, [&](int t, State<S>& state) { step(in, t, state, error, o); });
  Gradients<S> d{Tensor<S, 2>(in.q.extent), Tensor<S, 2>(in.k.extent),    Tensor<S, 2>(in.v.extent),
                 Tensor<S, 2>(in.k.extent), Tensor<S, 1>(in.beta.extent), Tensor<S, 2>(in.decay.extent),
                 Tensor<S, 2>(K, V)};
  std::vector<S> R(static_cast<std::size_t>(K));
  for (int t = T - 1; t >= 0; --t) {
    const State<S>&before = states.before(t), &after = states.after(t);
    const Matrices<S> M(in, t);
    ColumnSum<S> dk(line(d.k, t));
    for (int j = 0; j < V; ++j) {
      const TakenColumn<S> g = G.take(j);
      const S read_gradient = in.scale * cotangent.o(t, j), write = in.beta(t) * error(t, j);
      add_scaled(line(d.q, t), read_gradient,
                 planted<"first_order_query_gradient_before_the_write">(column(after, j), column(before, j)));
      g.write(read_gradient, line(in.q, t));
      const Reading<S> gk = g.read(M.k), de = in.beta(t) * gk;
      d.v(t, j) = de.whole;
      d.beta(t) += gk.whole * planted<"first_order_strength_gradient_of_values">(error(t, j), in.v(t, j));
      dk.add(write, g);
      for (int i = 0; i < K; ++i) R[static_cast<std::size_t>(i)] = in.D(t, i) * before(i, j);
      const S read = planted<"first_order_forgets_the_prediction_backward">(de.own, S(0));
      if (in.error != Error::none)
        subtract_scaled(line(d.p, t), planted<"first_order_prediction_gradient_sign">(de.whole, S(-de.whole)),
                        in.error == Error::decayed ? line(R) : column(before, j));
      if (in.error == Error::decayed) g.erase(read, line(in.p, t));
      for (int i = 0; i < K; ++i) {
        S& dlog = d.log_decay(in.decay.size(0) == 1 ? 0 : t, in.decay.size(1) == 1 ? 0 : i);
        add_product_of_states<S>(
            dlog, g.whole(g[i], M.last),
            planted<"first_order_decay_gradient_with_the_write">(R[static_cast<std::size_t>(i)], after(i, j)));
        g[i] *= planted<"first_order_forgets_the_decay_backward">(in.D(t, i), S(1));
      }
      if (in.error == Error::undecayed) g.erase(read, line(in.p, t));
      g.keep(Kept::gradient);
      g.put_back(M.all);
    }
    dk.finish();
  }
  d.initial_state = G.tensor();
  return d;
}

}  // namespace first_order

}  // namespace ASSAY_REFERENCES
}  // namespace assay
