#pragma once
// Local linear attention, one head (lla-family.md sections 3 to 6): softmax attention corrected to the local line
// through the keys at the query. With p the softmax weights over the visible keys, kbar, vbar their means, C and X the
// covariances of k with k and of v with k, zbar = kbar - q:
//   o_i = vbar_i - X_i y_i,   y_i = (C_i + eps_i)^{-1} zbar_i,   eps_i = lambda_i, in the unit of lambda_mode
// This is the intercept at q_i of the ridge regression of v on k. The same in the Sigma form:
//   Sigma = C + eps + zbar zbar^T,   rho* = Sigma^{-1} zbar,   o = vbar - X rho* / (1 - rho*.zbar)
// solver = cg takes `iterations` steps towards rho*, and block_form = sigma with blocks > 1 keeps the diagonal blocks
// of Sigma; block_form = centered keeps those of C. Without a ridge C must be nonsingular; or else, under lambda0 =
// limit, o is vbar - X C^+ zbar, what it tends to as the ridge vanishes, and has no gradient.
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "reference/core/field.hpp"
#include "reference/core/problem.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/left_over.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/lla_gradients.hpp"
#include "reference/families/lla_row.hpp"
#include "reference/families/ridge.hpp"

namespace assay {

struct lla {
  static constexpr std::string_view name = "lla";
  static constexpr std::string_view summary =
      "local linear attention: the intercept at q of a weighted ridge regression";

  using Options = LlaOptions;

  template <class S>
  struct Inputs {
    using scalar = S;
    Tensor<S, 0> bandwidth;  // h > 0
    Tensor<S, 0>
        tolerance;         // on the residual's 2-norm, where the weights are exp(s_ij - m_i); conjugate gradients only
    Tensor<S, 2> q, k, v;  // [Tq, K], [T, K], [T, V]
    Tensor<S, 2> lambda;   // ridge: a number, [Tq] or [Tq, K]

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      using enum Axis;
      f(Field{"bandwidth", Domain::bandwidth}.param().shared(), self.bandwidth);
      f(Field{"tolerance", Domain::regularizer}.param().or_zero().constant().unchecked(), self.tolerance);
      f(Field{"q", Domain::query, {query_len, key_dim}}, self.q);
      f(Field{"k", Domain::key, {seq_len, key_dim}}.shared(), self.k);
      f(Field{"v", Domain::value, {seq_len, value_dim}}.shared(), self.v);
      f(Field{"lambda", Domain::ridge, {query_len, key_dim}}.broadcast().unchecked(), self.lambda);
    }
  };

  template <class S>
  using Outputs = QueryReads<S>;

  /// Per row: m, omega', rho*, delta' (in units of exp(s - m)), eta, tbar = rho*.zbar, vbar, and the steps of conjugate
  /// gradients (undefined if solved directly).
  template <class S>
  struct Caches {
    Tensor<S, 1> row_max, row_sum, denominator, boundary, mean_t, iterations;
    Tensor<S, 2> probe, mean_v;

    template <class Self, class F>
    static void each(Self& self, F&& f) {
      f("rows.row_max", self.row_max), f("rows.row_sum", self.row_sum);
      f("rows.probe", self.probe), f("rows.denominator", self.denominator), f("rows.boundary", self.boundary);
      f("rows.mean_t", self.mean_t), f("rows.mean_v", self.mean_v), f("rows.iterations", self.iterations);
    }
  };

  /// Conjugate gradients are not in the language, nor limits.
  static bool is_modelled_by_program(const Options& options) {
    return options.solver == Options::Solver::direct && !options.takes_limit();
  }

  template <class S>
  static void check(const Options& options, const Inputs<S>& in) {
    using std::isfinite;
    check_visible(options, in.bandwidth());
    check_ridge(in.lambda);
    const int K = in.k.size(1);
    require_domain(options.blocks >= 1 && K % options.blocks == 0, -1, "blocks: ", options.blocks,
                   " do not divide K = ", K);
    if (options.solver == Options::Solver::cg) {
      require_domain(options.has_iterations, -1, "iterations: solver cg needs it");
      require_domain(options.iterations >= 0 && options.iterations <= Options::most_iterations, -1,
                     "iterations: expected 0 to ", Options::most_iterations, ", got ", options.iterations);
      require_domain(isfinite(in.tolerance()) && in.tolerance() >= S(0), -1,
                     "tolerance: expected a finite number >= 0");
      require_domain(options.blocks == 1 || options.block_form == Options::BlockForm::sigma, -1,
                     "block_form: solver cg solves the sigma form");
    }
    if (has_zero_ridge(in.lambda) && !options.takes_limit()) check_span(options, in);
  }

  /// Refuses (SINGULAR) a row whose system is singular: C needs keys that span the coordinates without ridge affinely,
  /// a block of Sigma offsets z that span them.
  template <class S>
  static void check_span(const Options& options, const Inputs<S>& in) {
    const Residues keys = residues_of(in.k), queries = residues_of(in.q);
    const int n = in.q.size(0), T = in.k.size(0), size = in.k.size(1) / options.blocks;
    const bool affine = options.blocks == 1 || options.block_form == Options::BlockForm::centered;
    for (int i = 0; i < n; ++i) {
      const VisibleRange visible = visible_range(options, n, T, i);
      for (int b = 0; b < options.blocks && visible.first < visible.last; ++b) {
        const std::vector<int> bare = without_ridge(in.lambda, i, b * size, (b + 1) * size);
        const int rank = affine ? exact_rank(keys, visible.first, visible.last, keys, visible.first, bare)
                                : exact_rank(keys, visible.first, visible.last, queries, i, bare);
        require_spanned(i, rank, bare, affine ? "the first" : "q");
      }
    }
  }

  template <class S>
  static LlaRow<S> row_of(const Options& options, const Inputs<S>& in, int i) {
    LlaRow<S> row = lla_row(options, in.q, in.k, in.v, in.lambda, in.bandwidth(), i);
    if (options.takes_limit())
      lla_solve_limit(options, in.k, in.lambda, row, i);
    else
      lla_solve_row(options, in.tolerance(), row, i);
    return row;
  }

  template <class S>
  static Outputs<S> forward(const Options& options, const Inputs<S>& in) {
    const int n = in.q.size(0), V = in.v.size(1);
    Outputs<S> out{Tensor<S, 2>(n, V)};
    for (int i = 0; i < n; ++i) {
      const LlaRow<S> row = row_of(options, in, i);
      for (int x = 0; x < V; ++x) out.o(i, x) = row.mean_v[static_cast<std::size_t>(x)];
      std::vector<S> key(row.mean_k.size()), value(row.mean_v.size());
      S left = S(0);
      for (int j = row.first; j < row.last; ++j) {
        for (std::size_t x = 0; x < key.size(); ++x) key[x] = in.k(j, static_cast<int>(x)) - row.mean_k[x];
        for (std::size_t x = 0; x < value.size(); ++x) value[x] = in.v(j, static_cast<int>(x)) - row.mean_v[x];
        const S along = dot(row.tilt, key), tilted = row.p(j) * along;
        subtract_scaled(line(out.o, i), tilted, line(value));
        left -= tilted;
      }
      add_left_over(line(out.o, i), left, line(row.mean_v));
    }
    return out;
  }

  template <class S>
  static Caches<S> caches(const Options& options, const Inputs<S>& in) {
    const int n = in.q.size(0), K = in.k.size(1), V = in.v.size(1);
    const Tensor<S, 1> rows(n);
    Caches<S> c{rows, rows, rows, rows, rows, rows, Tensor<S, 2>(n, K), Tensor<S, 2>(n, V)};
    for (int i = 0; i < n; ++i) {
      const LlaRow<S> row = row_of(options, in, i);
      c.row_max(i) = row.max, c.row_sum(i) = row.sum;
      c.denominator(i) = row.sum * row.denominator;
      c.boundary(i) = row.boundary, c.mean_t(i) = row.mean_t;
      for (int x = 0; x < K; ++x) c.probe(i, x) = row.probe[static_cast<std::size_t>(x)];
      for (int x = 0; x < V; ++x) c.mean_v(i, x) = row.mean_v[static_cast<std::size_t>(x)];
      c.iterations(i) =
          options.solver == Options::Solver::cg ? row.iterations : S(std::numeric_limits<double>::quiet_NaN());
    }
    return c;
  }

  /// A row's derivatives by its scores s, offsets z and ridge eps (lla_gradients.hpp), and from there, with e =
  /// eps.deps:
  ///   D_ij += p_ij e (mass), e at the first largest score alone (max)
  ///   dq_i = sum_j D_ij k_j / h - dz_ij,  dk_j = sum_i D_ij q_i / h + dz_ij,  dh = -sum_ij D_ij s_ij / h
  ///   dv_j = sum_i p_ij (1 - y_i.(k_j - kbar_i)) do_i,   dlambda_i = deps_i d eps / d lambda
  /// For conjugate gradients it is the derivative of the solution, at the probe reached, with a second solve as long.
  template <class S>
  static Inputs<S> backward(const Options& options, const Inputs<S>& in, const Outputs<S>& cotangent) {
    if (options.takes_limit() && has_zero_ridge(in.lambda)) check_span(options, in);
    Inputs<S> d{{},
                {},
                Tensor<S, 2>(in.q.extent),
                Tensor<S, 2>(in.k.extent),
                Tensor<S, 2>(in.v.extent),
                Tensor<S, 2>(in.lambda.extent)};
    const auto V = static_cast<std::size_t>(in.v.size(1));
    for (int i = 0; i < in.q.size(0); ++i) {
      const LlaRow<S> row = row_of(options, in, i);
      if (row.first == row.last) continue;
      const std::span<const S> g = std::span<const S>(cotangent.o.data).subspan(static_cast<std::size_t>(i) * V, V);
      LlaRowGradients<S> of_row = LlaRowBackward<S>(options, row, in.k, in.v, g).gradients(in.tolerance());
      add_ridge(options, row, i, of_row, d);
      add_scores_and_offsets(in, row, i, of_row, d);
      add_values(in, row, g, d);
    }
    return d;
  }

  /// dlambda, and what the ridge's own unit adds to the scores. A unit that overflows makes lambda's slope zero.
  template <class S>
  static void add_ridge(const Options& options, const LlaRow<S>& row, int i, LlaRowGradients<S>& of_row, Inputs<S>& d) {
    using std::isfinite;
    for (int x = 0; x < static_cast<int>(row.ridge.size()) && isfinite(row.ridge_unit); ++x)
      broadcast_at(d.lambda, i, x) += row.ridge_unit * of_row.ridge[static_cast<std::size_t>(x)];
    if (options.lambda_mode == Options::LambdaMode::absolute) return;
    const bool mass = options.lambda_mode == Options::LambdaMode::mass;
    const S e = of_row.euler;
    of_row.score_sum += e;
    // Where masses count, no score is compared: heads that differ in the largest stay together.
    int largest = row.first;
    for (int j = row.first; j < row.last; ++j)
      if (mass)
        of_row.score[static_cast<std::size_t>(j - row.first)] += row.p(j) * e;
      else if (j > row.first && row.s(j) > row.s(largest))
        largest = j;
    if (!mass) of_row.score[static_cast<std::size_t>(largest - row.first)] += e;
  }

  /// The rows of D have a known sum, so k_j - kbar_i stands in for k_j in dq and s_ij - m_i for s_ij in dh: less
  /// cancels.
  template <class S>
  static void add_scores_and_offsets(const Inputs<S>& in, const LlaRow<S>& row, int i, const LlaRowGradients<S>& of_row,
                                     Inputs<S>& d) {
    const S h = in.bandwidth();
    add_scaled(line(d.q, i), S(of_row.score_sum / h), line(row.mean_k));
    std::vector<S> centred(row.mean_k.size());
    d.bandwidth() -= of_row.score_sum / h * row.max;
    S left = -of_row.score_sum / h;
    for (int j = row.first; j < row.last; ++j) {
      const S D = of_row.score[static_cast<std::size_t>(j - row.first)] / h;
      for (std::size_t x = 0; x < centred.size(); ++x) centred[x] = in.k(j, static_cast<int>(x)) - row.mean_k[x];
      add_scaled(line(d.q, i), D, line(centred));
      add_scaled(line(d.q, i), S(-1), line(of_row.offset, j - row.first));
      add_scaled(line(d.k, j), D, line(in.q, i));
      add_scaled(line(d.k, j), S(1), line(of_row.offset, j - row.first));
      d.bandwidth() -= D * (row.s(j) - row.max);
      left += D;
    }
    add_left_over(line(d.q, i), left, line(row.mean_k));
  }

  template <class S>
  static void add_values(const Inputs<S>& in, const LlaRow<S>& row, std::span<const S> g, Inputs<S>& d) {
    std::vector<S> key(row.mean_k.size());
    for (int j = row.first; j < row.last; ++j) {
      for (std::size_t x = 0; x < key.size(); ++x) key[x] = in.k(j, static_cast<int>(x)) - row.mean_k[x];
      const S less = S(1) - dot(row.tilt, key);
      add_scaled(line(d.v, j), S(row.p(j) * less), line(g));
    }
  }
};

}  // namespace assay
