#pragma once
// Recursive least squares, one head (falcon-family.md 3.8): the exact minimiser of a ridge problem, one token at a
// time, with prior mean S_0 and prior precision lambda,
//   P_0 = I / lambda,   g_t = P_{t-1} x_t / (1 + x_t^T P_{t-1} x_t)
//   S_t = S_{t-1} + g_t (v_t - S_{t-1}^T x_t)^T,   P_t = P_{t-1} - g_t (P_{t-1} x_t)^T,   o_t = S_t^T q_t
#include <string_view>
#include <utility>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/replay.hpp"
#include "reference/core/tensor.hpp"
#include "reference/families/falcon.hpp"
#include "reference/families/ridge_errors.hpp"
#include "reference/families/write_lines.hpp"

namespace assay {

struct rls {
  static constexpr std::string_view name = "rls";
  static constexpr std::string_view summary =
      "recursive least squares: the exact ridge regression of the values so far";

  struct Options : WriteOptions {
    static constexpr std::string_view names[] = {"alignment", "sequence_start"};
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

  /// S_t and P_t, and the step that made them.
  template <class S>
  struct State {
    Columns<S> mean;
    Tensor<S, 2> covariance;
    RidgeErrors<S> errors;
    RidgeStep<S> step;
  };

  template <class S>
  static State<S> prior(const Inputs<S>& in) {
    const int K = in.k.size(1);
    Columns<S> mean(in.initial_state);
    Tensor<S, 2> covariance(K, K);
    for (int i = 0; i < K; ++i) covariance(i, i) = S(1) / in.lambda();
    RidgeErrors<S> errors(mean, covariance, in.lambda());
    return {std::move(mean), std::move(covariance), std::move(errors), {}};
  }

  template <class S>
  static RidgeStep<S> step_of(const Options& options, const Inputs<S>& in, int t, const State<S>& before) {
    const int K = in.k.size(1), V = in.v.size(1);
    const Line<const S> x = features(options, in, t);
    RidgeStep<S> step;
    for (int i = 0; i < K; ++i) step.p.push_back(dot(line(before.covariance, i), x));
    add_dot(step.s, x, line(step.p));
    for (const S& p : step.p) step.gain.push_back(p / step.s);
    for (int c = 0; c < V; ++c) {
      S r = in.v(t, c);
      subtract_dot(r, column(before.mean, c), x);
      step.r.push_back(r);
    }
    return step;
  }

  template <class S>
  static void write(const Options& options, const Inputs<S>& in, int t, State<S>& state) {
    if (!options.writes(t)) return;
    const int K = in.k.size(1), V = in.v.size(1);
    state.errors.take(state.mean, state.covariance);
    RidgeStep<S>& step = state.step = step_of(options, in, t, state);
    for (int c = 0; c < V; ++c) add_scaled(column(state.mean, c), step.r[static_cast<std::size_t>(c)], line(step.gain));
    for (int i = 0; i < K; ++i) {
      const S& g = step.gain[static_cast<std::size_t>(i)];
      subtract_scaled(computed<S>(line(state.covariance, i), i), g, computed<S>(line(step.p), i));
    }
    const auto x = [&](int i) -> const S& { return write_feature(options, in, t, i); };
    state.errors.put_back(state.mean, state.covariance, squares_of<S>(K, x), step);
  }

  /// The part of row i of a symmetric matrix, or of a vector that makes one, that has to be computed: enclosures take
  /// the rest from the other side, which makes their middles symmetric.
  template <class S, class X>
  static Line<X> computed(const Line<X>& row, int i) {
    const int first = Enclosure<S> ? i : 0;
    return {row.first + first * row.step, row.step, row.size - first};
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int T = in.k.size(0), V = in.v.size(1);
    Tensor<S, 2> o(T, V);
    State<S> state = prior(in);
    for (int t = 0; t < T; ++t) {
      write(options, in, t, state);
      add_read(o, t, state.mean, in.q);
    }
    return {o, state.mean.tensor(), state.covariance};
  }

  /// Reverse recurrence of 3.8, G = dL/dS_t with the read at t included and Pi = dL/dP_t; S and P before the write:
  ///   dq = S_t do,  G += q do^T,  dr = dv = G^T g,  dg = G r - Pi p,  dp = dg / s - Pi^T g,  ds = -dg.g / s,
  ///   dp += ds x,  dx = ds p - S dr + P^T dp,  Pi += dp x^T,  G -= x dr^T;  at the end dlambda = -tr(Pi) / lambda^2
  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Replay states(prior(in), T, [&](int t, State<S>& state) { write(options, in, t, state); });
    Inputs<S> d = zero_like(in);
    Columns<S> G(cotangent.final_state);
    Tensor<S, 2> Pi = cotangent.final_covariance;
    if constexpr (Enclosure<S>)  // the other half of Pi adds nothing to any gradient
      for (int i = 0; i < K; ++i)
        for (int l = i; l < K; ++l) Pi(i, l) = S(0.5) * (Pi(i, l) + cotangent.final_covariance(l, i));
    RidgeAdjointErrors<S> errors(V);
    if (T > 0) errors.note_covariance(Pi, states.after(T - 1).errors);
    for (int t = T - 1; t >= 0; --t) {
      const State<S>&before = states.before(t), &after = states.after(t);
      add_read_gradients(d.q, G, t, after.mean, in.q, cotangent.o);
      errors.note_mean(G, after.errors);
      if (!options.writes(t)) continue;
      const RidgeStep<S>& step = after.step;
      const Line<const S> x = features(options, in, t), p = line(step.p), gain = line(step.gain);
      errors.step(before.errors, after.errors, step);
      std::vector<S> d_g(static_cast<std::size_t>(K), S(0)), d_p = d_g, d_r;
      for (int c = 0; c < V; ++c) {
        d_r.push_back(dot(column(G, c), gain));
        add_scaled(line(d_g), step.r[static_cast<std::size_t>(c)], column(G, c));
      }
      for (int i = 0; i < K; ++i) {
        subtract_dot(d_g[static_cast<std::size_t>(i)], line(Pi, i), p);
        subtract_scaled(line(d_p), gain[i], line(Pi, i));
      }
      const S d_s = -dot(line(d_g), gain) / step.s;
      for (std::size_t i = 0; i < d_p.size(); ++i) d_p[i] += d_g[i] / step.s;
      add_scaled(line(d_p), d_s, x);
      const Line<S> dx = features(options, d, t);
      add_scaled(dx, widened(d_s, errors.of_slope()), p);
      for (int c = 0; c < V; ++c) {
        const S& dr = d_r[static_cast<std::size_t>(c)];
        d.v(t, c) = widened(dr, errors.of_value(c));
        subtract_scaled(dx, d.v(t, c), column(before.mean, c));
        subtract_scaled(column(G, c), dr, x);
      }
      for (int l = 0; l < K; ++l) add_scaled(dx, d_p[static_cast<std::size_t>(l)], line(before.covariance, l));
      for (int i = 0; i < K; ++i) {
        dx[i] = widened(dx[i], errors.of_feature());
        const S& passed = d_p[static_cast<std::size_t>(i)];
        const Line<S> row = computed<S>(line(Pi, i), i);
        if constexpr (Enclosure<S>) {
          add_scaled(row, S(S(0.5) * passed), computed<S>(x, i));
          add_scaled(row, S(S(0.5) * x[i]), computed<S>(line(d_p), i));
        } else {
          add_scaled(row, passed, x);
        }
      }
      errors.note_mean(G, before.errors);
      errors.note_covariance(Pi, before.errors);
    }
    for (int i = 0; i < K; ++i)
      for (int c = 0; c < V; ++c) d.initial_state(i, c) = widened(G(i, c), errors.of_mean(c, in.lambda()));
    const S square = in.lambda() * in.lambda();
    for (int i = 0; i < K; ++i) d.lambda() -= widened(Pi(i, i), errors.of_covariance(in.lambda())) / square;
    return d;
  }
};

}  // namespace assay
