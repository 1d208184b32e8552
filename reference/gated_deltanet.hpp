#pragma once
// Gated DeltaNet, one head (delta-family.md section 3): a decaying state S [K, V] with an error-correcting write,
//   R_t = alpha_t S_{t-1},  alpha_t = exp(log_decay_t)
//   e_t = v_t - R_t^T k_t   ("decayed", the default)   or   v_t - S_{t-1}^T k_t   ("undecayed")
//   S_t = R_t + beta_t k_t e_t^T,   o_t = scale S_t^T q_t
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/core/carried_error.hpp"
#include "reference/core/field.hpp"
#include "reference/core/kept.hpp"
#include "reference/core/lines.hpp"
#include "reference/core/planted.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/replay.hpp"
#include "reference/core/tensor.hpp"

namespace assay {
inline namespace ASSAY_REFERENCES {

struct gated_deltanet {
  static constexpr std::string_view name = "gated_deltanet";
  static constexpr std::string_view summary =
      "delta rule on a decaying state: S = alpha S + beta k (v - alpha S^T k)^T";

  enum class Error { decayed, undecayed };
  struct Options {
    Error error = Error::decayed;

    static constexpr std::string_view names[] = {"error"};
    /// The settings that tests, fixtures and pages walk through.
    static std::vector<Params> variants() { return {{}, {{"error", "undecayed"}}}; }

    static Options read(const Params& params) {
      Options o;
      OptionReader read(params);
      read("error", o.error, {{"decayed", Error::decayed}, {"undecayed", Error::undecayed}});
      return o;
    }
  };

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> scale;            // multiplies the query at the read; K^{-1/2} if missing
    Tensor<S, 2> q, k, v;          // [T, K], [T, K], [T, V]
    Tensor<S, 1> beta, log_decay;  // [T] write strength; natural log of the decay, <= 0, -inf allowed
    Tensor<S, 2> initial_state;    // [K, V]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"scale", Domain::scale}.param().or_rsqrt_key_dim().shared().constant(), self.scale);
      f(Field{"q", Domain::query, {seq_len, key_dim}}.shared(), self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}, self.v);
      f(Field{"beta", Domain::write_strength, {seq_len}}, self.beta);
      f(Field{"log_decay", Domain::log_decay, {seq_len}}, self.log_decay);
      f(Field{"initial_state", Domain::state, {key_dim, value_dim}}.or_zero(), self.initial_state);
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

  static constexpr Fault faults[] = {{"error_of_the_other_state", "decayed and undecayed exchanged"},
                                     {"write_decayed", "the write decays too"},
                                     {"decay_gradient_of_the_new_state", "dg = <G, S_t>"},
                                     {"value_gradient_unscaled", "dv without beta"}};

  template <class S>
  static void check(const Options&, const Inputs<S>&) {}

  /// What step t makes of errors: of a column of the state, of its residual, and of the part that decays last.
  template <class S>
  struct StepNorms {
    Bounds<S> unit = size_of(S(1)), key, residual, kept = unit, state;

    StepNorms([[maybe_unused]] const Options& options, [[maybe_unused]] const Inputs<S>& in, int t,
              [[maybe_unused]] const S& alpha) {
      const auto k = [&in, t](int i) -> const S& { return in.k(t, i); };
      key = residual = norm_of<S>(in.k.size(1), k);
      state =
          symmetric_norm(options.error == Error::decayed ? S(1) : alpha, in.beta(t), squares_of<S>(in.k.size(1), k));
      if (options.error == Error::undecayed) return;
      residual = key * size_of(alpha);
      kept = state;
      state = kept * size_of(alpha);
    }
  };

  /// At least the 2-norm.
  template <class S>
  static Bounds<S> norm(const Line<const S>& x) {
    if constexpr (Enclosure<S>)
      return sqrt(size_of(dot(x, x)));
    else
      return {};
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    using std::exp;
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Tensor<S, 2> o(T, V);
    Columns<S> state(in.initial_state);
    join_errors(state);
    for (int t = 0; t < T; ++t) {
      const S alpha = exp(in.log_decay(t));
      const StepNorms<S> norms(options, in, t, alpha);
      for (int j = 0; j < V; ++j) {
        const CarriedError<S> carried(state, j);
        const bool on_decayed = options.error == planted<"error_of_the_other_state">(Error::decayed, Error::undecayed);
        S read = S(0);
        if (!on_decayed) add_dot(read, column(state, j), line(in.k, t));
        for (int i = 0; i < K; ++i) state(i, j) *= alpha;
        if (on_decayed) add_dot(read, column(state, j), line(in.k, t));
        const S u = in.beta(t) * (in.v(t, j) - read), write = planted<"write_decayed">(u, S(u * alpha));
        add_scaled(column(state, j), write, line(in.k, t));
        keep(Kept::state, column(state, j));
        carried.put_back(state, j, norms.state);
        o(t, j) = dot(column(state, j), line(in.q, t)) * in.scale();
      }
    }
    return {o, state.tensor()};
  }

  /// Reverse recurrence of delta-family.md 3.2 with p = k, G = dL/dS_t with the read at t included:
  ///   dq = scale S_t do,  G += scale q do^T,  dbeta = k^T G e,  dk = beta G e,  de = dv = beta G^T k
  ///   decayed:   dk -= R de,        H = G - k de^T,  dg = <H, R>,  G <- alpha H
  ///   undecayed: dk -= S_{t-1} de,  dg = <G, R>,                   G <- alpha G - k de^T
  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    using std::exp;
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    const bool decayed = options.error == Error::decayed;
    Tensor<S, 2> error(T, V);
    Columns<S> first(in.initial_state), G(cotangent.final_state);
    join_errors(first);
    join_errors(G);
    Replay states(std::move(first), T, [&](int t, Columns<S>& state) {
      const S alpha = exp(in.log_decay(t));
      const StepNorms<S> norms(options, in, t, alpha);
      for (int j = 0; j < V; ++j) {
        const CarriedError<S> carried(state, j);
        if (decayed)
          for (int i = 0; i < K; ++i) state(i, j) *= alpha;
        error(t, j) = in.v(t, j) - dot(column(state, j), line(in.k, t));
        if (!decayed)
          for (int i = 0; i < K; ++i) state(i, j) *= alpha;
        add_scaled(column(state, j), S(in.beta(t) * error(t, j)), line(in.k, t));
        keep(Kept::state, column(state, j));
        carried.put_back(state, j, norms.state);
        error(t, j) = carried.whole(error(t, j), norms.residual);
      }
    });
    Inputs<S> d{{},
                Tensor<S, 2>(in.q.extent),
                Tensor<S, 2>(in.k.extent),
                Tensor<S, 2>(in.v.extent),
                Tensor<S, 1>(in.beta.extent),
                Tensor<S, 1>(in.log_decay.extent),
                Tensor<S, 2>(K, V)};
    for (int t = T - 1; t >= 0; --t) {
      const Columns<S>&before = states.before(t), &after = states.after(t);
      const S alpha = exp(in.log_decay(t));
      S of_errors = S(0);  // what the errors of G put on dk
      const StepNorms<S> norms(options, in, t, alpha);
      for (int j = 0; j < V; ++j) {
        const CarriedError<S> carried(G, j);
        const S read_gradient = in.scale() * cotangent.o(t, j), u = in.beta(t) * error(t, j);
        add_scaled(line(d.q, t), read_gradient, column(after, j));
        add_scaled(column(G, j), read_gradient, line(in.q, t));
        const S gk = dot(column(G, j), line(in.k, t));
        const S de = in.beta(t) * gk;
        const S& whole_gk = carried.whole(gk, norms.key);
        const S whole_de = in.beta(t) * whole_gk;
        d.v(t, j) = planted<"value_gradient_unscaled">(whole_de, whole_gk);
        d.beta(t) += whole_gk * error(t, j);
        add_scaled(line(d.k, t), u, column(G, j));
        of_errors += carried.whole(S(0), norms.unit) * u;
        subtract_scaled(line(d.k, t), decayed ? S(alpha * whole_de) : whole_de, column(before, j));
        if (decayed) subtract_scaled(column(G, j), de, line(in.k, t));
        const S of_decay = planted<"decay_gradient_of_the_new_state">(alpha, S(1));
        const Line<const S> kept = planted<"decay_gradient_of_the_new_state">(column(before, j), column(after, j));
        d.log_decay(t) += carried.whole(dot(column(G, j), kept), norms.kept * norm(kept)) * of_decay;
        for (int i = 0; i < K; ++i) G(i, j) *= alpha;
        if (!decayed) subtract_scaled(column(G, j), de, line(in.k, t));
        keep(Kept::gradient, column(G, j));
        carried.put_back(G, j, norms.state);
      }
      for (int i = 0; i < K; ++i) d.k(t, i) += of_errors;
    }
    d.initial_state = G.tensor();
    return d;
  }
};

}  // namespace ASSAY_REFERENCES
}  // namespace assay
