#pragma once
// Gated DeltaNet, one head (delta-family.md section 3): a decaying state S [K, V] with an error-correcting write,
//   R_t = alpha_t S_{t-1},  alpha_t = exp(log_decay_t)
//   e_t = v_t - R_t^T k_t   ("decayed", the default)   or   v_t - S_{t-1}^T k_t   ("undecayed")
//   S_t = R_t + beta_t k_t e_t^T,   o_t = scale S_t^T q_t
#include <cmath>
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

  /// M_t of S_t = M_t S_{t-1} + ..., and what of it acts after the decay.
  template <class S>
  struct Matrices {
    StepMatrix<S> last, all;
  };
  template <class S>
  static Matrices<S> matrices(const Options& options, const S& alpha, const S& beta, const Direction<S>& k) {
    if (options.error == Error::undecayed) return {{}, delta_matrix(alpha, beta, k.square)};
    const StepMatrix<S> last = delta_matrix(S(1), beta, k.square);
    return {last, last * decay_matrix(alpha)};
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    using std::exp;
    const int T = in.k.size(0), V = in.v.size(1);
    Tensor<S, 2> o(T, V);
    State<S> state(in.initial_state);
    for (int t = 0; t < T; ++t) {
      const S alpha = exp(in.log_decay(t));
      const Direction<S> k = direction(line(in.k, t));
      const StepMatrix<S> M = matrices(options, alpha, in.beta(t), k).all;
      for (int j = 0; j < V; ++j) {
        const TakenColumn<S> s = state.take(j);
        const bool on_decayed = options.error == planted<"error_of_the_other_state">(Error::decayed, Error::undecayed);
        S read = S(0);
        if (!on_decayed) add_dot(read, s, k);
        s.decay(alpha);
        if (on_decayed) add_dot(read, s, k);
        const S u = in.beta(t) * (in.v(t, j) - read), write = planted<"write_decayed">(u, S(u * alpha));
        s.write(write, k);
        s.keep(Kept::state);
        s.put_back(M);
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
    State<S> G(cotangent.final_state);
    Replay states(State<S>(in.initial_state), T, [&](int t, State<S>& state) {
      const S alpha = exp(in.log_decay(t));
      const Direction<S> k = direction(line(in.k, t));
      const StepMatrix<S> M = matrices(options, alpha, in.beta(t), k).all;
      for (int j = 0; j < V; ++j) {
        const TakenColumn<S> s = state.take(j);
        if (decayed) s.decay(alpha);
        const S e = in.v(t, j) - s.dot(k);
        if (!decayed) s.decay(alpha);
        s.write(S(in.beta(t) * e), k);
        s.keep(Kept::state);
        s.put_back(M);
        error(t, j) = decayed ? s.whole(e, k, decay_matrix(alpha)) : s.whole(e, k);
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
      const State<S>&before = states.before(t), &after = states.after(t);
      const S alpha = exp(in.log_decay(t));
      const Direction<S> k = direction(line(in.k, t));
      const Matrices<S> M = matrices(options, alpha, in.beta(t), k);
      ColumnSum<S> dk(line(d.k, t));
      for (int j = 0; j < V; ++j) {
        const TakenColumn<S> g = G.take(j);
        const S read_gradient = in.scale() * cotangent.o(t, j), u = in.beta(t) * error(t, j);
        add_scaled(line(d.q, t), read_gradient, column(after, j));
        g.write(read_gradient, line(in.q, t));
        const Reading<S> gk = g.read(k), de = in.beta(t) * gk;
        d.v(t, j) = planted<"value_gradient_unscaled">(de.whole, gk.whole);
        d.beta(t) += gk.whole * error(t, j);
        dk.add(u, g);
        subtract_scaled(line(d.k, t), decayed ? S(alpha * de.whole) : de.whole, column(before, j));
        if (decayed) g.erase(de, k);
        const S of_decay = planted<"decay_gradient_of_the_new_state">(alpha, S(1));
        const Line<const S> kept = planted<"decay_gradient_of_the_new_state">(column(before, j), column(after, j));
        d.log_decay(t) += g.read(kept, M.last).whole * of_decay;
        g.decay(alpha);
        if (!decayed) g.erase(de, k);
        g.keep(Kept::gradient);
        g.put_back(M.all);
      }
      dk.finish();
    }
    d.initial_state = G.tensor();
    return d;
  }
};

}  // namespace ASSAY_REFERENCES
}  // namespace assay
