#pragma once
// FALCON-2, one head (falcon-family.md 3.3): FALCON-1 with a step size per value channel j,
//   D_t = |x_t|^2 + ridge_t + eps,   eta_tj = beta_tj / D_t,   gamma_tj = 1 - eta_tj ridge_t   (kept above decay_floor)
//   S_t = S_{t-1} Diag(gamma_t) + x_t (eta_t o (v_t - S_{t-1}^T x_t))^T,   o_t = S_t^T q_t
// The ridge is lambda_t, or lambda_t |x_t|^2 with ridge_coupling.
#include <string_view>
#include <utility>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/planted.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/replay.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/kept.hpp"
#include "reference/errors/state.hpp"
#include "reference/families/falcon.hpp"
#include "reference/families/write_lines.hpp"

namespace assay {
inline namespace ASSAY_REFERENCES {

struct falcon2 {
  static constexpr std::string_view name = "falcon2";
  static constexpr std::string_view summary = "FALCON-1 with a step size per value channel";
  static constexpr Fault faults[] = {
      falcon::ridge_left_out,
      {"first_channel_decays_all", "every channel decays like the first"},
      falcon::clamped_decay_passes_gradient,
      {"last_channel_alone_moves_the_ridge", "the gradient of the denominator is that of the last channel"},
  };

  struct Options : GainOptions {
    static constexpr std::string_view names[] = {"alignment", "sequence_start", "ridge_coupling"};
    /// The settings that tests, fixtures and pages walk through.
    static std::vector<Params> variants() {
      return {{},
              {{"sequence_start", false}, {"decay_floor", "0.875"}},
              {{"ridge_coupling", "live"}},
              {{"ridge_coupling", "detach"}, {"decay_floor", "0.5"}},
              {{"alignment", "same_step"}}};
    }

    static Options read(const Params& params) {
      Options o;
      OptionReader reader(params);
      o.GainOptions::read(reader);
      return o;
    }
  };

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> eps, decay_floor;  // eps >= 0; decay_floor in (0, 1), or empty
    Tensor<S, 2> q, k, v;           // [T, K], [T, K], [T, V]
    Tensor<S, 2> beta;              // [T, V] step per channel, in (0, 2)
    Tensor<S, 1> lambda;            // [T] ridge >= 0
    Tensor<S, 2> initial_state;     // [K, V]
    Tensor<S, 1> k_carry;           // [K] last key of the previous segment, or empty

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"eps", Domain::regularizer}.param().or_zero().constant(), self.eps);
      f(Field{"decay_floor", Domain::decay_floor}.param().or_absent().constant(), self.decay_floor);
      f(Field{"q", Domain::query, {seq_len, key_dim}}.shared(), self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}, self.v);
      f(Field{"beta", Domain::gain, {seq_len, value_dim}}, self.beta);
      f(Field{"lambda", Domain::ridge, {seq_len}}, self.lambda);
      f(Field{"initial_state", Domain::state, {key_dim, value_dim}}.or_zero(), self.initial_state);
      f(Field{"k_carry", Domain::key, {key_dim}}.shared().or_absent(), self.k_carry);
    }
  };

  template <class S>
  struct Outputs {
    using scalar = S;
    Tensor<S, 2> o;            // [T, V]
    Tensor<S, 2> final_state;  // [K, V]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"o", Domain::value, {seq_len, value_dim}}, self.o);
      f(Field{"final_state", Domain::state, {key_dim, value_dim}}, self.final_state);
    }
  };

  template <class S>
  static void check(const Options& options, const Inputs<S>& in) {
    check_carried_key(options, in);
    check_gains(in);
  }

  template <class S>
  static Denominator<S> denominator(const Options& options, const Inputs<S>& in, int t) {
    return denominator_of(options.ridge_coupling, energy_of(options, in, t), in.lambda(t), in.eps());
  }

  /// The gain of channel j.
  template <class S>
  static Gain<S> channel_gain(const Inputs<S>& in, const Denominator<S>& D, int t, int j) {
    Gain<S> gain = gain_of(in.beta(t, j), D, in.decay_floor);
    gain.gamma = planted<"first_channel_decays_all">(gain.gamma, gain_of(in.beta(t, 0), D, in.decay_floor).gamma);
    return gain;
  }

  /// r = v_t - S^T x_t, component j.
  template <class S>
  static S residual(const Inputs<S>& in, const TakenColumn<S>& s, const Direction<S>& x, int t, int j) {
    S r = in.v(t, j);
    subtract_dot(r, s, x);
    return r;
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int T = in.k.size(0), V = in.v.size(1);
    Tensor<S, 2> o(T, V);
    State<S> state(in.initial_state);
    for (int t = 0; t < T; ++t) {
      if (options.writes(t)) {
        const Denominator<S> D = denominator(options, in, t);
        const Direction<S> x = direction(features(options, in, t));
        for (int j = 0; j < V; ++j) {
          const Gain<S> gain = channel_gain(in, D, t, j);
          const TakenColumn<S> s = state.take(j);
          const S u = gain.eta * residual(in, s, x, t, j);
          s.decay(gain.gamma);
          s.write(u, x);
          s.keep(Kept::state);
          s.put_back(step_matrix(gain, D));
        }
      }
      add_read(o, t, state, in.q);
    }
    return {o, state.tensor()};
  }

  /// Reverse recurrence of 3.3, G = dL/dS_t with the read at t included:
  ///   dq = S_t do,  G += q do^T,  e = G^T x,  dv = eta o e,  dx = G (eta o r) - S_{t-1} (eta o e),  deta_j = e_j r_j,
  ///   dgamma_j = <G_:j, S_{t-1,:j}>,  G <- G Diag(gamma) - x (eta o e)^T;  then the gains, and dx += 2 dE x
  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    const int T = in.k.size(0), V = in.v.size(1);
    Tensor<S, 2> r(T, V);
    State<S> G(cotangent.final_state);
    Replay states(State<S>(in.initial_state), T, [&](int t, State<S>& state) {
      if (!options.writes(t)) return;
      const Denominator<S> D = denominator(options, in, t);
      const Direction<S> x = direction(features(options, in, t));
      for (int j = 0; j < V; ++j) {
        const Gain<S> gain = channel_gain(in, D, t, j);
        const TakenColumn<S> s = state.take(j);
        const S own = residual(in, s, x, t, j);
        const S u = gain.eta * own;
        s.decay(gain.gamma);
        s.write(u, x);
        s.keep(Kept::state);
        s.put_back(step_matrix(gain, D));
        r(t, j) = s.whole(own, x);
      }
    });
    Inputs<S> d = zero_like(in);
    for (int t = T - 1; t >= 0; --t) {
      const State<S>&before = states.before(t), &after = states.after(t);
      for (int j = 0; j < V; ++j) {
        const TakenColumn<S> g = G.take(j);
        add_scaled(line(d.q, t), cotangent.o(t, j), column(after, j));
        g.write(cotangent.o(t, j), line(in.q, t));
        g.put_back({});
      }
      if (!options.writes(t)) keep(Kept::gradient, G);
      if (!options.writes(t)) continue;
      const Denominator<S> D = denominator(options, in, t);
      GainAdjoint<S> adjoint(options.ridge_coupling, D);
      const Direction<S> x = direction(features(options, in, t));
      const Line<S> dx = features(options, d, t);
      ColumnSum<S> gathered(dx);
      for (int j = 0; j < V; ++j) {
        const Gain<S> gain = channel_gain(in, D, t, j);
        const TakenColumn<S> g = G.take(j);
        const Reading<S> e = g.read(x);
        const S u = gain.eta * r(t, j);
        const Reading<S> du = gain.eta * e;
        d.v(t, j) = du.whole;
        gathered.add(u, g);
        subtract_scaled(dx, du.whole, column(before, j));
        const S d_gamma = g.read(direction(column(before, j))).whole;
        g.decay(gain.gamma);
        g.erase(du, x);
        g.keep(Kept::gradient);
        g.put_back(step_matrix(gain, D));
        if (planted<"last_channel_alone_moves_the_ridge">(false, true)) adjoint = {options.ridge_coupling, D};
        d.beta(t, j) = adjoint.add(gain, e.whole * r(t, j), d_gamma);
      }
      d.lambda(t) = adjoint.lambda();
      const S slope = S(2) * adjoint.energy(in.lambda(t));
      gathered.finish();
      add_scaled(dx, slope, x);
    }
    d.initial_state = G.tensor();
    return d;
  }
};

}  // namespace ASSAY_REFERENCES
}  // namespace assay
