#pragma once
// FALCON-3A in words where no window bounds the pairs. With the sum over the pairs up to step t, C = sum x v^T, and
// w = rho / B_t,
//   S_t = gamma S_{t-1} + w C
// which costs K V a step, however many pairs there are. Backward, with G as the reference has it and H = sum w G over
// the steps from t on,
//   drho = <G, C> / B_t,   dv_j = H^T x_j,   dx_j = H v_j + (sum 2 dE / B) x_j
// where j is the pair that step t is the first to see.
#include "oracles/core/pair_sums.hpp"
#include "oracles/core/word_engine.hpp"
#include "reference/core/replay.hpp"
#include "reference/falcon3a.hpp"

namespace assay {

template <>
struct WordEngine<falcon3a> {
  using Options = falcon3a::Options;
  template <class S>
  using Inputs = falcon3a::Inputs<S>;
  template <class S>
  using Outputs = falcon3a::Outputs<S>;

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    if (options.has_window) return falcon3a::forward(options, in);
    return read_every_step<Outputs<S>>(options, in, initial(options, in),
                                       [&](int t, State<S>& state) { write(options, in, t, state); });
  }

  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    if (options.has_window) return falcon3a::backward(options, in, cotangent);
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    const Pairs<const Inputs<S>> pairs(options, in);
    Replay states(initial(options, in), T, [&](int t, State<S>& state) { write(options, in, t, state); });
    Inputs<S> d = zero_like(in);
    const Pairs<Inputs<S>> d_pairs(options, d);
    add_final_tail(d_pairs, cotangent);
    Columns<S> G(cotangent.final_state), H(K, V);
    S energy = S(0);  // the sum of 2 dE / B
    const auto pass_on = [&](int j) {
      const Line<const S> x = feature_line(pairs, j, K);
      const Line<S> dx = feature_line(d_pairs, j, K);
      for (int c = 0; c < V; ++c) {
        add_dot(d_pairs.v(j, c), column(H, c), x);
        add_scaled(dx, pairs.v(j, c), column(H, c));
      }
      add_scaled(dx, energy, x);
    };
    for (int t = T - 1; t >= 0; --t) {
      const State<S>&before = states.before(t), &after = states.after(t);
      add_read_gradients(d.q, G, t, after.matrix, in.q, cotangent.o);
      if (!options.writes(t)) continue;
      const PairSums<S>& sums = after.sums;
      const auto [D, rho, gamma] = step_of(in, t, sums);
      const S weight = rho / S(sums.count);
      const bool is_noop = D == S(0);
      S d_rho = S(0);
      for (int c = 0; c < V && !is_noop; ++c) {
        add_dot(d_rho, column(G, c), column(sums.xv, c));
        subtract_dot(d.alpha(t), column(G, c), column(before.matrix, c));
        add_scaled(column(H, c), weight, column(G, c));
        for (int i = 0; i < K; ++i) G(i, c) *= gamma;
      }
      if (!is_noop) {
        d_rho /= S(sums.count);
        d.beta(t) = d_rho / D;
        energy -= S(2) * d_rho * rho / D / S(sums.count);
      }
      pass_on(sums.count - 1);
    }
    for (int j = 0; j < pairs.tail(); ++j) pass_on(j);
    d.initial_state = G.tensor();
    return d;
  }

 private:
  /// S_t, and the sums up to t.
  template <class S>
  struct State {
    Columns<S> matrix;
    PairSums<S> sums;
  };
  template <class S>
  static State<S> initial(const Options& options, const Inputs<S>& in) {
    const Pairs<const Inputs<S>> pairs(options, in);
    return {Columns<S>(in.initial_state), PairSums<S>(pairs, in.k.size(1), in.v.size(1), false)};
  }

  template <class S>
  struct Step {
    S D, rho, gamma;
  };
  template <class S>
  static Step<S> step_of(const Inputs<S>& in, int t, const PairSums<S>& sums) {
    const S D = sums.mean_energy() + in.eps();
    if (D == S(0)) return {D, S(0), S(1)};
    return {D, in.beta(t) / D, S(1) - in.alpha(t)};
  }

  template <class S>
  static void write(const Options& options, const Inputs<S>& in, int t, State<S>& state) {
    if (!options.writes(t)) return;
    auto& [matrix, sums] = state;
    sums.add(Pairs<const Inputs<S>>(options, in));
    const auto [D, rho, gamma] = step_of(in, t, sums);
    const S weight = rho / S(sums.count);
    for (int c = 0; c < matrix.size(1); ++c) {
      for (int i = 0; i < matrix.size(0); ++i) matrix(i, c) *= gamma;
      add_scaled(column(matrix, c), weight, column(sums.xv, c));
    }
  }
};

}  // namespace assay
