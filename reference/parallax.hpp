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
#include "reference/errors/left_over.hpp"
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
      S left = S(0);
      for (int j = row.first; j < row.last; ++j) {
        const S tilt = row.t(j) - row.mean_t, tilted = row.p(j) * tilt;
        for (std::size_t x = 0; x < centred.size(); ++x) centred[x] = in.v(j, static_cast<int>(x)) - row.mean_v[x];
        subtract_scaled(line(out.o, i), tilted, line(centred));
        left -= tilted;
      }
      add_left_over(line(out.o, i), left, line(row.mean_v));
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

  /// With a_ij = g_i.v_j, tau_i = g_i.o_i, b_i = g_i.vbar_i (spec section 2, "Gradients"):
  ///   D_ij = p_ij [a_ij - tau_i + (tbar_i - t_ij)(a_ij - b_i)] / h,  E_ij = -p_ij (a_ij - b_i)
  ///   dq_i = sum_j D_ij k_j,  drho_i = sum_j E_ij k_j,  dk_j = sum_i D_ij q_i + E_ij rho_i
  ///   dv_j = sum_i p_ij (1 + tbar_i - t_ij) g_i,  dh = -sum_ij D_ij s_ij
  /// The rows of D and E sum to zero, so k_j - kbar_i stands in for k_j in dq and drho, and s_ij - m_i for s_ij in dh:
  /// less cancels.
  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    const int n = in.q.size(0);
    const S h = in.bandwidth();
    Inputs<S> d{{},
                Tensor<S, 2>(in.q.extent),
                Tensor<S, 2>(in.k.extent),
                Tensor<S, 2>(in.v.extent),
                Tensor<S, 2>(in.rho.extent)};
    const Outputs<S> out = forward(options, in);
    for (int i = 0; i < n; ++i) {
      const Row<S> row = row_of(options, in, i);
      const Line<const S> g = line(cotangent.o, i);
      const S tau = dot(g, line(out.o, i)), b = dot(g, line(row.mean_v));
      std::vector<S> centred(row.mean_k.size());
      S left_of_D = S(0), left_of_E = S(0);
      for (int j = row.first; j < row.last; ++j) {
        const S a = dot(g, line(in.v, j));
        const S p = row.p(j), tilt = row.mean_t - row.t(j);
        const S along = tilt * (a - b), D = p * (a - tau + along) / h;
        const S E = -p * (a - b);
        for (std::size_t x = 0; x < centred.size(); ++x) centred[x] = in.k(j, static_cast<int>(x)) - row.mean_k[x];
        add_scaled(line(d.q, i), D, line(centred));
        add_scaled(line(d.rho, i), E, line(centred));
        add_scaled(line(d.k, j), D, line(in.q, i));
        add_scaled(line(d.k, j), E, line(in.rho, i));
        add_scaled(line(d.v, j), S(p * (S(1) + tilt)), g);
        d.bandwidth() -= D * (row.s(j) - row.centre());
        left_of_D += D, left_of_E += E;
      }
      add_left_over(line(d.q, i), left_of_D, line(row.mean_k));
      add_left_over(line(d.rho, i), left_of_E, line(row.mean_k));
      row.add_left_over(d.bandwidth(), S(-left_of_D));
    }
    return d;
  }
};

}  // namespace assay
