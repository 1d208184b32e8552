#pragma once
// FALCON-2A, one head (falcon-family.md 3.4): an associative (Hebbian) write with FALCON's gain and decay,
//   D_t = |x_t|^2 + ridge_t + eps,   eta_t = beta_t / D_t,   gamma_t = 1 - eta_t ridge_t   (kept above decay_floor)
//   S_t = gamma_t S_{t-1} + eta_t x_t v_t^T,   o_t = S_t^T q_t
// With normalization "features" the same weights are summed in z_t = gamma_t z_{t-1} + eta_t x_t and divided out:
//   o_t = S_t^T q_t / (z_t.q_t + eps_normalizer)
// The ridge is lambda_t, or lambda_t |x_t|^2 with ridge_coupling.
#include <algorithm>
#include <string_view>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/recurrent.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/falcon.hpp"

namespace assay {

struct falcon2a {
  static constexpr std::string_view name = "falcon2a";
  static constexpr std::string_view summary = "associative write with FALCON's gain and decay, normalised or not";

  enum class Normalization { none, features };
  struct Options : GainOptions {
    Normalization normalization = Normalization::none;

    static constexpr std::string_view names[] = {"alignment", "sequence_start", "ridge_coupling", "normalization"};
    static std::vector<Params> variants() {
      return {{},
              {{"sequence_start", false}, {"decay_floor", "0.875"}},
              {{"ridge_coupling", "live"}},
              {{"normalization", "features"}, {"decay_floor", "0.5"}, {"ridge_coupling", "detach"}},
              {{"normalization", "features"}, {"alignment", "same_step"}},
              {{"normalization", "features"}, {"sequence_start", false}, {"decay_floor", "0.875"}}};
    }

    static Options read(const Params& params) {
      Options o;
      OptionReader reader(params);
      o.GainOptions::read(reader);
      reader("normalization", o.normalization, {{"none", Normalization::none}, {"features", Normalization::features}});
      return o;
    }
    bool normalizes() const { return normalization == Normalization::features; }
  };

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> eps, decay_floor, eps_normalizer;  // the eps >= 0; decay_floor in (0, 1), or empty
    Tensor<S, 2> q, k, v;                           // [T, K], [T, K], [T, V]
    Tensor<S, 1> beta, lambda;                      // [T] step in (0, 2); ridge >= 0
    Tensor<S, 2> initial_state;                     // [K, V]
    Tensor<S, 1> initial_normalizer;                // [K], or empty: zero
    Tensor<S, 1> k_carry;                           // [K] last key of the previous segment, or empty

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"eps", Domain::regularizer}.param().or_zero().constant(), self.eps);
      f(Field{"decay_floor", Domain::decay_floor}.param().or_absent().constant(), self.decay_floor);
      f(Field{"eps_normalizer", Domain::regularizer}.param().or_zero().constant(), self.eps_normalizer);
      f(Field{"q", Domain::query, {seq_len, key_dim}}.shared(), self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}, self.v);
      f(Field{"beta", Domain::gain, {seq_len}}, self.beta);
      f(Field{"lambda", Domain::ridge, {seq_len}}, self.lambda);
      f(Field{"initial_state", Domain::state, {key_dim, value_dim}}.or_zero(), self.initial_state);
      f(Field{"initial_normalizer", Domain::normalizer, {key_dim}}.or_absent(), self.initial_normalizer);
      f(Field{"k_carry", Domain::key, {key_dim}}.shared().or_absent(), self.k_carry);
    }
  };

  template <class S>
  using Outputs = ReadsStateAndNormalizer<S>;

  template <class S>
  static void check(const Options& options, const Inputs<S>& in) {
    check_carried_key(options, in);
    check_gains(in);
    check_not_negative("eps_normalizer", in.eps_normalizer());
    require_domain(options.normalizes() || in.initial_normalizer.empty(), -1,
                   "initial_normalizer: only normalization = features takes it");
  }

  /// S_t and z_t; z is empty unless the read is normalised.
  template <class S>
  struct State {
    Tensor<S, 2> matrix;
    Tensor<S, 1> normalizer;
  };

  template <class S>
  static State<S> initial(const Options& options, const Inputs<S>& in) {
    if (!options.normalizes()) return {in.initial_state, Tensor<S, 1>(0)};
    return {in.initial_state, in.initial_normalizer.empty() ? Tensor<S, 1>(in.k.size(1)) : in.initial_normalizer};
  }

  template <class S>
  static void write(const Options& options, const Inputs<S>& in, int t, State<S>& state) {
    if (!options.writes(t)) return;
    const int K = in.k.size(1), V = in.v.size(1);
    const Gain<S> gain = gain_of(in.beta(t), denominator_at(options, in, t), in.decay_floor);
    for (int i = 0; i < K; ++i) {
      const S step = gain.eta * write_feature(options, in, t, i);
      for (int j = 0; j < V; ++j) state.matrix(i, j) *= gain.gamma;
      add_scaled(line(state.matrix, i), step, line(in.v, t));
      if (options.normalizes()) state.normalizer(i) = gain.gamma * state.normalizer(i) + step;
    }
  }

  /// The divisor of the read at t: 1, or n_t = z_t.q_t + eps_normalizer. Zero on the no-op row of a fresh sequence,
  /// where o_t = 0; NONFINITE anywhere else.
  template <class S>
  static S divisor(const Options& options, const Inputs<S>& in, int t, const State<S>& state) {
    if (!options.normalizes()) return S(1);
    S n = in.eps_normalizer();
    for (int i = 0; i < in.k.size(1); ++i) n += state.normalizer(i) * in.q(t, i);
    const auto zero = [](const S& x) { return x == S(0); };
    const bool fresh = !options.writes(t) && std::all_of(state.matrix.data.begin(), state.matrix.data.end(), zero) &&
                       std::all_of(state.normalizer.data.begin(), state.normalizer.data.end(), zero);
    if (n == S(0) && !fresh)
      throw Refusal(Status::nonfinite, t, text("o[", t, "]: the denominator z.q + eps_normalizer is zero"));
    return n;
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Tensor<S, 2> o(T, V);
    State<S> state = initial(options, in);
    for (int t = 0; t < T; ++t) {
      write(options, in, t, state);
      const S n = divisor(options, in, t, state);
      for (int i = 0; i < K; ++i) add_scaled(line(o, t), in.q(t, i), line(state.matrix, i));
      if (options.normalizes() && n != S(0))
        for (int j = 0; j < V; ++j) o(t, j) /= n;
    }
    return {o, state.matrix, state.normalizer};
  }
};

}  // namespace assay
