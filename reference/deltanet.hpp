#pragma once
// DeltaNet, one head (falcon-family.md 3.5, delta-family.md section 3): the state S [K, V] maps write features to
// values,
//   u_t = beta_t (v_t - S_{t-1}^T x_t),   S_t = S_{t-1} + x_t u_t^T,   o_t = scale S_t^T q_t
// The write feature x_t is k_t, or k_{t-1} under next-latent alignment; there a sequence start makes row 1 a no-op
// and a continuation takes x_1 from the key carried over.
#include <string_view>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/recurrent.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/falcon.hpp"
#include "reference/families/write_lines.hpp"

namespace assay {

struct deltanet {
  static constexpr std::string_view name = "deltanet";
  static constexpr std::string_view summary = "error-correcting write: S += beta k (v - S^T k)^T";

  struct Options : WriteOptions {
    Options() : WriteOptions{Alignment::same_step} {}

    static constexpr std::string_view names[] = {"alignment", "sequence_start"};
    static std::vector<Params> variants() {
      return {{}, {{"alignment", "next_latent"}}, {{"alignment", "next_latent"}, {"sequence_start", false}}};
    }

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
  using Outputs = ReadsAndState<S>;

  template <class S>
  static void check(const Options& options, const Inputs<S>& in) {
    check_carried_key(options, in);
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Tensor<S, 2> o(T, V), state = in.initial_state;
    for (int t = 0; t < T; ++t)
      for (int j = 0; j < V; ++j) {
        const Line<S> s = column(state, j);
        if (options.writes(t) && K > 0) {
          const Line<const S> x = features(options, in, t);
          add_scaled(s, S(in.beta(t) * (in.v(t, j) - dot(s, x))), x);
        }
        o(t, j) = dot(s, line(in.q, t)) * in.scale();
      }
    return {o, state};
  }
};

}  // namespace assay
