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

#include "reference/core/carried_error.hpp"
#include "reference/core/falcon.hpp"
#include "reference/core/field.hpp"
#include "reference/core/kept.hpp"
#include "reference/core/lines.hpp"
#include "reference/core/planted.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/replay.hpp"
#include "reference/core/tensor.hpp"

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

  template <class S>
  static Line<const S> features(const Options& options, const Inputs<S>& in, int t) {
    return {in.k.size(1) > 0 ? &feature(options, in, t, 0) : nullptr, 1, in.k.size(1)};
  }

  /// What a step makes of errors of the state: 1, or |I - beta x x^T|.
  template <class S>
  static Bounds<S> step_norm(const Options& options, const Inputs<S>& in, int t) {
    if (!writes(options, t)) return size_of(S(1));
    const auto x = [&](int i) -> const S& { return feature(options, in, t, i); };
    return symmetric_norm(S(1), in.beta(t), squares_of<S>(in.k.size(1), x));
  }
  template <class S>
  static Bounds<S> feature_norm(const Options& options, const Inputs<S>& in, int t) {
    if (!writes(options, t)) return {};
    return norm_of<S>(in.k.size(1), [&](int i) -> const S& { return feature(options, in, t, i); });
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int T = in.k.size(0), V = in.v.size(1);
    Tensor<S, 2> o(T, V);
    Columns<S> state(in.initial_state);
    join_errors(state);
    for (int t = 0; t < T; ++t) {
      const Bounds<S> norm = step_norm(options, in, t);
      for (int j = 0; j < V; ++j) {
        const CarriedError<S> carried(state, j);
        if (writes(options, t)) {
          const S read = dot(column(state, j), features(options, in, t));
          const S v = in.v(planted<"write_of_the_next_value">(t, std::min(t + 1, T - 1)), j);
          const S u = in.beta(t) * (v - planted<"write_without_error">(read, S(0)));
          add_scaled(column(state, j), u, features(options, in, t));
          keep(Kept::state, column(state, j));
        }
        carried.put_back(state, j, norm);
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
    Columns<S> first(in.initial_state), G(cotangent.final_state);
    join_errors(first);
    join_errors(G);
    Replay states(std::move(first), T, [&](int t, Columns<S>& state) {
      if (!writes(options, t)) return;
      const Bounds<S> norm = step_norm(options, in, t), feature_size = feature_norm(options, in, t);
      for (int j = 0; j < V; ++j) {
        const CarriedError<S> carried(state, j);
        residual(t, j) = in.v(t, j) - dot(column(state, j), features(options, in, t));
        add_scaled(column(state, j), S(in.beta(t) * residual(t, j)), features(options, in, t));
        keep(Kept::state, column(state, j));
        carried.put_back(state, j, norm);
        residual(t, j) = carried.whole(residual(t, j), feature_size);
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
      const Columns<S>&before = states.before(t), &after = states.after(t);
      const Bounds<S> unit = size_of(S(1)), norm = step_norm(options, in, t),
                      feature_size = feature_norm(options, in, t);
      const Line<S> dx = !options.shifted() ? line(d.k, t) : t > 0 ? line(d.k, t - 1) : line(d.k_carry.data);
      S of_errors = S(0);  // what the errors of G put on dx
      for (int j = 0; j < V; ++j) {
        const CarriedError<S> carried(G, j);
        const S read_gradient = in.scale() * cotangent.o(t, j);
        add_scaled(line(d.q, t), read_gradient, column(after, j));
        add_scaled(column(G, j), read_gradient, line(in.q, t));
        if (!writes(options, t)) {
          keep(Kept::gradient, column(G, j));
          carried.put_back(G, j, unit);
          continue;
        }
        const S e = dot(column(G, j), features(options, in, t));
        const S& whole_e = carried.whole(e, feature_size);
        const S u = in.beta(t) * residual(t, j), du = in.beta(t) * e, whole_du = in.beta(t) * whole_e;
        d.v(t, j) = whole_du;
        d.beta(t) += whole_e * residual(t, j);
        add_scaled(dx, u, column(G, j));
        of_errors += carried.whole(S(0), unit) * u;
        subtract_scaled(dx, planted<"read_gradient_of_k_dropped">(whole_du, S(0)), column(before, j));
        subtract_scaled(column(G, j), planted<"adjoint_not_corrected">(du, S(0)), features(options, in, t));
        keep(Kept::gradient, column(G, j));
        carried.put_back(G, j, norm);
      }
      for (int i = 0; writes(options, t) && i < K; ++i) dx[i] += of_errors;
    }
    d.initial_state = G.tensor();
    return d;
  }
};

}  // namespace ASSAY_REFERENCES
}  // namespace assay
