#pragma once
// The recurrence of FALCON-1 and FALCON-2 (reference/falcon1.hpp, reference/falcon2.hpp): a step size per token, or per
// value channel.
#include <string_view>

#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/recurrent.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/falcon.hpp"
#include "reference/families/write_lines.hpp"

namespace assay {

template <bool ByChannel>
struct FalconRule {
  using Options = RidgeOptions;

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> eps, decay_floor;      // eps >= 0; decay_floor in (0, 1), or empty
    Tensor<S, 2> q, k, v;               // [T, K], [T, K], [T, V]
    Tensor<S, ByChannel ? 2 : 1> beta;  // [T], or [T, V]: step in (0, 2)
    Tensor<S, 1> lambda;                // [T] ridge >= 0
    Tensor<S, 2> initial_state;         // [K, V]
    Tensor<S, 1> k_carry;               // [K] last key of the previous segment, or empty

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"eps", Domain::regularizer}.param().or_zero().constant(), self.eps);
      f(Field{"decay_floor", Domain::decay_floor}.param().or_absent().constant(), self.decay_floor);
      f(Field{"q", Domain::query, {seq_len, key_dim}}.shared(), self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}, self.v);
      f(ByChannel ? Field{"beta", Domain::gain, {seq_len, value_dim}} : Field{"beta", Domain::gain, {seq_len}},
        self.beta);
      f(Field{"lambda", Domain::ridge, {seq_len}}, self.lambda);
      f(Field{"initial_state", Domain::state, {key_dim, value_dim}}.or_zero(), self.initial_state);
      f(Field{"k_carry", Domain::key, {key_dim}}.shared().or_absent(), self.k_carry);
    }
  };

  template <class S>
  using Outputs = ReadsAndState<S>;

  template <class S>
  static void check(const Options& options, const Inputs<S>& in) {
    check_carried_key(options, in);
    check_gains(in);
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Tensor<S, 2> o(T, V), state = in.initial_state;
    for (int t = 0; t < T; ++t)
      for (int j = 0; j < V; ++j) {
        const Line<S> s = column(state, j);
        if (options.writes(t)) {
          const Gain<S> gain = gain_of(step(in.beta, t, j), denominator_at(options, in, t), in.decay_floor);
          const Line<const S> x = features(options, in, t);
          const S u = gain.eta * (in.v(t, j) - dot(s, x));
          for (int i = 0; i < K; ++i) s[i] *= gain.gamma;
          add_scaled(s, u, x);
        }
        add_dot(o(t, j), s, line(in.q, t));
      }
    return {o, state};
  }

 private:
  template <class Beta>
  static const auto& step(const Beta& beta, int t, int j) {
    if constexpr (ByChannel)
      return beta(t, j);
    else
      return beta(t);
  }
};

}  // namespace assay
