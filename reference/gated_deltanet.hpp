#pragma once
// Gated DeltaNet, one head (delta-family.md section 3): a decaying state S [K, V] with an error-correcting write,
//   R_t = alpha_t S_{t-1},  alpha_t = exp(log_decay_t)
//   e_t = v_t - R_t^T k_t   ("decayed", the default)   or   v_t - S_{t-1}^T k_t   ("undecayed")
//   S_t = R_t + beta_t k_t e_t^T,   o_t = scale S_t^T q_t
#include <cmath>
#include <string_view>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/planted.hpp"
#include "reference/core/problem.hpp"
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

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    using std::exp;
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Outputs<S> out{Tensor<S, 2>(T, V), in.initial_state};
    Tensor<S, 2>& state = out.final_state;
    for (int t = 0; t < T; ++t) {
      const S alpha = exp(in.log_decay(t));
      for (int j = 0; j < V; ++j) {
        S read = S(0);
        for (int i = 0; i < K; ++i) {
          const S decayed = alpha * state(i, j);
          const bool on_decayed =
              options.error == planted<"error_of_the_other_state">(Error::decayed, Error::undecayed);
          read += (on_decayed ? decayed : state(i, j)) * in.k(t, i);
          state(i, j) = decayed;
        }
        const S e = in.v(t, j) - read;
        for (int i = 0; i < K; ++i) {
          state(i, j) += in.beta(t) * in.k(t, i) * e * planted<"write_decayed">(S(1), alpha);
          out.o(t, j) += state(i, j) * in.q(t, i);
        }
        out.o(t, j) *= in.scale();
      }
    }
    return out;
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
    // Every state is kept: clarity over memory.
    std::vector<Tensor<S, 2>> state{in.initial_state};
    Tensor<S, 2> error(T, V);
    for (int t = 0; t < T; ++t) {
      state.push_back(state.back());
      const Tensor<S, 2>& before = state[static_cast<std::size_t>(t)];
      Tensor<S, 2>& next = state.back();
      const S alpha = exp(in.log_decay(t));
      for (int j = 0; j < V; ++j) {
        S read = S(0);
        for (int i = 0; i < K; ++i) read += (decayed ? alpha * before(i, j) : before(i, j)) * in.k(t, i);
        error(t, j) = in.v(t, j) - read;
        for (int i = 0; i < K; ++i) next(i, j) = alpha * before(i, j) + in.beta(t) * in.k(t, i) * error(t, j);
      }
    }
    Inputs<S> d{{},
                Tensor<S, 2>(in.q.extent),
                Tensor<S, 2>(in.k.extent),
                Tensor<S, 2>(in.v.extent),
                Tensor<S, 1>(in.beta.extent),
                Tensor<S, 1>(in.log_decay.extent),
                cotangent.final_state};
    Tensor<S, 2>& G = d.initial_state;
    for (int t = T - 1; t >= 0; --t) {
      const Tensor<S, 2>& before = state[static_cast<std::size_t>(t)];
      const Tensor<S, 2>& after = state[static_cast<std::size_t>(t) + 1];
      const S alpha = exp(in.log_decay(t));
      for (int j = 0; j < V; ++j) {
        S gk = S(0);
        for (int i = 0; i < K; ++i) {
          d.q(t, i) += in.scale() * after(i, j) * cotangent.o(t, j);
          G(i, j) += in.scale() * in.q(t, i) * cotangent.o(t, j);
          gk += G(i, j) * in.k(t, i);
        }
        const S de = in.beta(t) * gk;
        d.v(t, j) = planted<"value_gradient_unscaled">(de, gk);
        d.beta(t) += gk * error(t, j);
        for (int i = 0; i < K; ++i) {
          const S R = alpha * before(i, j);
          d.k(t, i) += in.beta(t) * G(i, j) * error(t, j) - (decayed ? R : before(i, j)) * de;
          const S write = in.k(t, i) * de;
          const S kept = planted<"decay_gradient_of_the_new_state">(R, after(i, j));
          d.log_decay(t) += (decayed ? G(i, j) - write : G(i, j)) * kept;
          G(i, j) = decayed ? alpha * (G(i, j) - write) : alpha * G(i, j) - write;
        }
      }
    }
    return d;
  }
};

}  // namespace ASSAY_REFERENCES
}  // namespace assay
