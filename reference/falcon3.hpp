#pragma once
// FALCON-3, one head (falcon-family.md 3.6): every step descends on the newest B pairs I_t at once, all residuals taken
// before it,
//   E_t = mean of |x_j|^2 over I_t,   D_t = E_t + ridge_t + eps,   eta_t = beta_t / D_t,   gamma_t = 1 - eta_t ridge_t
//   S_t = gamma_t S_{t-1} + (eta_t / B_t) sum_{j in I_t} x_j (v_j - S_{t-1}^T x_j)^T,   o_t = S_t^T q_t
// with B_t = |I_t|, fewer than B near a start, and gamma_t kept above decay_floor. The ridge is lambda_t, or
// lambda_t E_t with ridge_coupling. A continuation takes the pairs still inside the window as its tail.
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
#include "reference/errors/state.hpp"
#include "reference/families/falcon.hpp"
#include "reference/families/write_lines.hpp"

namespace assay {

struct falcon3 {
  static constexpr std::string_view name = "falcon3";
  static constexpr std::string_view summary = "FALCON-1 descending on a sliding mini-batch of the newest pairs";

  struct Options : GainOptions, WindowOptions {
    static constexpr std::string_view names[] = {"alignment", "sequence_start", "ridge_coupling", "window"};
    static std::vector<Params> variants() {
      return {{},
              {{"window", 4L}},
              {{"window", 3L}, {"sequence_start", false}, {"decay_floor", "0.875"}},
              {{"window", 2L}, {"ridge_coupling", "live"}},
              {{"window", 3L}, {"ridge_coupling", "detach"}, {"decay_floor", "0.5"}},
              {{"window", 1L}, {"sequence_start", false}, {"ridge_coupling", "detach"}},
              {{"window", 9L}, {"alignment", "same_step"}, {"sequence_start", false}}};
    }

    static Options read(const Params& params) {
      Options o;
      OptionReader reader(params);
      o.GainOptions::read(reader);
      o.WindowOptions::read(reader, params);
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
      f(Field{"lambda", Domain::ridge, {seq_len}}, self.lambda);
      f(Field{"initial_state", Domain::state, {key_dim, value_dim}}.or_zero(), self.initial_state);
      f(Field{"k_carry", Domain::key, {key_dim}}.shared().or_absent(), self.k_carry);
      f(Field{"tail_k", Domain::key, {tail_len, key_dim}}.or_absent(), self.tail_k);
      f(Field{"tail_v", Domain::value, {tail_len, value_dim}}.or_absent(), self.tail_v);
    }
  };

  template <class S>
  using Outputs = ReadsAndTail<S>;
  using HandedOn = TailOf<falcon3>;

  /// As FALCON-3A's. The program sums all pairs before it writes; kernels that write pair by pair round the state as
  /// often as the reference, which tells where every operation errs.
  static bool is_modelled_by_program(const Options& options) { return !options.has_window; }
  static constexpr bool operations_are_the_reference = true;

  static void extend(const Options& options, Extents& e) {
    e[Axis::final_tail_len] = final_tail_len(options, e[Axis::tail_len], e[Axis::seq_len]);
  }

  template <class S>
  static void check(const Options& options, const Inputs<S>& in) {
    check_carried_key(options, in);
    check_tail(options, in);
    check_gains(in);
  }

  template <class S>
  using Window = typename Pairs<const Inputs<S>>::Window;

  /// D_t, with the window's mean energy.
  template <class S>
  static Denominator<S> denominator(const Options& options, const Inputs<S>& in, const Window<S>& window, int t) {
    const Pairs<const Inputs<S>> pairs(options, in);
    return denominator_of(options.ridge_coupling, mean_energy(pairs, window, in.k.size(1)), in.lambda(t), in.eps());
  }

  /// x_j of a pair, or its gradient.
  template <class In>
  static auto feature_of(const Pairs<In>& pairs, int j, int key_dim) {
    using X = std::remove_reference_t<decltype(pairs.x(j, 0))>;
    return Line<X>{&pairs.x(j, 0), 1, key_dim};
  }

  /// R_j = v_j - S^T x_j, component c.
  template <class S>
  static S residual(const Pairs<const Inputs<S>>& pairs, const Columns<S>& state, int j, int c) {
    S r = pairs.v(j, c);
    subtract_dot(r, column(state, c), feature_of(pairs, j, state.size(0)));
    return r;
  }

  /// The matrix by which a step maps a column of the state, gamma I - w sum_j x_j x_j^T. Its eigenvalues lie between
  /// gamma and gamma less w sum_j |x_j|^2, and that sum is the window's size times E.
  template <class S>
  static StepMatrix<S> matrix(const Gain<S>& gain, const Denominator<S>& D, const S& weight, int size) {
    return delta_matrix(gain.gamma, weight, S(S(size) * D.energy));
  }

  /// From S_{t-1} to S_t; the row writes what `read` has of the pairs.
  template <class S>
  static void step(const Options& options, const Inputs<S>& in, const Inputs<S>& read, int t, State<S>& state) {
    const Pairs<const Inputs<S>> pairs(options, read);
    const Window<S> window = pairs.window(t);
    const Denominator<S> D = denominator(options, in, window, t);
    const Gain<S> gain = gain_of(in.beta(t), D, in.decay_floor);
    const std::vector<TakenColumn<S>> columns = state.take();
    const S weight = gain.eta / S(window.size());
    const Columns<S> before = state;
    for (const TakenColumn<S>& s : columns) s.decay(gain.gamma);
    for (int j = window.first; j < window.last; ++j)
      for (int c = 0; c < state.size(1); ++c) {
        const S u = weight * residual(pairs, before, j, c);
        columns[static_cast<std::size_t>(c)].write(u, feature_of(pairs, j, state.size(0)));
      }
    keep(Kept::state, state);
    for (const TakenColumn<S>& s : columns) s.put_back(matrix(gain, D, weight, window.size()));
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
    Outputs<S> out{Tensor<S, 2>(T, V), Tensor<S, 2>(K, V), Tensor<S, 2>(tail.size(), K), Tensor<S, 2>(tail.size(), V)};
    const Inputs<S> read = as_read(in);
    State<S> state(in.initial_state);
    for (int t = 0; t < T; ++t) {
      if (options.writes(t)) step(options, in, read, t, state);
      add_read(out.o, t, state, in.q);
    }
    write_final_tail(pairs, out);
    out.final_state = state.tensor();
    return out;
  }

  /// Reverse recurrence of 3.6, G = dL/dS_t with the read at t included and w = eta / B_t:
  ///   dq = S_t do,  G += q do^T,  e_j = G^T x_j,  dv_j += w e_j,  dx_j += w (G R_j - S_{t-1} e_j),
  ///   deta = (1/B_t) sum_j e_j.R_j,  dgamma = <G, S_{t-1}>,  G <- gamma G - w sum_j x_j e_j^T;
  ///   then the gain, and dx_j += (2/B_t) dE x_j; a pair gathers from every step whose window holds it, and from the
  ///   outgoing tail
  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    const Inputs<S> read = as_read(in);
    const Pairs<const Inputs<S>> pairs(options, read);
    State<S> G(cotangent.final_state);
    Replay states(State<S>(in.initial_state), T, [&](int t, State<S>& state) {
      if (options.writes(t)) step(options, in, read, t, state);
    });
    Inputs<S> d = zero_like(in);
    const Pairs<Inputs<S>> d_pairs(options, d);
    add_final_tail(d_pairs, cotangent);
    for (int t = T - 1; t >= 0; --t) {
      const State<S>&before = states.before(t), &after = states.after(t);
      const std::vector<TakenColumn<S>> columns = G.take();
      add_read_gradients(d.q, G, t, after, in.q, cotangent.o);
      if (!options.writes(t)) {
        keep(Kept::gradient, G);
        for (const TakenColumn<S>& g : columns) g.put_back({});
        continue;
      }
      const Window<S> window = pairs.window(t);
      const Denominator<S> D = denominator(options, in, window, t);
      const Gain<S> gain = gain_of(in.beta(t), D, in.decay_floor);
      const S size = S(window.size()), weight = gain.eta / size;
      S d_weight = S(0), d_gamma = S(0);
      Columns<S> d_before(K, V);
      for (int c = 0; c < V; ++c) {
        d_gamma += columns[static_cast<std::size_t>(c)].read(direction(column(before, c))).whole;
        for (int i = 0; i < K; ++i) d_before(i, c) = gain.gamma * G(i, c);
      }
      for (int j = window.first; j < window.last; ++j) {
        const Direction<S> x = direction(feature_of(pairs, j, K));
        const Line<S> dx = feature_of(d_pairs, j, K);
        const ScaledProducts<S> writes(weight, x);
        ColumnSum<S> gathered(dx);
        for (int c = 0; c < V; ++c) {
          const TakenColumn<S>& g = columns[static_cast<std::size_t>(c)];
          const S r = residual(pairs, before, j, c);
          const Reading<S> e = g.read(x);
          const S u = weight * r;
          const Reading<S> du = weight * e;
          d_pairs.v(j, c) += errs<S>() ? writes.with(column(G, c), e.own) : du.whole;
          d_weight += e.whole * r;
          gathered.add(u, g);
          subtract_scaled(dx, du.whole, column(before, c));
          subtract_scaled(column(d_before, c), du.own, x);
        }
        gathered.finish();
      }
      G = d_before;
      keep(Kept::gradient, G);
      for (const TakenColumn<S>& g : columns) g.put_back(matrix(gain, D, weight, window.size()));
      GainAdjoint<S> adjoint(options.ridge_coupling, D);
      d.beta(t) = adjoint.add(gain, d_weight / size, d_gamma);
      d.lambda(t) = adjoint.lambda();
      const S slope = S(2) * adjoint.energy(in.lambda(t)) / S(window.size());
      for (int j = window.first; j < window.last; ++j)
        add_scaled(feature_of(d_pairs, j, K), slope, feature_of(pairs, j, K));
    }
    d.initial_state = G.tensor();
    return d;
  }
};

}  // namespace assay
