#pragma once
// FALCON-3A, one head (falcon-family.md 3.7): an associative write of the newest B pairs I_t, with a decay of its own,
//   E_t = mean of |x_j|^2 over I_t,   rho_t = beta_t / (E_t + eps),   gamma_t = 1 - alpha_t
//   S_t = gamma_t S_{t-1} + (rho_t / B_t) sum_{j in I_t} x_j v_j^T,   o_t = S_t^T q_t
// with B_t = |I_t|, fewer than B near a start. A window without energy and eps = 0 make a step a no-op, decay included.
// A continuation takes the pairs still inside the window as its tail.
#include <string_view>
#include <type_traits>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/replay.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/erring.hpp"
#include "reference/errors/kept.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/falcon.hpp"

namespace assay {

struct falcon3a {
  static constexpr std::string_view name = "falcon3a";
  static constexpr std::string_view summary = "associative write of a sliding mini-batch, with a decay of its own";

  struct Options : WriteOptions, WindowOptions {
    static constexpr std::string_view names[] = {"alignment", "sequence_start", "window"};
    static std::vector<Params> variants() {
      return {{},
              {{"window", 4L}},
              {{"window", 3L}, {"sequence_start", false}},
              {{"window", 1L}},
              {{"window", 9L}, {"alignment", "same_step"}, {"sequence_start", false}}};
    }

    static Options read(const Params& params) {
      Options o;
      OptionReader reader(params);
      o.WriteOptions::read(reader);
      o.WindowOptions::read(reader, params);
      return o;
    }
  };

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> eps, decay_floor;  // eps >= 0; decay_floor in (0, 1) bounds alpha by 1 - floor, or empty
    Tensor<S, 2> q, k, v;           // [T, K], [T, K], [T, V]
    Tensor<S, 1> beta, alpha;       // [T] step > 0; decay fraction in [0, 1)
    Tensor<S, 2> initial_state;     // [K, V]
    Tensor<S, 1> k_carry;           // [K] last key of the previous segment, or empty
    Tensor<S, 2> tail_k, tail_v;    // [n, K], [n, V] the previous segment's newest pairs, n < B, or empty

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"eps", Domain::regularizer}.param().or_zero().constant(), self.eps);
      f(Field{"decay_floor", Domain::decay_floor}.param().or_absent().constant(), self.decay_floor);
      f(Field{"q", Domain::query, {seq_len, key_dim}}.shared(), self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}, self.v);
      f(Field{"beta", Domain::gain, {seq_len}}, self.beta);
      f(Field{"alpha", Domain::decay_fraction, {seq_len}}, self.alpha);
      f(Field{"initial_state", Domain::state, {key_dim, value_dim}}.or_zero(), self.initial_state);
      f(Field{"k_carry", Domain::key, {key_dim}}.shared().or_absent(), self.k_carry);
      f(Field{"tail_k", Domain::key, {tail_len, key_dim}}.or_absent(), self.tail_k);
      f(Field{"tail_v", Domain::value, {tail_len, value_dim}}.or_absent(), self.tail_v);
    }
  };

  template <class S>
  using Outputs = ReadsAndTail<S>;
  using HandedOn = TailOf<falcon3a>;

  /// Where its model is its program's; draws of windows are the reference's, whose pairs are one operand in all
  /// windows.
  static bool is_modelled_by_program(const Options& options) { return !options.has_window; }

  static void extend(const Options& options, Extents& e) {
    e[Axis::final_tail_len] = final_tail_len(options, e[Axis::tail_len], e[Axis::seq_len]);
  }

  template <class S>
  static void check(const Options& options, const Inputs<S>& in) {
    check_carried_key(options, in);
    check_tail(options, in);
    check_not_negative("eps", in.eps());
    check_decay_floor(in.decay_floor);
    for (int t = 0; t < in.alpha.size(0); ++t) {
      require_domain(in.beta(t) > S(0), t, "beta[", t, "]: expected a number > 0");
      require_domain(in.alpha(t) >= S(0) && in.alpha(t) < S(1), t, "alpha[", t, "]: expected a number in [0, 1)");
      require_domain(in.decay_floor.empty() || in.alpha(t) <= S(1) - in.decay_floor(), t, "alpha[", t,
                     "]: expected at most 1 - decay_floor");
    }
  }

  template <class S>
  using Window = typename Pairs<const Inputs<S>>::Window;

  /// A step: S_t = gamma S_{t-1} + (rho / B_t) sum x_j v_j^T; D = E_t + eps.
  template <class S>
  struct Step {
    Window<S> window;
    S D, rho, gamma;
  };

  template <class S>
  static Step<S> step_of(const Options& options, const Inputs<S>& in, int t) {
    const Pairs<const Inputs<S>> pairs(options, in);
    const Window<S> window = pairs.window(t);
    const S D = mean_energy(pairs, window, in.k.size(1)) + in.eps();
    if (D == S(0)) return {window, D, S(0), S(1)};
    return {window, D, in.beta(t) / D, S(1) - in.alpha(t)};
  }

  /// The values of pair j.
  template <class In>
  static auto values_of(const Pairs<In>& pairs, int j, int count) {
    using S = std::remove_reference_t<decltype(pairs.v(j, 0))>;
    return Line<S>{count > 0 ? &pairs.v(j, 0) : nullptr, 1, count};
  }

  template <class S>
  static Tensor<S, 2> written(const Options& options, const Inputs<S>& in, const Inputs<S>& read, int t,
                              const Tensor<S, 2>& before) {
    const Pairs<const Inputs<S>> pairs(options, read);
    const Step<S> step = step_of(options, in, t);
    Tensor<S, 2> after = before;
    for (S& element : after.data) element *= step.gamma;
    const S weight = step.rho / S(step.window.size());
    for (int j = step.window.first; j < step.window.last; ++j)
      for (int i = 0; i < before.size(0); ++i)
        add_scaled(line(after, i), S(weight * pairs.x(j, i)), values_of(pairs, j, before.size(1)));
    keep(Kept::state, after);
    return after;
  }

  /// A pair that is read again in every window is the same operand still.
  template <class S>
  static Inputs<S> as_read(const Inputs<S>& in) {
    Inputs<S> read = in;
    read.k = read_once(in.k), read.v = read_once(in.v);
    read.tail_k = read_once(in.tail_k), read.tail_v = read_once(in.tail_v);
    return read;
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    const Pairs<const Inputs<S>> pairs(options, in);
    const Window<S> tail = pairs.final_tail();
    Outputs<S> out{Tensor<S, 2>(T, V), in.initial_state, Tensor<S, 2>(tail.size(), K), Tensor<S, 2>(tail.size(), V)};
    Tensor<S, 2>& state = out.final_state;
    const Inputs<S> read = as_read(in);
    for (int t = 0; t < T; ++t) {
      if (options.writes(t)) state = written(options, in, read, t, state);
      for (int i = 0; i < K; ++i) add_scaled(line(out.o, t), in.q(t, i), line(state, i));
    }
    write_final_tail(pairs, out);
    return out;
  }

  /// Reverse recurrence of 3.7, G = dL/dS_t with the read at t included:
  ///   dq = S_t do,  G += q do^T,  dx_j += (rho/B_t) G v_j,  dv_j += (rho/B_t) G^T x_j,
  ///   drho = (1/B_t) sum_j x_j.G v_j,  dalpha = -<G, S_{t-1}>,  G <- gamma G;
  ///   then dbeta = drho / D,  dE = -drho rho / D,  dx_j += (2/B_t) dE x_j; a pair gathers from every step whose window
  ///   holds it, and from the outgoing tail
  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    const Inputs<S> read = as_read(in);
    const Pairs<const Inputs<S>> pairs(options, read);
    Replay states(in.initial_state, T, [&](int t, Tensor<S, 2>& state) {
      if (options.writes(t)) state = written(options, in, read, t, state);
    });
    Inputs<S> d = zero_like(in);
    const Pairs<Inputs<S>> d_pairs(options, d);
    add_final_tail(d_pairs, cotangent);
    Tensor<S, 2>& G = d.initial_state = cotangent.final_state;
    for (int t = T - 1; t >= 0; --t) {
      const Tensor<S, 2>&before = states.before(t), &after = states.after(t);
      for (int i = 0; i < K; ++i) {
        add_dot(d.q(t, i), line(after, i), line(cotangent.o, t));
        add_scaled(line(G, i), in.q(t, i), line(cotangent.o, t));
      }
      if (!options.writes(t)) continue;
      const Step<S> step = step_of(options, in, t);
      if (step.D == S(0)) continue;
      const S size = S(step.window.size()), weight = step.rho / size;
      S d_rho = S(0);
      for (int j = step.window.first; j < step.window.last; ++j) {
        const ScaledProducts<S> writes(weight, values_of(pairs, j, V));
        for (int i = 0; i < K; ++i) {
          const S along = dot(line(G, i), values_of(pairs, j, V));
          d_pairs.x(j, i) += writes.with(line(G, i), along);
          add_scaled(values_of(d_pairs, j, V), S(weight * pairs.x(j, i)), line(G, i));
          d_rho += pairs.x(j, i) * along;
        }
      }
      d_rho /= size;
      for (int i = 0; i < K; ++i) {
        subtract_dot(d.alpha(t), line(G, i), line(before, i));
        for (int c = 0; c < V; ++c) G(i, c) *= step.gamma;
        keep(Kept::gradient, line(G, i));
      }
      d.beta(t) = d_rho / step.D;
      const S slope = S(-2) * d_rho * step.rho / step.D / size;
      for (int j = step.window.first; j < step.window.last; ++j)
        for (int i = 0; i < K; ++i) d_pairs.x(j, i) += slope * pairs.x(j, i);
    }
    return d;
  }
};

}  // namespace assay
