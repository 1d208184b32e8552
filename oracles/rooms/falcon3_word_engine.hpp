#pragma once
// FALCON-3 in words where no window bounds the pairs. With the sums over the pairs up to step t, C = sum x v^T and
// A = sum x x^T, and w = eta / B_t,
//   sum_j x_j (v_j - S_{t-1}^T x_j)^T = C - A S_{t-1} = M_t,   S_t = gamma S_{t-1} + w M_t
// which costs K^2 V a step, however many pairs there are. Backward, with G as the reference has it and sums over the
// steps from t on, H = sum w G, L = sum w G S_{t-1}^T,
//   deta = <G, M_t> / B_t,   G <- gamma G - w A G,   dv_j = H^T x_j,   dx_j = H v_j - (L + L^T) x_j + (sum 2 dE / B)
//   x_j
// where j is the pair that step t is the first to see.
#include <utility>
#include <vector>

#include "oracles/core/pair_sums.hpp"
#include "oracles/core/word_engine.hpp"
#include "reference/core/replay.hpp"
#include "reference/falcon3.hpp"

namespace assay {

template <>
struct WordEngine<falcon3> {
  using Options = falcon3::Options;
  template <class S>
  using Inputs = falcon3::Inputs<S>;
  template <class S>
  using Outputs = falcon3::Outputs<S>;

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    if (options.has_window) return falcon3::forward(options, in);
    return read_every_step<Outputs<S>>(options, in, initial(options, in),
                                       [&](int t, State<S>& state) { write(options, in, t, state); });
  }

  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    if (options.has_window) return falcon3::backward(options, in, cotangent);
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    const Pairs<const Inputs<S>> pairs(options, in);
    Replay states(initial(options, in), T, [&](int t, State<S>& state) { write(options, in, t, state); });
    Inputs<S> d = zero_like(in);
    const Pairs<Inputs<S>> d_pairs(options, d);
    add_final_tail(d_pairs, cotangent);
    Columns<S> G(cotangent.final_state);
    join_errors(G);
    LaterSteps<S> later(K, V);
    const Bounds<S> unit = size_of(S(1));
    for (int t = T - 1; t >= 0; --t) {
      const State<S>&before = states.before(t), &after = states.after(t);
      const auto errors = errors_of(G);
      add_read_gradients(d.q, G, t, after.matrix, in.q, cotangent.o);
      if (!options.writes(t)) {
        put_back(errors, G, unit);
        continue;
      }
      const PairSums<S>& sums = after.sums;
      const auto [D, gain, weight] = step_of(options, in, t, sums);
      later.add(weight, G, errors, before.matrix);
      S d_weight = S(0), d_gamma = S(0);
      for (int c = 0; c < V; ++c) {
        const CarriedError<S>& error = errors[static_cast<std::size_t>(c)];
        const Line<const S> g = column(std::as_const(G), c), stale = column(before.matrix, c),
                            pull = column(after.pull, c);
        d_weight += error.whole(dot(g, pull), length_of(pull));
        d_gamma += error.whole(dot(g, stale), length_of(stale));
        const std::vector<S> image = times(sums.xx, g);
        for (int i = 0; i < K; ++i) G(i, c) *= gain.gamma;
        subtract_scaled(column(G, c), weight, line(image));
      }
      put_back(errors, G, falcon3::matrix(gain, D, weight, sums.count).norm);
      GainAdjoint<S> adjoint(options.ridge_coupling, D);
      d.beta(t) = adjoint.add(gain, d_weight / S(sums.count), d_gamma);
      d.lambda(t) = adjoint.lambda();
      later.energy += S(2) * adjoint.energy(in.lambda(t)) / S(sums.count);
      later.pass_on(pairs, sums.count - 1, d_pairs);
    }
    for (int j = 0; j < pairs.tail(); ++j) later.pass_on(pairs, j, d_pairs);
    d.initial_state = G.tensor();
    return d;
  }

 private:
  /// S_t, the sums up to t, and M_t.
  template <class S>
  struct State {
    Columns<S> matrix;
    PairSums<S> sums;
    Columns<S> pull;
  };
  template <class S>
  static State<S> initial(const Options& options, const Inputs<S>& in) {
    const int K = in.k.size(1), V = in.v.size(1);
    State<S> state{Columns<S>(in.initial_state), PairSums<S>(Pairs<const Inputs<S>>(options, in), K, V, true),
                   Columns<S>(K, V)};
    join_errors(state.matrix);
    return state;
  }

  template <class S>
  struct Step {
    Denominator<S> D;
    Gain<S> gain;
    S weight;
  };
  template <class S>
  static Step<S> step_of(const Options& options, const Inputs<S>& in, int t, const PairSums<S>& sums) {
    const Denominator<S> D = denominator_of(options.ridge_coupling, sums.mean_energy(), in.lambda(t), in.eps());
    const Gain<S> gain = gain_of(in.beta(t), D, in.decay_floor);
    return {D, gain, gain.eta / S(sums.count)};
  }

  template <class S>
  static void write(const Options& options, const Inputs<S>& in, int t, State<S>& state) {
    if (!options.writes(t)) return;
    auto& [matrix, sums, pull] = state;
    sums.add(Pairs<const Inputs<S>>(options, in));
    const auto [D, gain, weight] = step_of(options, in, t, sums);
    const Bounds<S> norm = falcon3::matrix(gain, D, weight, sums.count).norm;
    pull = sums.xv;
    for (int c = 0; c < matrix.size(1); ++c) {
      const CarriedError<S> carried(matrix, c);
      for (int i = 0; i < matrix.size(0); ++i) subtract_dot(pull(i, c), line(sums.xx, i), column(matrix, c));
      for (int i = 0; i < matrix.size(0); ++i) matrix(i, c) *= gain.gamma;
      add_scaled(column(matrix, c), weight, column(pull, c));
      // The reference's map of the state, which the errors of a column follow.
      carried.put_back(matrix, c, norm);
      for (int i = 0; i < matrix.size(0); ++i) pull(i, c) = carried.whole(pull(i, c), size_of(sums.energy));
    }
  }

  /// Takes the errors off all columns.
  template <class S>
  static std::vector<CarriedError<S>> errors_of(Columns<S>& state) {
    std::vector<CarriedError<S>> list;
    for (int c = 0; c < state.size(1); ++c) list.emplace_back(state, c);
    return list;
  }
  template <class S>
  static void put_back(const std::vector<CarriedError<S>>& errors, Columns<S>& state, const Bounds<S>& norm) {
    for (int c = 0; c < state.size(1); ++c) errors[static_cast<std::size_t>(c)].put_back(state, c, norm);
  }

  template <class S>
  static std::vector<S> times(const Tensor<S, 2>& A, const Line<const S>& x) {
    std::vector<S> y;
    for (int i = 0; i < A.size(0); ++i) y.push_back(dot(line(A, i), x));
    return y;
  }

  /// H, L and the sum of 2 dE / B. The errors of G, which are as long as a column of them says, stay apart.
  template <class S>
  struct LaterSteps {
    Columns<S> H;
    Tensor<S, 2> L;
    S energy = S(0);

    LaterSteps(int key_dim, int value_dim)
        : H(key_dim, value_dim), L(key_dim, key_dim), h_error_(static_cast<std::size_t>(value_dim)) {}

    /// A step of that weight: G, whose errors are taken off, and the state before the step.
    void add(const S& weight, const Columns<S>& G, const std::vector<CarriedError<S>>& errors,
             const Columns<S>& before) {
      const Tensor<S, 2> g = G.tensor(), state = before.tensor();
      for (int i = 0; i < L.size(0); ++i)
        for (int l = 0; l < L.size(1); ++l) L(i, l) += weight * dot(line(g, i), line(state, l));
      for (int c = 0; c < H.size(1); ++c) {
        add_scaled(column(H, c), weight, column(G, c));
        const auto at = static_cast<std::size_t>(c);
        const Bounds<S> error = size_of(weight) * size_of(errors[at].whole(S(0), size_of(S(1))));
        h_error_[at] = h_error_[at] + error;
        l_error_ = l_error_ + error * length_of(column(before, c));
      }
    }

    /// Adds the part of these steps to the gradients of pair j, which all of them see.
    void pass_on(const Pairs<const Inputs<S>>& pairs, int j, const Pairs<Inputs<S>>& d_pairs) const {
      const Line<const S> x = feature_line(pairs, j, L.size(0));
      const Line<S> dx = feature_line(d_pairs, j, L.size(0));
      const Bounds<S> x_length = length_of(x);
      Bounds<S> error = size_of(S(2)) * l_error_ * x_length;
      for (int c = 0; c < H.size(1); ++c) {
        const Bounds<S>& h_error = h_error_[static_cast<std::size_t>(c)];
        const S& v = pairs.v(j, c);
        d_pairs.v(j, c) += widened(dot(column(H, c), x), h_error * x_length);
        add_scaled(dx, v, column(H, c));
        error = error + h_error * size_of(v);
      }
      for (int i = 0; i < L.size(0); ++i) {
        subtract_dot(dx[i], line(L, i), x);
        subtract_scaled(dx, x[i], line(L, i));
      }
      add_scaled(dx, energy, x);
      for (int i = 0; i < L.size(0); ++i) dx[i] = widened(dx[i], error);
    }

   private:
    std::vector<Bounds<S>> h_error_;  // of columns of H, as vectors
    Bounds<S> l_error_;               // of L, as a matrix
  };
};

}  // namespace assay
