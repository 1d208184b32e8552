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

#include "reference/core/carried_error.hpp"
#include "reference/core/kept.hpp"
#include "reference/core/lines.hpp"
#include "reference/core/planted.hpp"
#include "reference/core/replay.hpp"
#include "reference/core/tensor.hpp"

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

/// What step t does to errors of a column of S_{t-1}, or of G: `state` bounds the norm of its map, `kept` that of the
/// part without the decay.
template <class S>
struct StepNorms {
  Bounds<S> unit = size_of(S(1)), query, key, prediction, kept = unit, state;

  StepNorms([[maybe_unused]] const Terms<S>& in, [[maybe_unused]] int t) {
    if constexpr (Enclosure<S>) {
      const auto k = [&](int i) -> const S& { return in.k(t, i); };
      const auto p = [&](int i) -> const S& { return in.p(t, i); };
      const int K = in.k.size(1), channels = in.decay.size(1);
      query = norm_of<S>(K, [&](int i) -> const S& { return in.q(t, i); });
      key = norm_of<S>(K, k);
      for (int i = 0; i < channels; ++i) state = larger(state, size_of(in.D(t, i)));
      if (in.error == Error::none) return;
      prediction = norm_of<S>(K, p);
      if (in.error == Error::decayed) {
        prediction = prediction * state;
        kept = rank_one_norm<S>(S(1), in.beta(t), K, k, p);
        state = kept * state;
      } else if (channels == 1) {
        state = rank_one_norm<S>(in.D(t, 0), in.beta(t), K, k, p);
      } else {
        state = state + size_of(in.beta(t)) * key * prediction;
      }
    }
  }
};

/// Takes `state` over token t; sets row t of `error`, and row t of `o` to what the query reads.
template <class S>
void step(const Terms<S>& in, int t, Columns<S>& state, Tensor<S, 2>& error, Tensor<S, 2>& o) {
  const int K = in.k.size(1), V = in.v.size(1);
  const bool of_decayed =
      planted<"first_order_swaps_the_error">(in.error == Error::decayed, in.error != Error::decayed);
  const StepNorms<S> norms(in, t);
  for (int j = 0; j < V; ++j) {
    const CarriedError<S> carried(state, j);
    S predicted = S(0);
    if (in.error != Error::none && !of_decayed) add_dot(predicted, column(state, j), line(in.p, t));
    for (int i = 0; i < K; ++i) state(i, j) *= planted<"first_order_decays_once">(in.D(t, i), in.D(0, i));
    if (in.error != Error::none && of_decayed) add_dot(predicted, column(state, j), line(in.p, t));
    error(t, j) = planted<"first_order_writes_the_first_value">(in.v(t, j), in.v(t, 0)) - predicted;
    const S write = in.beta(t) * error(t, j);
    Line<const S> query = line(in.q, t);
    query.step = planted<"first_order_reads_the_first_channel">(1, 0);
    const bool reads_last = planted<"first_order_reads_before_the_write">(true, false);
    S read = S(0);
    if (!reads_last) add_dot(read, column(state, j), query);
    add_scaled(column(state, j), write, line(in.k, t));
    keep(Kept::state, column(state, j));
    if (reads_last) add_dot(read, column(state, j), query);
    carried.put_back(state, j, norms.state);
    error(t, j) = carried.whole(error(t, j), norms.prediction);
    o(t, j) = carried.whole(read, norms.state * norms.query) * in.scale;
  }
}

template <class S>
Reads<S> forward(const Terms<S>& in) {
  const int T = in.k.size(0), V = in.v.size(1);
  Tensor<S, 2> error(T, V), o(T, V);
  Columns<S> state(in.initial_state);
  join_errors(state);
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
  Columns<S> first(in.initial_state), G(cotangent.final_state);
  join_errors(first);
  join_errors(G);
  Replay states(std::move(first), T, [&](int t, Columns<S>& state) { step(in, t, state, error, o); });
  Gradients<S> d{Tensor<S, 2>(in.q.extent), Tensor<S, 2>(in.k.extent),    Tensor<S, 2>(in.v.extent),
                 Tensor<S, 2>(in.k.extent), Tensor<S, 1>(in.beta.extent), Tensor<S, 2>(in.decay.extent),
                 Tensor<S, 2>(K, V)};
  std::vector<S> R(static_cast<std::size_t>(K));
  for (int t = T - 1; t >= 0; --t) {
    const Columns<S>&before = states.before(t), &after = states.after(t);
    const StepNorms<S> norms(in, t);
    S of_errors = S(0);  // what the errors of G put on dk
    for (int j = 0; j < V; ++j) {
      const CarriedError<S> carried(G, j);
      const S read_gradient = in.scale * cotangent.o(t, j), write = in.beta(t) * error(t, j);
      add_scaled(line(d.q, t), read_gradient,
                 planted<"first_order_query_gradient_before_the_write">(column(after, j), column(before, j)));
      add_scaled(column(G, j), read_gradient, line(in.q, t));
      const S gk = dot(column(G, j), line(in.k, t));
      const S de = in.beta(t) * gk;
      const S& whole_gk = carried.whole(gk, norms.key);
      const S whole_de = in.beta(t) * whole_gk;
      d.v(t, j) = whole_de;
      d.beta(t) += whole_gk * planted<"first_order_strength_gradient_of_values">(error(t, j), in.v(t, j));
      add_scaled(line(d.k, t), write, column(G, j));
      of_errors += carried.whole(S(0), norms.unit) * write;
      for (int i = 0; i < K; ++i) R[static_cast<std::size_t>(i)] = in.D(t, i) * before(i, j);
      const S read = planted<"first_order_forgets_the_prediction_backward">(de, S(0));
      if (in.error != Error::none)
        subtract_scaled(line(d.p, t), planted<"first_order_prediction_gradient_sign">(whole_de, S(-whole_de)),
                        in.error == Error::decayed ? line(R) : column(before, j));
      if (in.error == Error::decayed) subtract_scaled(column(G, j), read, line(in.p, t));
      for (int i = 0; i < K; ++i) {
        S& dlog = d.log_decay(in.decay.size(0) == 1 ? 0 : t, in.decay.size(1) == 1 ? 0 : i);
        dlog += carried.whole(G(i, j), norms.kept) *
                planted<"first_order_decay_gradient_with_the_write">(R[static_cast<std::size_t>(i)], after(i, j));
        G(i, j) *= planted<"first_order_forgets_the_decay_backward">(in.D(t, i), S(1));
      }
      if (in.error == Error::undecayed) subtract_scaled(column(G, j), read, line(in.p, t));
      keep(Kept::gradient, column(G, j));
      carried.put_back(G, j, norms.state);
    }
    for (int i = 0; i < K; ++i) d.k(t, i) += of_errors;
  }
  d.initial_state = G.tensor();
  return d;
}

}  // namespace first_order

}  // namespace ASSAY_REFERENCES
}  // namespace assay
