#pragma once
// RetNet's retention, one head (delta-family.md section 3): linear attention under one decay for all tokens,
//   S_t = gamma S_{t-1} + k_t v_t^T,   gamma = 1 - 2^{-5-head},   o_t = scale S_t^T q_t
#include <string_view>
#include <vector>

#include "reference/core/error.hpp"
#include "reference/core/field.hpp"
#include "reference/core/planted.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/first_order.hpp"
#include "reference/errors/kept.hpp"

namespace assay {
inline namespace ASSAY_REFERENCES {

struct retnet {
  static constexpr std::string_view name = "retnet";
  static constexpr std::string_view summary = "linear attention under a fixed decay: S = gamma S + k v^T";
  static constexpr Fault faults[] = {
      first_order::reads_before_the_write,          first_order::reads_the_first_channel,
      first_order::query_gradient_before_the_write, first_order::forgets_the_decay_backward,
      first_order::decay_gradient_with_the_write,   {"retnet_counts_heads_from_one", "gamma = 1 - 2^{-6-head}"},
  };

  struct Options {
    int head = 0;

    static constexpr std::string_view names[] = {"head"};
    /// The settings that tests, fixtures and pages walk through.
    static std::vector<Params> variants() { return {{}, {{"head", 3L}}}; }

    static Options read(const Params& params) {
      Options o;
      OptionReader read(params);
      read("head", o.head);
      // Beyond that no format could tell gamma from 1.
      require_domain(o.head >= 0 && o.head <= 1000, -1, "params.head: expected 0 to 1000, got ", o.head);
      return o;
    }
  };

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> scale;          // multiplies the query at the read; K^{-1/2} if missing
    Tensor<S, 2> q, k, v;        // [T, K], [T, K], [T, V]
    Tensor<S, 2> initial_state;  // [K, V]
    Tensor<S, 0> log_decay;      // log gamma, of all tokens: has a gradient, but its value is never formed

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"scale", Domain::scale}.param().or_rsqrt_key_dim().shared().constant(), self.scale);
      f(Field{"q", Domain::query, {seq_len, key_dim}}.shared(), self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}, self.v);
      f(Field{"initial_state", Domain::state, {key_dim, value_dim}}.or_zero(), self.initial_state);
      f(Field{"log_decay", Domain::log_decay}.derived(), self.log_decay);
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

  /// gamma itself, not exp(log gamma): it is rational.
  template <class S>
  static first_order::Terms<S> terms(const Options& options, const Inputs<S>& in) {
    S power = S(1);
    for (int i = planted<"retnet_counts_heads_from_one">(0, -1); i < 5 + options.head; ++i) power /= S(2);
    Tensor<S, 2> gamma(1, 1);
    gamma(0, 0) = through_logarithm(S(S(1) - power));
    return {first_order::Error::none, in.scale(), in.q, in.k, in.v, {}, first_order::ones<S>(in.k.size(0)), gamma,
            in.initial_state};
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const auto [o, final_state] = first_order::forward(terms(options, in));
    return {o, final_state};
  }

  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    const auto d = first_order::backward(terms(options, in), {cotangent.o, cotangent.final_state});
    return {{}, d.q, d.k, d.v, d.initial_state, first_order::shaped(in.log_decay, d.log_decay)};
  }
};

}  // namespace ASSAY_REFERENCES
}  // namespace assay
