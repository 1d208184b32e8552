#pragma once
// Local linear attention, one query's derivatives: the centred form and the Sigma form (lla-family.md section 4), where
// every quadratic term is taken block by block (section 6).
#include <cmath>
#include <span>
#include <vector>

#include "reference/core/tensor.hpp"
#include "reference/errors/erring.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/dense.hpp"
#include "reference/families/lla_row.hpp"

namespace assay {

/// Derivatives at the level where a row's formulas end: by the scores s_ij, the offsets z_ij = k_j - q_i, and eps.
template <class S>
struct LlaRowGradients {
  std::vector<S> score;  // D_ij for j in [first, last), where the ridge on the sums over exp(s_ij) is constant
  Tensor<S, 2> offset;   // [keys, K]
  std::vector<S> ridge;  // [K]
  S euler = S(0);        // eps.deps: how far o depends on the ridge's scale
  S score_sum = S(0);    // sum_j D_ij
};

/// One row against its cotangent g = do_i.
template <class S>
class LlaRowBackward {
 public:
  LlaRowBackward(const LlaOptions& options, const LlaRow<S>& row, const Tensor<S, 2>& k, const Tensor<S, 2>& v,
                 std::span<const S> g)
      : options_(options),
        row_(row),
        keys_(row.last - row.first, k.size(1)),
        mean_a_(dot(g, std::span<const S>(row.mean_v))) {
    for (int j = row.first; j < row.last; ++j) {
      a_.push_back(dot(line(g), line(v, j)));
      p_.push_back(row.p(j));
      for (int x = 0; x < k.size(1); ++x) keys_(j - row.first, x) = k(j, x) - at(row.mean_k, x);
    }
    tilt_gradient_.assign(row.tilt.size(), S(0));
    // The keys are about their mean, so b drops out; kernels leave it in, and what their mean is off by is times b.
    const S about = errs<S>() ? S(0) : mean_a_;
    for (int j = 0; j < keys_.size(0); ++j)
      subtract_scaled(line(tilt_gradient_), S(at(p_, j) * (at(a_, j) - about)), line(keys_, j));
    output_ = mean_a_ + dot(row.tilt, tilt_gradient_);
  }

  LlaRowGradients<S> gradients(const S& tolerance) const {
    return options_.centred() ? centred(tolerance) : sigma(tolerance);
  }

  /// With kt = k - kbar, y the tilt, dy = -sum_j p_j (a_j - b) kt_j, x = (C + eps)^{-1} dy, b = g.vbar:
  ///   D_j  = p_j [a_j - g.o - (y.kt)(a_j - b) + x.kt - (x.kt)(y.kt) + x.zbar]
  ///   dz_j = p_j [x - (a_j - b) y - (y.kt) x - (x.kt) y],   deps = -x y
  LlaRowGradients<S> centred(const S& tolerance) const {
    const std::vector<S>& y = row_.tilt;
    std::vector<S> x = tilt_gradient_;
    lla_solve(options_, row_, tolerance, x);
    const S lift = dot(x, row_.offset);
    LlaRowGradients<S> d = blank();
    for (int j = 0; j < keys_.size(0); ++j) {
      const S p = at(p_, j), a = at(a_, j) - mean_a_;
      const std::vector<S> key = offsets(j, S(0));
      const std::vector<S> along_x = block_dots(x, key), along_y = block_dots(y, key);
      const S both = dot(along_x, along_y), of_x = dot(x, key), of_y = dot(y, key) * a;
      at(d.score, j) = p * (at(a_, j) - output_ - of_y + of_x - both + lift);
      for (int c = 0; c < keys_.size(1); ++c) {
        const S xy = at(along_x, block_of(c)) * at(y, c), yx = at(along_y, block_of(c)) * at(x, c);
        d.offset(j, c) = p * (at(x, c) - a * at(y, c) - yx - xy);
      }
    }
    for (std::size_t c = 0; c < x.size(); ++c) add_ridge(c, S(-x[c] * y[c]), d);
    d.score_sum = -d.euler;  // o depends on the scale of the weights and the ridge together
    return d;
  }

  /// With z = k - q, c_j = a_j p_j / delta, nu_j = 1 - z.rho, beta = g.o / delta, u = Sigma^{-1} sum_j c_j z_j,
  /// dmu = 2 beta rho - u:
  ///   D_j  = p_j [a_j nu_j / delta - beta + z.dmu + (z.u - beta z.rho)(z.rho)]
  ///   dz_j = p_j [dmu + u (z.rho) + rho (z.u) - 2 beta rho (z.rho)] - c_j rho,   deps = rho (u - beta rho)
  /// Conjugate gradients leave u, like rho, where the steps end: the derivative of the solution, not of the steps.
  LlaRowGradients<S> sigma(const S& tolerance) const {
    const std::vector<S>& rho = row_.probe;
    const S delta = row_.denominator, beta = output_ / delta;
    std::vector<S> u(rho.size(), S(0)), dmu(rho.size());
    for (int j = 0; j < keys_.size(0); ++j) {
      const std::vector<S> z = offsets(j, S(1));
      add_scaled(line(u), S(at(a_, j) * at(p_, j) / delta), line(z));
    }
    lla_solve(options_, row_, tolerance, u);
    for (std::size_t c = 0; c < u.size(); ++c) dmu[c] = S(2) * beta * rho[c] - u[c];
    LlaRowGradients<S> d = blank();
    for (int j = 0; j < keys_.size(0); ++j) {
      const S p = at(p_, j), a = at(a_, j) / delta;
      const std::vector<S> z = offsets(j, S(1));
      const std::vector<S> along_u = block_dots(u, z), along_rho = block_dots(rho, z);
      const S square = beta * dot(along_rho, along_rho), both = dot(along_u, along_rho), of_mu = dot(dmu, z);
      at(d.score, j) = p * (a * (S(1) - dot(rho, z)) - beta + of_mu + both - square);
      d.score_sum += at(d.score, j);
      for (int c = 0; c < keys_.size(1); ++c) {
        const S of_a = a * at(rho, c), along = at(along_rho, block_of(c)),
                of_rho = at(rho, c) * (at(along_u, block_of(c)) - S(2) * beta * along);
        d.offset(j, c) = p * (at(dmu, c) + at(u, c) * along + of_rho - of_a);
      }
    }
    for (std::size_t c = 0; c < u.size(); ++c) add_ridge(c, S(rho[c] * (u[c] - beta * rho[c])), d);
    return d;
  }

 private:
  template <class List>
  static auto& at(List& list, int x) {
    return list[static_cast<std::size_t>(x)];
  }
  LlaRowGradients<S> blank() const {
    return {std::vector<S>(a_.size(), S(0)), Tensor<S, 2>(keys_.extent), std::vector<S>(row_.ridge.size(), S(0)), S(0),
            S(0)};
  }
  /// A ridge that overflows has no slope.
  void add_ridge(std::size_t c, const S& slope, LlaRowGradients<S>& d) const {
    using std::isfinite;
    d.ridge[c] = slope;
    if (isfinite(row_.ridge[c])) d.euler += row_.ridge[c] * slope;
  }
  int block_of(int c) const { return c / (keys_.size(1) / options_.blocks); }

  /// kt_j + shift zbar: the centred key, or z_j for shift 1.
  std::vector<S> offsets(int j, const S& shift) const {
    std::vector<S> z;
    for (int c = 0; c < keys_.size(1); ++c) z.push_back(keys_(j, c) + shift * at(row_.offset, c));
    return z;
  }
  /// a.b in every block.
  std::vector<S> block_dots(const std::vector<S>& a, const std::vector<S>& b) const {
    std::vector<S> dots(static_cast<std::size_t>(options_.blocks), S(0));
    for (std::size_t c = 0; c < a.size(); ++c) at(dots, block_of(static_cast<int>(c))) += a[c] * b[c];
    return dots;
  }

  const LlaOptions& options_;
  const LlaRow<S>& row_;
  Tensor<S, 2> keys_;             // k_j - kbar
  std::vector<S> a_, p_;          // g.v_j and the weights
  std::vector<S> tilt_gradient_;  // dy = -X^T g
  S mean_a_, output_ = S(0);      // g.vbar, g.o
};

}  // namespace assay
