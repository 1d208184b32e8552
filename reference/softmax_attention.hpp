#pragma once
// Softmax attention, one head (lla-family.md sections 0 and 1):
//   s_ij = q_i.k_j / h,   p_ij = exp(s_ij - m_i) / sum_j exp(s_ij - m_i),   o_i = sum_j p_ij v_j
// over the visible keys J_i: causal masks are end-aligned, a window keeps the newest B keys.
#include <string_view>

#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/visible.hpp"

namespace assay {

struct softmax_attention {
  static constexpr std::string_view name = "softmax_attention";
  static constexpr std::string_view summary = "softmax(q k^T / h) v, causal or not, with a sliding window";

  using Options = VisibleOptions;

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> bandwidth;  // h > 0
    Tensor<S, 2> q, k, v;    // [Tq, K], [T, K], [T, V]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"bandwidth", Domain::bandwidth}.param().shared(), self.bandwidth);
      f(Field{"q", Domain::query, {query_len, key_dim}}, self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}.shared(), self.v);
    }
  };

  template <class S>
  using Outputs = QueryReads<S>;

  /// Per-row caches: m_i, omega'_i, lse_i and vbar_i. An empty row has m = lse = -inf and zeros.
  template <class S>
  struct Caches {
    Tensor<S, 1> row_max, row_sum, lse;
    Tensor<S, 2> mean_v;

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      f("rows.row_max", self.row_max), f("rows.row_sum", self.row_sum), f("rows.lse", self.lse);
      f("rows.mean_v", self.mean_v);
    }
  };

  template <class S>
  static void check(const Options& options, const Inputs<S>& in) {
    check_visible(options, in.bandwidth());
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    return {caches(options, in).mean_v};
  }

  template <class S>
  static Caches<S> caches(const Options& options, const Inputs<S>& in) {
    const int n = in.q.size(0), V = in.v.size(1);
    Caches<S> c{Tensor<S, 1>(n), Tensor<S, 1>(n), Tensor<S, 1>(n), Tensor<S, 2>(n, V)};
    for (int i = 0; i < n; ++i) {
      const VisibleRow<S> row = visible_row(options, in.q, in.k, in.bandwidth(), i);
      c.row_max(i) = row.max, c.row_sum(i) = row.sum;
      c.lse(i) = row.lse();
      for (int j = row.first; j < row.last; ++j) add_scaled(line(c.mean_v, i), row.p(j), line(in.v, j));
    }
    return c;
  }
};

}  // namespace assay
