#pragma once
// Recursive least squares, one head (falcon-family.md 3.8): the exact minimiser of a ridge problem, one token at a
// time, with prior mean S_0 and prior precision lambda,
//   P_0 = I / lambda,   g_t = P_{t-1} x_t / (1 + x_t^T P_{t-1} x_t)
//   S_t = S_{t-1} + g_t (v_t - S_{t-1}^T x_t)^T,   P_t = P_{t-1} - g_t (P_{t-1} x_t)^T,   o_t = S_t^T q_t
#include <string_view>
#include <vector>

#include "reference/core/falcon.hpp"
#include "reference/core/field.hpp"
#include "reference/core/planted.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/replay.hpp"
#include "reference/core/tensor.hpp"

namespace assay {
inline namespace ASSAY_REFERENCES {

struct rls {
  static constexpr std::string_view name = "rls";
  static constexpr std::string_view summary =
      "recursive least squares: the exact ridge regression of the values so far";
  static constexpr Fault faults[] = {
      {"residual_after_the_write", "the residual is taken from a state that has already been written"},
      {"covariance_not_divided", "the covariance loses p p^T, not p p^T / s"},
      {"prior_gradient_dropped", "dlambda misses the factor 1 / lambda^2"},
      {"covariance_cotangent_dropped", "what the gain passes back to the covariance is dropped"},
  };

  struct Options : WriteOptions {
    static constexpr std::string_view names[] = {"alignment", "sequence_start"};
    /// The settings that tests, fixtures and pages walk through.
    static std::vector<Params> variants() { return {{}, {{"sequence_start", false}}, {{"alignment", "same_step"}}}; }

    static Options read(const Params& params) {
      Options o;
      OptionReader reader(params);
      o.WriteOptions::read(reader);
      return o;
    }
  };

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 2> q, k, v;        // [T, K], [T, K], [T, V]
    Tensor<S, 0> lambda;         // prior precision > 0
    Tensor<S, 2> initial_state;  // [K, V] prior mean
    Tensor<S, 1> k_carry;        // [K] last key of the previous segment, or empty

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"q", Domain::query, {seq_len, key_dim}}.shared(), self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}, self.v);
      f(Field{"lambda", Domain::ridge}, self.lambda);
      f(Field{"initial_state", Domain::state, {key_dim, value_dim}}.or_zero(), self.initial_state);
      f(Field{"k_carry", Domain::key, {key_dim}}.shared().or_absent(), self.k_carry);
    }
  };

  template <class S>
  struct Outputs {
    using scalar = S;
    Tensor<S, 2> o;                 // [T, V]
    Tensor<S, 2> final_state;       // [K, V]
    Tensor<S, 2> final_covariance;  // [K, K]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"o", Domain::value, {seq_len, value_dim}}, self.o);
      f(Field{"final_state", Domain::state, {key_dim, value_dim}}, self.final_state);
      f(Field{"final_covariance", Domain::normalizer, {key_dim, key_dim}}, self.final_covariance);
    }
  };

  template <class S>
  static void check(const Options& options, const Inputs<S>& in) {
    check_carried_key(options, in);
    require_domain(in.lambda() > S(0), -1, "lambda: expected a number > 0");
  }

  /// S_t and P_t.
  template <class S>
  struct State {
    Tensor<S, 2> mean, covariance;
  };

  template <class S>
  static State<S> prior(const Inputs<S>& in) {
    const int K = in.k.size(1);
    State<S> state{in.initial_state, Tensor<S, 2>(K, K)};
    for (int i = 0; i < K; ++i) state.covariance(i, i) = S(1) / in.lambda();
    return state;
  }

  /// p = P x, s = 1 + x.p and r = v - S^T x before the write.
  template <class S>
  struct Step {
    std::vector<S> p, r;
    S s;
    S gain(int i) const { return p[static_cast<std::size_t>(i)] / s; }
  };

  template <class S>
  static Step<S> step_of(const Options& options, const Inputs<S>& in, int t, const State<S>& before) {
    const int K = in.k.size(1), V = in.v.size(1);
    Step<S> step{std::vector<S>(static_cast<std::size_t>(K), S(0)), {}, S(1)};
    for (int i = 0; i < K; ++i) {
      S& p = step.p[static_cast<std::size_t>(i)];
      for (int l = 0; l < K; ++l) p += before.covariance(i, l) * write_feature(options, in, t, l);
      step.s += write_feature(options, in, t, i) * p;
    }
    for (int c = 0; c < V; ++c) {
      S r = in.v(t, c);
      for (int i = 0; i < K; ++i) r -= before.mean(i, c) * write_feature(options, in, t, i);
      step.r.push_back(planted<"residual_after_the_write">(r, S(r / step.s)));
    }
    return step;
  }

  template <class S>
  static void write(const Options& options, const Inputs<S>& in, int t, State<S>& state) {
    if (!options.writes(t)) return;
    const int K = in.k.size(1), V = in.v.size(1);
    const Step<S> step = step_of(options, in, t, state);
    for (int i = 0; i < K; ++i) {
      const S g = step.gain(i);
      for (int c = 0; c < V; ++c) state.mean(i, c) += g * step.r[static_cast<std::size_t>(c)];
      for (int l = 0; l < K; ++l) {
        const S& p = step.p[static_cast<std::size_t>(l)];
        state.covariance(i, l) -= p * planted<"covariance_not_divided">(g, S(g * step.s));
      }
    }
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Tensor<S, 2> o(T, V);
    State<S> state = prior(in);
    for (int t = 0; t < T; ++t) {
      write(options, in, t, state);
      for (int c = 0; c < V; ++c)
        for (int i = 0; i < K; ++i) o(t, c) += state.mean(i, c) * in.q(t, i);
    }
    return {o, state.mean, state.covariance};
  }

  /// Reverse recurrence of 3.8, G = dL/dS_t with the read at t included and Pi = dL/dP_t; S and P before the write:
  ///   dq = S_t do,  G += q do^T,  dr = dv = G^T g,  dg = G r - Pi p,  dp = dg / s - Pi^T g,  ds = -dg.g / s,
  ///   dp += ds x,  dx = ds p - S dr + P^T dp,  Pi += dp x^T,  G -= x dr^T;  at the end dlambda = -tr(Pi) / lambda^2
  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Replay states(prior(in), T, [&](int t, State<S>& state) { write(options, in, t, state); });
    Inputs<S> d = zero_like(in);
    Tensor<S, 2>& G = d.initial_state = cotangent.final_state;
    Tensor<S, 2> Pi = cotangent.final_covariance;
    for (int t = T - 1; t >= 0; --t) {
      const State<S>&before = states.before(t), &after = states.after(t);
      for (int i = 0; i < K; ++i)
        for (int c = 0; c < V; ++c) {
          d.q(t, i) += after.mean(i, c) * cotangent.o(t, c);
          G(i, c) += in.q(t, i) * cotangent.o(t, c);
        }
      if (!options.writes(t)) continue;
      const Step<S> step = step_of(options, in, t, before);
      std::vector<S> d_p(static_cast<std::size_t>(K), S(0));
      S d_s = S(0);
      for (int i = 0; i < K; ++i) {
        S d_g = S(0);
        for (int c = 0; c < V; ++c) {
          d.v(t, c) += G(i, c) * step.gain(i);
          d_g += G(i, c) * step.r[static_cast<std::size_t>(c)];
        }
        for (int l = 0; l < K; ++l) {
          d_g -= Pi(i, l) * step.p[static_cast<std::size_t>(l)];
          d_p[static_cast<std::size_t>(l)] -= Pi(i, l) * step.gain(i);
        }
        d_s -= d_g * step.gain(i) / step.s;
        d_p[static_cast<std::size_t>(i)] += d_g / step.s;
      }
      for (int i = 0; i < K; ++i) d_p[static_cast<std::size_t>(i)] += d_s * write_feature(options, in, t, i);
      for (int i = 0; i < K; ++i) {
        S& dx = write_feature(options, d, t, i);
        dx += d_s * step.p[static_cast<std::size_t>(i)];
        for (int c = 0; c < V; ++c) {
          dx -= before.mean(i, c) * d.v(t, c);
          G(i, c) -= write_feature(options, in, t, i) * d.v(t, c);
        }
        for (int l = 0; l < K; ++l) {
          dx += before.covariance(l, i) * d_p[static_cast<std::size_t>(l)];
          const S passed = d_p[static_cast<std::size_t>(i)] * write_feature(options, in, t, l);
          Pi(i, l) += planted<"covariance_cotangent_dropped">(passed, S(0));
        }
      }
    }
    const S square = planted<"prior_gradient_dropped">(S(in.lambda() * in.lambda()), S(1));
    for (int i = 0; i < K; ++i) d.lambda() -= Pi(i, i) / square;
    return d;
  }
};

}  // namespace ASSAY_REFERENCES
}  // namespace assay
