#pragma once
// Diagnostics of Parallax's sources beside the output (lla-family.md section 8), per row, in any scalar.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "oracles/scalars/scalar.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/carried_error.hpp"
#include "reference/families/dense.hpp"
#include "reference/parallax.hpp"

namespace assay {

/// Undefined values are NaN: a ratio whose denominator vanishes, an extremum over no keys, corr_norm without full rank.
/// `score` holds s_ij, zero before the window and NaN after the last visible key.
template <class S>
struct ParallaxDiagnostics {
  Tensor<S, 1> cor, corr_norm, cpa, probe_norm, score_min, score_max, sink_softmax, sink, entropy, density;
  Tensor<S, 2> score;

  template <class Self, class F>
  static void each(Self& self, F&& f) {
    f("diagnostics.cor", self.cor), f("diagnostics.corr_norm", self.corr_norm), f("diagnostics.cpa", self.cpa);
    f("diagnostics.probe_norm", self.probe_norm);
    f("diagnostics.score_min", self.score_min), f("diagnostics.score_max", self.score_max);
    f("diagnostics.sink_softmax", self.sink_softmax), f("diagnostics.sink", self.sink);
    f("diagnostics.entropy", self.entropy), f("diagnostics.density", self.density);
    f("score", self.score);
  }
};

namespace detail {

/// Bounds the relative error of one operation: what decides whether a computed number is distinguishable from zero.
template <class S>
S operation_error() {
  if constexpr (Enclosure<S>)  // which knows its own
    return S(0);
  else
    return S(std::numeric_limits<S>::epsilon());
}

/// a > b, or of enclosures that cannot tell.
template <class S>
bool may_be_larger(const S& a, const S& b) {
  return is_larger(a, b).value_or(true);
}

/// The Cholesky factor of a covariance in its lower triangle; false without full rank. `noise[i]` is what rounding
/// alone may leave on the diagonal.
template <class S>
bool cholesky(Tensor<S, 2>& a, const std::vector<S>& noise) {
  using std::sqrt;
  for (int j = 0; j < a.size(0); ++j) {
    for (int x = 0; x < j; ++x) a(j, j) -= a(j, x) * a(j, x);
    if (!may_be_larger(a(j, j), noise[static_cast<std::size_t>(j)])) return false;
    a(j, j) = sqrt(a(j, j));
    for (int i = j + 1; i < a.size(0); ++i) {
      for (int x = 0; x < j; ++x) a(i, j) -= a(i, x) * a(j, x);
      a(i, j) /= a(j, j);
    }
  }
  return true;
}

/// Whether rows [first, last) are known to be the same numbers.
template <class S>
bool are_equal(const Tensor<S, 2>& rows, int first, int last) {
  for (int j = first + 1; j < last; ++j)
    for (int x = 0; x < rows.size(1); ++x)
      if (may_be_larger(rows(j, x), rows(first, x)) || may_be_larger(rows(first, x), rows(j, x))) return false;
  return true;
}

/// Weighted second moments of one row's visible pairs, centred, and the sizes that their rounding errors are
/// relative to: E |v_a|^2 and E |k_a|^2.
template <class S>
struct RowMoments {
  Tensor<S, 2> cross, cov_k, cov_v;  // X [V, K], [K, K], [V, V]
  std::vector<S> square_k, square_v;

  RowMoments(const parallax::Row<S>& row, const parallax::Inputs<S>& in)
      : cross(in.v.size(1), in.k.size(1)),
        cov_k(in.k.size(1), in.k.size(1)),
        cov_v(in.v.size(1), in.v.size(1)),
        square_k(row.mean_k.size(), S(0)),
        square_v(row.mean_v.size(), S(0)) {
    const int K = in.k.size(1), V = in.v.size(1);
    std::vector<S> k(row.mean_k.size()), v(row.mean_v.size());
    // Then each is the mean, which no rounding shows.
    const bool equal_k = are_equal(in.k, row.first, row.last), equal_v = are_equal(in.v, row.first, row.last);
    for (int j = row.first; j < row.last; ++j) {
      const S p = row.p(j);
      const auto centre = [&](int n, const Tensor<S, 2>& from, bool equal, const std::vector<S>& mean,
                              std::vector<S>& to, std::vector<S>& square) {
        for (int x = 0; x < n; ++x) {
          const auto at = static_cast<std::size_t>(x);
          to[at] = equal ? S(0) : from(j, x) - mean[at];
          square[at] += p * from(j, x) * from(j, x);
        }
      };
      centre(K, in.k, equal_k, row.mean_k, k, square_k);
      centre(V, in.v, equal_v, row.mean_v, v, square_v);
      const auto add = [&p](Tensor<S, 2>& into, const std::vector<S>& a, const std::vector<S>& b) {
        for (int x = 0; x < into.size(0); ++x)
          for (int y = 0; y < into.size(1); ++y)
            into(x, y) += p * a[static_cast<std::size_t>(x)] * b[static_cast<std::size_t>(y)];
      };
      add(cross, v, k), add(cov_k, k, k), add(cov_v, v, v);
    }
  }
};

/// One or zero; both, where an enclosure cannot tell.
template <class S>
S count_of(std::optional<bool> yes) {
  if constexpr (Enclosure<S>)
    if (!yes) return S(0.5).widened(size_of(S(0.5)));
  return S(yes == true ? 1 : 0);
}

template <class S>
S sum_of(const std::vector<S>& terms) {
  S sum = S(0);
  for (const S& x : terms) sum += x;
  return sum;
}

/// |X|_2.
template <class S>
S spectral_norm(const Tensor<S, 2>& X) {
  using std::sqrt;
  const bool wide = X.size(0) <= X.size(1);
  const int n = wide ? X.size(0) : X.size(1), inner = wide ? X.size(1) : X.size(0);
  Tensor<S, 2> gram(n, n);
  for (int a = 0; a < n; ++a)
    for (int b = 0; b < n; ++b)
      for (int x = 0; x < inner; ++x) gram(a, b) += wide ? X(a, x) * X(b, x) : X(x, a) * X(x, b);
  return n > 0 ? S(sqrt(largest_eigenpair(std::move(gram)).value)) : S(0);
}

/// |Cov_v^{-1/2} X Cov_k^{-1/2}|_F = |L_v^{-1} X L_k^{-T}|_F, or NaN without full rank. `terms` operations went into a
/// moment.
template <class S>
S correlation_norm(RowMoments<S> m, int keys, const S& terms) {
  using std::sqrt;
  const int V = m.cross.size(0), K = m.cross.size(1);
  const auto noise = [&](std::vector<S> square) {
    for (S& x : square) x *= terms * operation_error<S>();
    return square;
  };
  if (keys < std::max(K, V) + 1 || !cholesky(m.cov_k, noise(m.square_k)) || !cholesky(m.cov_v, noise(m.square_v)))
    return S(std::numeric_limits<double>::quiet_NaN());
  Tensor<S, 2>& Y = m.cross;
  S sum = S(0);
  for (int a = 0; a < V; ++a)
    for (int b = 0; b < K; ++b) {
      for (int x = 0; x < b; ++x) Y(a, b) -= Y(a, x) * m.cov_k(b, x);
      Y(a, b) /= m.cov_k(b, b);
    }
  for (int b = 0; b < K; ++b)
    for (int a = 0; a < V; ++a) {
      for (int x = 0; x < a; ++x) Y(a, b) -= m.cov_v(a, x) * Y(x, b);
      Y(a, b) /= m.cov_v(a, a);
      sum += Y(a, b) * Y(a, b);
    }
  return sqrt(sum);
}

}  // namespace detail

/// lla-family.md section 8, with p the softmax weights and score_ij = p_ij (1 + tbar_i - t_ij):
///   cor = |X rho| / |vbar|,  cpa = |X rho| / (|rho| |X|_2),  corr_norm = |Cov_v^{-1/2} X Cov_k^{-1/2}|_F,
///   sink_softmax = p_i1,  sink = score_i1^2 / sum_j score_ij^2,  entropy = -sum_j p_ij ln p_ij (0 without keys),
///   density = #{j: |score_ij| > 1/10}.
template <class S>
ParallaxDiagnostics<S> diagnostics(const parallax::Options& options, const parallax::Inputs<S>& in) {
  using std::abs, std::log, std::sqrt;
  const int n = in.q.size(0), T = in.k.size(0), K = in.k.size(1), V = in.v.size(1);
  const S undefined(std::numeric_limits<double>::quiet_NaN());
  const Tensor<S, 1> rows(n);
  ParallaxDiagnostics<S> d{rows, rows, rows, rows, rows, rows, rows, rows, rows, rows, Tensor<S, 2>(n, T)};
  for (int i = 0; i < n; ++i) {
    const parallax::Row<S> row = parallax::row_of(options, in, i);
    const detail::RowMoments<S> moments(row, in);
    const int keys = row.last - row.first;
    // Sums over the keys of products of a few rounded numbers, then over dimensions.
    const S terms(8 * (keys + K + V));
    const S size_k = detail::sum_of(moments.square_k), size_v = detail::sum_of(moments.square_v);
    // a / b, undefined where b is no more than `noise`; of enclosures that cannot tell, nothing is known.
    const auto over = [&](const S& a, const S& b, const S& noise) {
      return detail::may_be_larger(b, noise) ? S(a / b) : undefined;
    };

    S shift = S(0), mean = S(0), rho = S(0);
    for (int x = 0; x < V; ++x) {
      S along = S(0);
      for (int y = 0; y < K; ++y) along += moments.cross(x, y) * in.rho(i, y);
      shift += along * along;
      mean += row.mean_v[static_cast<std::size_t>(x)] * row.mean_v[static_cast<std::size_t>(x)];
    }
    for (int y = 0; y < K; ++y) rho += in.rho(i, y) * in.rho(i, y);
    shift = sqrt(shift), mean = sqrt(mean), rho = sqrt(rho);
    const S spectral = detail::spectral_norm(moments.cross);
    d.probe_norm(i) = rho;
    const S noise = terms * detail::operation_error<S>();
    d.cor(i) = over(shift, mean, noise * sqrt(size_v));
    d.cpa(i) = over(shift, rho * spectral, rho * noise * sqrt(size_k * size_v));
    d.corr_norm(i) = detail::correlation_norm(moments, keys, terms);

    d.score_min(i) = d.score_max(i) = undefined;
    for (int j = row.last; j < T; ++j) d.score(i, j) = undefined;
    S squares = S(0);
    for (int j = row.first; j < row.last; ++j) {
      const S p = row.p(j), score = p * (S(1) + row.mean_t - row.t(j));
      d.score(i, j) = score;
      squares += score * score;
      d.score_min(i) = j == row.first ? score : S(-larger(S(-d.score_min(i)), S(-score)));
      d.score_max(i) = j == row.first ? score : larger(d.score_max(i), score);
      // -ln p without the cancellation in lse - s; a weight that underflows adds 0 ln 0 = 0.
      if (detail::may_be_larger(p, S(0))) d.entropy(i) += p * (log(row.sum) + (row.max - row.s(j)));
      d.density(i) += detail::count_of<S>(is_larger(S(abs(score)), S(S(1) / S(10))));
    }
    if (row.first == 0 && keys > 0) {
      d.sink_softmax(i) = row.p(0);
      d.sink(i) = d.score(i, 0) * d.score(i, 0) / squares;
    }
  }
  return d;
}

}  // namespace assay
