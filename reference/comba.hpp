#pragma once
// Comba, one head (delta-family.md section 3): a delta rule whose error is of the state before its decay, under a
// prediction key of its own,
//   S_t = alpha_t S_{t-1} + beta_t k_t (v_t - S_{t-1}^T p_t)^T,   alpha_t = exp(log_decay_t),   o_t = scale S_t^T q_t
#include <string_view>

#include "reference/core/field.hpp"
#include "reference/core/recurrent.hpp"
#include "reference/core/tensor.hpp"
#include "reference/families/first_order.hpp"

namespace assay {

struct comba {
  static constexpr std::string_view name = "comba";
  static constexpr std::string_view summary = "delta rule with a prediction key, corrected before the decay";

  using Options = NoOptions;

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> scale;            // multiplies the query at the read; K^{-1/2} if missing
    Tensor<S, 2> q, k, v;          // [T, K], [T, K], [T, V]
    Tensor<S, 2> p;                // [T, K] prediction key
    Tensor<S, 1> beta, log_decay;  // [T] write strength; natural log of the decay, <= 0, -inf allowed
    Tensor<S, 2> initial_state;    // [K, V]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"scale", Domain::scale}.param().or_rsqrt_key_dim().shared().constant(), self.scale);
      f(Field{"q", Domain::query, {seq_len, key_dim}}.shared(), self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}, self.v);
      f(Field{"p", Domain::key, {seq_len, key_dim}}.shared(), self.p);
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
  static Outputs<S> forward(const Options&, const Inputs<S>& in) {
    const auto D = first_order::decays(in.log_decay);
    return first_order::forward(
        in, first_order::Error::undecayed, in.p, [&](int t, int) { return D(t); }, [&](int t) { return in.beta(t); });
  }
};

}  // namespace assay
