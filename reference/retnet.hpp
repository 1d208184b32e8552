#pragma once
// RetNet's retention, one head (delta-family.md section 3): linear attention under one decay for all tokens,
//   S_t = gamma S_{t-1} + k_t v_t^T,   gamma = 1 - 2^{-5-head},   o_t = scale S_t^T q_t
// A case that gives each head its own log_decay has gamma = e^{log_decay}.
#include <cmath>
#include <string_view>
#include <vector>

#include "reference/core/error.hpp"
#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/recurrent.hpp"
#include "reference/core/tensor.hpp"
#include "reference/families/first_order.hpp"

namespace assay {

struct retnet {
  static constexpr std::string_view name = "retnet";
  static constexpr std::string_view summary = "linear attention under a fixed decay: S = gamma S + k v^T";

  struct Options {
    int head = 0;
    bool has_head = false;  ///< whether the case says it

    static constexpr std::string_view names[] = {"head"};
    static std::vector<Params> variants() { return {{}, {{"head", 3L}}}; }

    static Options read(const Params& params) {
      Options o;
      OptionReader read(params);
      read("head", o.head);
      o.has_head = params.contains("head");
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
    Tensor<S, 0> log_decay;      // log gamma, of all tokens; without it that of `head`, whose value is never formed

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"scale", Domain::scale}.param().or_rsqrt_key_dim().shared().constant(), self.scale);
      f(Field{"q", Domain::query, {seq_len, key_dim}}.shared(), self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}, self.v);
      f(Field{"initial_state", Domain::state, {key_dim, value_dim}}.or_zero(), self.initial_state);
      f(Field{"log_decay", Domain::log_decay}.or_worked_out(), self.log_decay);
    }
  };

  template <class S>
  using Outputs = ReadsAndState<S>;

  template <class S>
  static void check(const Options& options, const Inputs<S>& in) {
    require_domain(in.log_decay.empty() || !options.has_head, -1,
                   "log_decay: params.head says a decay, too; leave one of them out");
  }

  /// gamma of `head` itself, not exp(log gamma): it is rational.
  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    using std::exp;
    S power = S(1);
    for (int i = 0; i < 5 + options.head; ++i) power /= S(2);
    const S gamma = in.log_decay.empty() ? S(S(1) - power) : S(exp(in.log_decay()));
    return first_order::forward(
        in, first_order::Error::none, in.k, [&](int, int) { return gamma; }, [](int) { return S(1); });
  }
};

}  // namespace assay
