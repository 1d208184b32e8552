#pragma once
// Parallax, one head (lla-family.md section 2): softmax attention corrected along a probe rho_i per query,
//   o_i = vbar_i - Cov_p(v, k) rho_i = sum_j p_ij (1 + tbar_i - t_ij) v_j,   t_ij = rho_i.k_j,  tbar_i = sum_j p_ij
//   t_ij
// The covariance form is the reference: it does not cancel when |kbar.rho| is large.
#include <string_view>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/visible.hpp"

namespace assay {

struct parallax {
  static constexpr std::string_view name = "parallax";
  static constexpr std::string_view summary = "softmax attention minus the value-key covariance along a probe";

  using Options = VisibleOptions;

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> bandwidth;     // h > 0
    Tensor<S, 2> q, k, v, rho;  // [Tq, K], [T, K], [T, V], [Tq, K]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"bandwidth", Domain::bandwidth}.param().shared(), self.bandwidth);
      f(Field{"q", Domain::query, {query_len, key_dim}}, self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}.shared(), self.v);
      f(Field{"rho", Domain::probe, {query_len, key_dim}}, self.rho);
    }
  };

  template <class S>
  using Outputs = QueryReads<S>;

  /// Per-row caches: those of softmax attention and tbar_i = rho_i.kbar_i.
  template <class S>
  struct Caches {
    Tensor<S, 1> row_max, row_sum, lse, mean_t;
    Tensor<S, 2> mean_v;

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      f("rows.row_max", self.row_max), f("rows.row_sum", self.row_sum), f("rows.lse", self.lse);
      f("rows.mean_t", self.mean_t), f("rows.mean_v", self.mean_v);
    }
  };

  template <class S>
  static void check(const Options& options, const Inputs<S>& in) {
    check_visible(options, in.bandwidth());
  }

  /// One query's row: weights, t_ij, and the means under p.
  template <class S>
  struct Row : VisibleRow<S> {
    std::vector<S> probe;  // t_ij for j in [first, last)
    std::vector<S> mean_v, mean_k;
    S mean_t = S(0);
    S t(int j) const { return probe[static_cast<std::size_t>(j - this->first)]; }
  };

  template <class S>
  static Row<S> row_of(const Options& options, const Inputs<S>& in, int i) {
    const int K = in.k.size(1), V = in.v.size(1);
    Row<S> row{visible_row(options, in.q, in.k, in.bandwidth(), i), {}, {}, {}, S(0)};
    row.mean_v.assign(static_cast<std::size_t>(V), S(0));
    row.mean_k.assign(static_cast<std::size_t>(K), S(0));
    for (int j = row.first; j < row.last; ++j) {
      row.probe.push_back(dot(line(in.rho, i), line(in.k, j)));
      const S p = row.p(j);
      row.mean_t += p * row.probe.back();
      add_scaled(line(row.mean_v), p, line(in.v, j));
      add_scaled(line(row.mean_k), p, line(in.k, j));
    }
    return row;
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int n = in.q.size(0), V = in.v.size(1);
    Outputs<S> out{Tensor<S, 2>(n, V)};
    for (int i = 0; i < n; ++i) {
      const Row<S> row = row_of(options, in, i);
      for (int x = 0; x < V; ++x) out.o(i, x) = row.mean_v[static_cast<std::size_t>(x)];
      std::vector<S> centred(row.mean_v.size());
      for (int j = row.first; j < row.last; ++j) {
        const S tilted = row.p(j) * (row.t(j) - row.mean_t);
        for (std::size_t x = 0; x < centred.size(); ++x) centred[x] = in.v(j, static_cast<int>(x)) - row.mean_v[x];
        subtract_scaled(line(out.o, i), tilted, line(centred));
      }
    }
    return out;
  }

  template <class S>
  static Caches<S> caches(const Options& options, const Inputs<S>& in) {
    const int n = in.q.size(0), V = in.v.size(1);
    Caches<S> c{Tensor<S, 1>(n), Tensor<S, 1>(n), Tensor<S, 1>(n), Tensor<S, 1>(n), Tensor<S, 2>(n, V)};
    for (int i = 0; i < n; ++i) {
      const Row<S> row = row_of(options, in, i);
      c.row_max(i) = row.max, c.row_sum(i) = row.sum, c.mean_t(i) = row.mean_t;
      c.lse(i) = row.lse();
      for (int x = 0; x < V; ++x) c.mean_v(i, x) = row.mean_v[static_cast<std::size_t>(x)];
    }
    return c;
  }
};

}  // namespace assay
