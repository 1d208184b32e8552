#pragma once
// FALCON-1, one head (falcon-family.md 3.1): one normalised least-mean-squares step per token on a ridge-regularised
// squared error,
//   D_t = |x_t|^2 + ridge_t + eps,   eta_t = beta_t / D_t,   gamma_t = 1 - eta_t ridge_t   (kept above decay_floor)
//   S_t = gamma_t S_{t-1} + eta_t x_t (v_t - S_{t-1}^T x_t)^T,   o_t = S_t^T q_t
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

struct falcon1 {
  static constexpr std::string_view name = "falcon1";
  static constexpr std::string_view summary = "normalised delta rule with a ridge that decays the state";
  static constexpr Fault faults[] = {
      falcon::ridge_left_out,
      {"residual_of_decayed_state", "the residual is taken after the decay"},
      falcon::clamped_decay_passes_gradient,
      falcon::detached_ridge_stays_live,
      {"energy_gradient_halved", "the gradient of |x|^2 is x"},
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
    Tensor<S, 1> beta, lambda;      // [T] step in (0, 2); ridge >= 0
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
      f(Field{"beta", Domain::gain, {seq_len}}, self.beta);
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

  /// r = v_t - S^T x_t, component j.
  template <class S>
  static S residual(const Inputs<S>& in, const TakenColumn<S>& s, const Direction<S>& x, const S& gamma, int t, int j) {
    const S read = s.dot(x);
    return in.v(t, j) - planted<"residual_of_decayed_state">(read, gamma * read);
  }

  /// S_t, where row t writes; keep(j, what was column j of the state, r_j, x_t) sees every residual.
  template <class S, class Keep>
  static void write(const Options& options, const Inputs<S>& in, int t, State<S>& state, Keep keep) {
    if (!options.writes(t)) return;
    const Denominator<S> D = denominator(options, in, t);
    const Gain<S> gain = gain_of(in.beta(t), D, in.decay_floor);
    const StepMatrix<S> M = step_matrix(gain, D);
    const Direction<S> x = direction(features(options, in, t));
    for (int j = 0; j < in.v.size(1); ++j) {
      const TakenColumn<S> s = state.take(j);
      const S own = residual(in, s, x, gain.gamma, t, j), u = gain.eta * own;
      s.decay(gain.gamma);
      s.write(u, x);
      s.keep(Kept::state);
      s.put_back(M);
      keep(j, s, own, x);
    }
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int T = in.k.size(0);
    Tensor<S, 2> o(T, in.v.size(1));
    State<S> state(in.initial_state);
    for (int t = 0; t < T; ++t) {
      write(options, in, t, state, [](auto&&...) {});
      add_read(o, t, state, in.q);
    }
    return {o, state.tensor()};
  }

  /// Reverse recurrence of 3.1, G = dL/dS_t with the read at t included:
  ///   dq = S_t do,  G += q do^T,  e = G^T x,  dv = eta e,  dx = eta (G r - S_{t-1} e),  deta = e.r,
  ///   dgamma = <G, S_{t-1}>,  G <- gamma G - eta x e^T;  then the gain, and dx += 2 dE x
  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    const int T = in.k.size(0), V = in.v.size(1);
    Tensor<S, 2> r(T, V);
    State<S> G(cotangent.final_state);
    Replay states(State<S>(in.initial_state), T, [&](int t, State<S>& state) {
      write(options, in, t, state,
            [&](int j, const TakenColumn<S>& s, const S& own, const Direction<S>& x) { r(t, j) = s.whole(own, x); });
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
      const Gain<S> gain = gain_of(in.beta(t), D, in.decay_floor);
      const StepMatrix<S> M = step_matrix(gain, D);
      const Direction<S> x = direction(features(options, in, t));
      const Line<S> dx = features(options, d, t);
      ColumnSum<S> gathered(dx);
      S d_eta = S(0), d_gamma = S(0);
      for (int j = 0; j < V; ++j) {
        const TakenColumn<S> g = G.take(j);
        const Reading<S> e = g.read(x);
        const S u = gain.eta * r(t, j);
        const Reading<S> du = gain.eta * e;
        d.v(t, j) = du.whole;
        d_eta += e.whole * r(t, j);
        gathered.add(u, g);
        subtract_scaled(dx, du.whole, column(before, j));
        d_gamma += g.read(direction(column(before, j))).whole;
        g.decay(gain.gamma);
        g.erase(du, x);
        g.keep(Kept::gradient);
        g.put_back(M);
      }
      gathered.finish();
      GainAdjoint<S> adjoint(options.ridge_coupling, D);
      d.beta(t) = adjoint.add(gain, d_eta, d_gamma);
      d.lambda(t) = adjoint.lambda();
      const S slope = adjoint.energy(in.lambda(t)) * planted<"energy_gradient_halved">(S(2), S(1));
      add_scaled(dx, slope, x);
    }
    d.initial_state = G.tensor();
    return d;
  }
};

}  // namespace ASSAY_REFERENCES
}  // namespace assay
