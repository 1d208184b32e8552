#pragma once
// Comba, one head (delta-family.md section 3): a delta rule whose error is of the state before its decay, under a
// prediction key of its own,
//   S_t = alpha_t S_{t-1} + beta_t k_t (v_t - S_{t-1}^T p_t)^T,   alpha_t = exp(log_decay_t),   o_t = scale S_t^T q_t
#include <array>
#include <string_view>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/planted.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/first_order.hpp"

namespace assay {
inline namespace ASSAY_REFERENCES {

struct comba {
  static constexpr std::string_view name = "comba";
  static constexpr std::string_view summary = "delta rule with a prediction key, corrected before the decay";
  static constexpr Fault faults[] = {
      first_order::reads_before_the_write,
      first_order::writes_the_first_value,
      first_order::reads_the_first_channel,
      first_order::strength_gradient_of_values,
      first_order::swaps_the_error,
      first_order::decays_once,
      first_order::query_gradient_before_the_write,
      first_order::forgets_the_decay_backward,
      first_order::forgets_the_prediction_backward,
      first_order::prediction_gradient_sign,
      first_order::decay_gradient_with_the_write,
      {"comba_predicts_with_the_key", "p_t is taken to be k_t"},
  };

  struct Options {
    static constexpr std::array<std::string_view, 0> names{};
    static std::vector<Params> variants() { return {{}}; }
    static Options read(const Params&) { return {}; }
  };

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

  template <class S>
  static void check(const Options&, const Inputs<S>&) {}

  template <class S>
  static first_order::Terms<S> terms(const Inputs<S>& in) {
    return {first_order::Error::undecayed,
            in.scale(),
            in.q,
            in.k,
            in.v,
            planted<"comba_predicts_with_the_key">(in.p, in.k),
            in.beta,
            first_order::decays(in.log_decay),
            in.initial_state};
  }

  template <class S>
  static Outputs<S> forward(const Options&, const Inputs<S>& in) {
    const auto [o, final_state] = first_order::forward(terms(in));
    return {o, final_state};
  }

  template <class S>
  static Inputs<S> backward(const Options&, const Inputs<S>& in, const Outputs<S>& cotangent) {
    const auto d = first_order::backward(terms(in), {cotangent.o, cotangent.final_state});
    return {{}, d.q, d.k, d.v, d.p, d.beta, first_order::shaped(in.log_decay, d.log_decay), d.initial_state};
  }
};

}  // namespace ASSAY_REFERENCES
}  // namespace assay
