#pragma once
// Gated DeltaNet, one head (delta-family.md section 3): a decaying state S [K, V] with an error-correcting write,
//   R_t = alpha_t S_{t-1},  alpha_t = exp(log_decay_t)
//   e_t = v_t - R_t^T k_t   ("decayed", the default)   or   v_t - S_{t-1}^T k_t   ("undecayed")
//   S_t = R_t + beta_t k_t e_t^T,   o_t = scale S_t^T q_t
#include <string_view>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/recurrent.hpp"
#include "reference/core/tensor.hpp"
#include "reference/families/first_order.hpp"

namespace assay {

struct gated_deltanet {
  static constexpr std::string_view name = "gated_deltanet";
  static constexpr std::string_view summary =
      "delta rule on a decaying state: S = alpha S + beta k (v - alpha S^T k)^T";

  using Error = first_order::Error;
  struct Options {
    Error error = Error::decayed;

    static constexpr std::string_view names[] = {"error"};
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
  using Outputs = ReadsAndState<S>;

  template <class S>
  static void check(const Options&, const Inputs<S>&) {}

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const auto D = first_order::decays(in.log_decay);
    return first_order::forward(
        in, options.error, in.k, [&](int t, int) { return D(t); }, [&](int t) { return in.beta(t); });
  }
};

}  // namespace assay
