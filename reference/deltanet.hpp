#pragma once
// DeltaNet, one head (falcon-family.md 3.5, delta-family.md section 3): the state S [K, V] maps write features to
// values,
//   u_t = beta_t (v_t - S_{t-1}^T x_t),   S_t = S_{t-1} + x_t u_t^T,   o_t = scale S_t^T q_t
// The write feature x_t is k_t, or k_{t-1} under next-latent alignment; there a sequence start makes row 1 a no-op
// and a continuation takes x_1 from the key carried over.
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/planted.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/replay.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/kept.hpp"
#include "reference/errors/lines.hpp"
#include "reference/errors/state.hpp"
#include "reference/families/falcon.hpp"

namespace assay {
inline namespace ASSAY_REFERENCES {

struct deltanet {
  static constexpr std::string_view name = "deltanet";
  static constexpr std::string_view summary = "error-correcting write: S += beta k (v - S^T k)^T";

  struct Options {
    Alignment alignment = Alignment::same_step;
    bool sequence_start = true;

    static constexpr std::string_view names[] = {"alignment", "sequence_start"};
    /// The settings that tests, fixtures and pages walk through.
    static std::vector<Params> variants() {
      return {{}, {{"alignment", "next_latent"}}, {{"alignment", "next_latent"}, {"sequence_start", false}}};
    }

    static Options read(const Params& params) {
      Options o;
      OptionReader read(params);
      read("alignment", o.alignment, {{"same_step", Alignment::same_step}, {"next_latent", Alignment::next_latent}});
      read("sequence_start", o.sequence_start);
      return o;
    }
    bool shifted() const { return alignment == Alignment::next_latent; }
  };

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> scale;          // multiplies the query at the read; K^{-1/2} if missing
    Tensor<S, 2> q, k, v;        // [T, K], [T, K], [T, V]
    Tensor<S, 1> beta;           // [T] write strength, any finite number
    Tensor<S, 2> initial_state;  // [K, V]
    Tensor<S, 1> k_carry;        // [K] last key of the previous segment, or empty

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"scale", Domain::scale}.param().or_rsqrt_key_dim().shared().constant(), self.scale);
      f(Field{"q", Domain::query, {seq_len, key_dim}}.shared(), self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}, self.v);
      f(Field{"beta", Domain::write_strength, {seq_len}}, self.beta);
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

  static constexpr Fault faults[] = {{"write_without_error", "u = beta v"},
                                     {"write_of_the_next_value", "v_{t+1} in place of v_t"},
                                     {"read_gradient_of_k_dropped", "dx without - beta S e"},
                                     {"adjoint_not_corrected", "G without - beta x e^T"}};

  template <class S>
  static void check(const Options& options, const Inputs<S>& in) {
    const bool continuation = options.shifted() && !options.sequence_start;
    require_domain(!continuation || !in.k_carry.empty(), -1,
                   "k_carry: a next_latent continuation (sequence_start false) needs it");
    require_domain(continuation || in.k_carry.empty(), -1,
                   "k_carry: only a next_latent continuation (sequence_start false) takes it");
  }

  /// Whether step t writes at all: the first row of a shifted sequence has no previous key.
  static bool writes(const Options& options, int t) { return !(options.shifted() && options.sequence_start && t == 0); }

  /// Component i of the write feature x_t.
  template <class S>
  static const S& feature(const Options& options, const Inputs<S>& in, int t, int i) {
    if (!options.shifted()) return in.k(t, i);
    return t > 0 ? in.k(t - 1, i) : in.k_carry(i);
  }

  /// x_t; of a step that writes nothing, none.
  template <class S>
  static Direction<S> features(const Options& options, const Inputs<S>& in, int t) {
    if (!writes(options, t)) return {{nullptr, 1, in.k.size(1)}};
    return direction(Line<const S>{in.k.size(1) > 0 ? &feature(options, in, t, 0) : nullptr, 1, in.k.size(1)});
  }

  /// What step t maps the state by: the identity, or I - beta x x^T.
  template <class S>
  static StepMatrix<S> matrix(const Options& options, const Inputs<S>& in, int t, const Direction<S>& x) {
    return writes(options, t) ? delta_matrix(S(1), in.beta(t), x.square) : StepMatrix<S>();
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int T = in.k.size(0), V = in.v.size(1);
    Tensor<S, 2> o(T, V);
    State<S> state(in.initial_state);
    for (int t = 0; t < T; ++t) {
      const Direction<S> x = features(options, in, t);
      const StepMatrix<S> M = matrix(options, in, t, x);
      for (int j = 0; j < V; ++j) {
        const TakenColumn<S> s = state.take(j);
        if (writes(options, t)) {
          const S read = s.dot(x);
          const S v = in.v(planted<"write_of_the_next_value">(t, std::min(t + 1, T - 1)), j);
          const S u = in.beta(t) * (v - planted<"write_without_error">(read, S(0)));
          s.write(u, x);
          s.keep(Kept::state);
        }
        s.put_back(M);
        o(t, j) = dot(column(state, j), line(in.q, t)) * in.scale();
      }
    }
    return {o, state.tensor()};
  }

  /// Reverse recurrence of falcon-family.md 3.5, G = dL/dS_t with the read at t included:
  ///   dq = scale S_t do,  G += scale q do^T,  e = G^T x,  dv = beta e,  dx = beta (G r - S_{t-1} e),  dbeta = e.r,
  ///   G -= beta x e^T
  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Tensor<S, 2> residual(T, V);
    State<S> G(cotangent.final_state);
    Replay states(State<S>(in.initial_state), T, [&](int t, State<S>& state) {
      if (!writes(options, t)) return;
      const Direction<S> x = features(options, in, t);
      const StepMatrix<S> M = matrix(options, in, t, x);
      for (int j = 0; j < V; ++j) {
        const TakenColumn<S> s = state.take(j);
        const S r = in.v(t, j) - s.dot(x);
        s.write(S(in.beta(t) * r), x);
        s.keep(Kept::state);
        s.put_back(M);
        residual(t, j) = s.whole(r, x);
      }
    });
    Inputs<S> d{{},
                Tensor<S, 2>(in.q.extent),
                Tensor<S, 2>(in.k.extent),
                Tensor<S, 2>(in.v.extent),
                Tensor<S, 1>(in.beta.extent),
                Tensor<S, 2>(K, V),
                Tensor<S, 1>(in.k_carry.extent)};
    for (int t = T - 1; t >= 0; --t) {
      const State<S>&before = states.before(t), &after = states.after(t);
      const Direction<S> x = features(options, in, t);
      const StepMatrix<S> M = matrix(options, in, t, x);
      const Line<S> dx = !options.shifted() ? line(d.k, t) : t > 0 ? line(d.k, t - 1) : line(d.k_carry.data);
      ColumnSum<S> gathered(dx);
      for (int j = 0; j < V; ++j) {
        const TakenColumn<S> g = G.take(j);
        const S read_gradient = in.scale() * cotangent.o(t, j);
        add_scaled(line(d.q, t), read_gradient, column(after, j));
        g.write(read_gradient, line(in.q, t));
        if (writes(options, t)) {
          const Reading<S> e = g.read(x);
          const S u = in.beta(t) * residual(t, j);
          const Reading<S> du = in.beta(t) * e;
          d.v(t, j) = du.whole;
          d.beta(t) += e.whole * residual(t, j);
          gathered.add(u, g);
          subtract_scaled(dx, planted<"read_gradient_of_k_dropped">(du.whole, S(0)), column(before, j));
          g.erase(planted<"adjoint_not_corrected">(du.own, S(0)), x);
        }
        g.keep(Kept::gradient);
        g.put_back(M);
      }
      if (writes(options, t)) gathered.finish();
    }
    d.initial_state = G.tensor();
    return d;
  }
};

}  // namespace ASSAY_REFERENCES
}  // namespace assay
