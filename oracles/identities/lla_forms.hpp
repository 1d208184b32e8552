#pragma once
// Local linear attention and its relatives in forms that share nothing with the references: raw moments, Gaussian
// elimination, unshifted weights (lla-family.md sections 0, 3 and 7). In 200 digits their cancellation costs nothing.
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "oracles/identities/exact_problem.hpp"
#include "oracles/identities/matrix.hpp"
#include "reference/core/error.hpp"

namespace assay::identities::local_linear {

inline Vector operator+(Vector a, const Vector& b) {
  require(a.size() == b.size(), "vectors of ", a.size(), " and ", b.size(), " numbers have no sum");
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}
inline Vector operator-(const Vector& a, const Vector& b) { return difference(a, b); }
inline Vector operator-(const Vector& a) { return scaled(a, -1); }
inline Vector operator*(const Mp200& x, const Vector& a) { return scaled(a, x); }
inline Mp200 dot(const Vector& a, const Vector& b) {
  Mp200 sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline Vector operator*(const Matrix& a, const Vector& x) {
  Vector y;
  for (int i = 0; i < a.rows; ++i) y.push_back(dot(a.row(i), x));
  return y;
}
inline Matrix outer(const Vector& a, const Vector& b) {
  Matrix m(static_cast<int>(a.size()), static_cast<int>(b.size()));
  for (int i = 0; i < m.rows; ++i)
    for (int j = 0; j < m.cols; ++j) m(i, j) = a[static_cast<std::size_t>(i)] * b[static_cast<std::size_t>(j)];
  return m;
}

/// a^{-1} x by elimination with pivots; `a` need not be symmetric.
inline Vector solve(Matrix a, Vector x) {
  const int n = a.rows;
  const auto at = [&x](int i) -> Mp200& { return x[static_cast<std::size_t>(i)]; };
  for (int c = 0; c < n; ++c) {
    int pivot = c;
    for (int i = c + 1; i < n; ++i)
      if (abs(a(i, c)) > abs(a(pivot, c))) pivot = i;
    for (int j = 0; j < n; ++j) std::swap(a(c, j), a(pivot, j));
    std::swap(at(c), at(pivot));
    for (int i = 0; i < n; ++i) {
      if (i == c) continue;
      const Mp200 factor = a(i, c) / a(c, c);
      for (int j = c; j < n; ++j) a(i, j) -= factor * a(c, j);
      at(i) -= factor * at(c);
    }
  }
  for (int i = 0; i < n; ++i) at(i) /= a(i, i);
  return x;
}

/// The pseudo-inverse of a symmetric matrix times x. Its elements are of order one, or it is zero but for rounding.
inline Vector pseudo_solve(const Matrix& a, const Vector& x) {
  const Mp200 rounding = ldexp(Mp200(1), -300);
  std::vector<Vector> basis;
  for (int i = 0; i < a.rows; ++i) {
    Vector next = a.row(i);
    for (const Vector& b : basis) next = next - dot(b, next) * b;
    const Mp200 length = norm(next);
    if (length > rounding) basis.push_back((1 / length) * next);
  }
  Matrix U(static_cast<int>(basis.size()), a.cols);
  for (int i = 0; i < U.rows; ++i)
    for (int j = 0; j < U.cols; ++j) U(i, j) = basis[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
  return transposed(U) * solve(U * a * transposed(U), U * x);
}

/// The sum of w_j row(j) over the rows that have a weight.
inline Vector weighted_sum(const Vector& w, const Matrix& rows) {
  Vector sum(static_cast<std::size_t>(rows.cols));
  for (int j = 0; j < static_cast<int>(w.size()); ++j) sum = sum + w[static_cast<std::size_t>(j)] * rows.row(j);
  return sum;
}
/// The sum of w_j a(j) b(j)^T.
inline Matrix weighted_outer(const Vector& w, const Matrix& a, const Matrix& b) {
  Matrix sum(a.cols, b.cols);
  for (int j = 0; j < static_cast<int>(w.size()); ++j)
    sum = sum + w[static_cast<std::size_t>(j)] * outer(a.row(j), b.row(j));
  return sum;
}

/// What the weights w_j on the first keys make of keys, values and a query.
struct Moments {
  Vector w, p;              // weights, and the same with sum 1
  Mp200 omega;              // sum of w
  Vector kbar, vbar, zbar;  // means; zbar = kbar - q
  Matrix C, X;              // Cov(k) [K, K], Cov(v, k) [V, K]
};
inline Moments moments(const Vector& w, const Matrix& k, const Matrix& v, const Vector& q) {
  Moments m;
  m.w = w;
  for (const Mp200& x : w) m.omega += x;
  m.p = (1 / m.omega) * w;
  m.kbar = weighted_sum(m.p, k), m.vbar = weighted_sum(m.p, v);
  m.zbar = m.kbar - q;
  m.C = weighted_outer(m.p, k, k) + Mp200(-1) * outer(m.kbar, m.kbar);
  m.X = weighted_outer(m.p, v, k) + Mp200(-1) * outer(m.vbar, m.kbar);
  return m;
}

/// One head of a problem, with its defaults: causal, and everything that is missing is empty.
struct Head {
  Matrix q, k, v, rho;
  Mp200 h = 1;
  bool causal = true;

  explicit Head(const ExactProblem& p) {
    const std::pair<std::string_view, Matrix*> tensors[] = {{"q", &q}, {"k", &k}, {"v", &v}, {"rho", &rho}};
    for (const auto& [name, matrix] : tensors)
      if (const auto it = p.inputs.find(name); it != p.inputs.end()) *matrix = Matrix(it->second);
    if (p.params.contains("bandwidth")) h = p.number("bandwidth");
    if (const auto it = p.params.find("causal"); it != p.params.end()) causal = std::get<bool>(it->second);
  }

  int queries() const { return q.rows; }
  int visible(int i) const { return causal ? i + 1 + k.rows - q.rows : k.rows; }
  /// s_ij over the visible keys.
  Vector scores(int i) const {
    Vector s;
    for (int j = 0; j < visible(i); ++j) s.push_back(dot(q.row(i), k.row(j)) / h);
    return s;
  }
  Mp200 largest_score(int i) const {
    const Vector s = scores(i);
    return *std::max_element(s.begin(), s.end());
  }
  /// exp(s_ij) over the visible keys.
  Vector weights(int i) const {
    Vector w = scores(i);
    for (Mp200& x : w) x = exp(x);
    return w;
  }
  Moments softmax(int i) const { return moments(weights(i), k, v, q.row(i)); }
  /// Equal weights.
  Moments uniform(int i) const {
    return moments(Vector(static_cast<std::size_t>(visible(i)), Mp200(1)), k, v, q.row(i));
  }
  /// One vector after the other.
  template <class F>
  Vector each_row(F&& of_row) const {
    Vector all;
    for (int i = 0; i < queries(); ++i) {
      const Vector x = of_row(i);
      all.insert(all.end(), x.begin(), x.end());
    }
    return all;
  }
};

/// The offsets z_j = k_j - q of the first `count` keys.
inline Matrix offsets(const Matrix& k, const Vector& q, int count) {
  Matrix z(count, k.cols);
  for (int j = 0; j < count; ++j)
    for (int x = 0; x < k.cols; ++x) z(j, x) = k(j, x) - q[static_cast<std::size_t>(x)];
  return z;
}

/// Local linear attention as its paper defines it: moments of the offsets z, and
///   Sigma = sum w z z^T + ridge,  rho* = Sigma^{-1} mu,  delta = omega - mu.rho*,  o = sum w (1 - z.rho*) / delta v
/// The ridge is in the unit of the weights.
struct Line {
  Matrix z, Sigma;
  Vector mu, rho;
  Mp200 omega, delta;
};
inline Line line(const Vector& w, const Vector& ridge, const Matrix& k, const Vector& q) {
  Line l;
  l.z = offsets(k, q, static_cast<int>(w.size()));
  l.Sigma = weighted_outer(w, l.z, l.z) + diagonal(ridge);
  l.mu = weighted_sum(w, l.z);
  l.rho = solve(l.Sigma, l.mu);
  for (const Mp200& x : w) l.omega += x;
  l.delta = l.omega - dot(l.mu, l.rho);
  return l;
}
/// sum w (1 - z.rho) / delta v.
inline Vector intercept(const Vector& w, const Matrix& z, const Vector& rho, const Mp200& delta, const Matrix& v) {
  Vector factors;
  for (int j = 0; j < z.rows; ++j) factors.push_back(w[static_cast<std::size_t>(j)] * (1 - dot(z.row(j), rho)) / delta);
  return weighted_sum(factors, v);
}

/// lambda as one number for all rows and dimensions.
inline void set_ridge(ExactProblem& p, const Mp200& lambda) { p.inputs["lambda"] = {{}, {lambda}}; }

/// The ridge of seeded problems.
inline const Mp200 seeded_lambda = Mp200(1) / 2;

/// A seeded problem, causal, without an initial state; its lambda, if it has one, is seeded_lambda.
inline ExactProblem seeded(std::string_view mechanism, const Params& params = {}, int T = 7, int K = 4, int V = 3) {
  ExactProblem p = make(mechanism, params, T, K, V);
  if (p.inputs.contains("lambda")) set_ridge(p, seeded_lambda);
  p.inputs.erase("initial_state");
  return p;
}

/// The room's o, without the work of gradients.
inline Vector output(ExactProblem p) {
  p.cotangents.clear();
  return flat(answer(p).outputs, {"o"});
}

/// What `mechanism` takes of a problem's tensors and parameters.
inline ExactProblem in_room(std::string_view mechanism, const ExactProblem& p) {
  const Room& room = listed_room(mechanism);
  ExactProblem other{std::string(mechanism), {}, {}, p.cotangents};
  const auto take_param = [&](std::string_view name) {
    if (const auto it = p.params.find(name); it != p.params.end()) other.params.insert(*it);
  };
  for (const auto& [field, rank] : room.inputs()) {
    if (const auto it = p.inputs.find(field.name); it != p.inputs.end()) other.inputs.insert(*it);
    take_param(field.name);
  }
  for (const std::string_view name : room.options) take_param(name);
  return other;
}

}  // namespace assay::identities::local_linear
