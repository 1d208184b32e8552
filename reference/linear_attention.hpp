#pragma once
// Linear attention, one head (delta-family.md sections 3 and 3.5, lla-family.md section 7): values are summed under
// their keys and read by the query,
//   S_t = S_{t-1} + k_t v_t^T,   z_t = z_{t-1} + k_t,   o_t = c_t scale S_t^T q_t
// with c_t = 1 ("none", the default), 1 / t counted from 1 ("count"), or 1 / (scale <q_t, z_t> + eps) ("features").
// Feature maps are applied by the caller.
#include <string_view>
#include <vector>

#include "reference/core/error.hpp"
#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/recurrent.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"

namespace assay {

struct linear_attention {
  static constexpr std::string_view name = "linear_attention";
  static constexpr std::string_view summary = "sums of k v^T read by the query, plain or normalized: S += k v^T";

  enum class Normalization { none, count, features };
  struct Options {
    Normalization normalization = Normalization::none;

    static constexpr std::string_view names[] = {"normalization"};
    static std::vector<Params> variants() {
      return {{}, {{"normalization", "count"}}, {{"normalization", "features"}}};
    }

    static Options read(const Params& params) {
      Options o;
      OptionReader read(params);
      read("normalization", o.normalization,
           {{"none", Normalization::none}, {"count", Normalization::count}, {"features", Normalization::features}});
      return o;
    }
    bool normalizes() const { return normalization == Normalization::features; }
  };

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> scale;               // multiplies the query at the read; K^{-1/2} if missing
    Tensor<S, 0> eps;                 // >= 0, of the features' denominator; 0 if missing
    Tensor<S, 2> q, k, v;             // [T, K], [T, K], [T, V]
    Tensor<S, 2> initial_state;       // [K, V]
    Tensor<S, 1> initial_normalizer;  // [K], with features alone; zero if missing

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"scale", Domain::scale}.param().or_rsqrt_key_dim().shared().constant(), self.scale);
      f(Field{"eps", Domain::regularizer}.param().or_zero().shared().constant(), self.eps);
      f(Field{"q", Domain::query, {seq_len, key_dim}}.shared(), self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}, self.v);
      f(Field{"initial_state", Domain::state, {key_dim, value_dim}}.or_zero(), self.initial_state);
      f(Field{"initial_normalizer", Domain::normalizer, {key_dim}}.or_absent(), self.initial_normalizer);
    }
  };

  template <class S>
  using Outputs = ReadsStateAndNormalizer<S>;

  /// Whether answers print the final state as the sum of v k^T, [V, K]: where no state is carried, the case is one of
  /// lla-family.md section 7, which writes it so.
  template <class X>
  static bool prints_value_by_key(const BasicProblem<X>& problem) {
    return !problem.inputs.contains("initial_state");
  }

  template <class S>
  static void check(const Options& options, const Inputs<S>& in) {
    require_domain(in.eps() >= S(0), -1, "eps: expected a number >= 0");
    require_domain(options.normalizes() || in.initial_normalizer.empty(), -1,
                   "initial_normalizer: only normalization = features takes it");
  }

  /// z_0, zero if the problem has none.
  template <class S>
  static Tensor<S, 1> normalizer_of(const Inputs<S>& in) {
    return in.initial_normalizer.empty() ? Tensor<S, 1>(in.k.size(1)) : in.initial_normalizer;
  }

  /// The divisor of row t. A vanishing <q, z> is legal input: the result is not finite, and says so.
  template <class S>
  static S denominator(const Options& options, const Inputs<S>& in, int t, const Tensor<S, 1>& normalizer) {
    if (options.normalization == Normalization::none) return S(1);
    if (options.normalization == Normalization::count) return S(t + 1);
    S sum = S(0);
    for (int i = 0; i < in.k.size(1); ++i) sum += in.q(t, i) * normalizer(i);
    const S n = in.scale() * sum + in.eps();
    if (n == S(0)) throw Refusal(Status::nonfinite, t, text("o[", t, "]: the denominator scale q.z + eps is zero"));
    return n;
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
    Outputs<S> out{Tensor<S, 2>(T, V), in.initial_state, normalizer_of(in)};
    for (int t = 0; t < T; ++t) {
      for (int i = 0; i < K; ++i) out.final_normalizer(i) += in.k(t, i);
      for (int i = 0; i < K; ++i) {
        add_scaled(line(out.final_state, i), in.k(t, i), line(in.v, t));
        add_scaled(line(out.o, t), in.q(t, i), line(out.final_state, i));
      }
      const S factor = in.scale() / denominator(options, in, t, out.final_normalizer);
      for (int j = 0; j < V; ++j) out.o(t, j) *= factor;
    }
    if (!options.normalizes()) out.final_normalizer = {};
    return out;
  }
};

}  // namespace assay
