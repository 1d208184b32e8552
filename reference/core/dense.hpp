#pragma once
// Small dense linear algebra in any scalar: symmetric systems, and the largest eigenvalue with its vector.
#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "reference/core/tensor.hpp"

namespace assay {

template <class S>
S dot(std::span<const S> a, std::span<const S> b) {
  S sum = S(0);
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
template <class S>
S dot(const std::vector<S>& a, const std::vector<S>& b) {
  return dot(std::span<const S>(a), std::span<const S>(b));
}

/// Replaces the right-hand side `x` by the solution, for the diagonal block of `a` that starts at row and column
/// `first`: A = L D L^T, symmetric positive definite. An infinite diagonal element makes its unknown zero.
template <class S>
void solve_definite(const Tensor<S, 2>& a, int first, std::span<S> x) {
  const int n = static_cast<int>(x.size());
  Tensor<S, 2> column(n, n), L(n, n);  // column = L D, so that an infinite D never meets a zero of L
  for (int j = 0; j < n; ++j)
    for (int i = j; i < n; ++i) {
      column(i, j) = a(first + i, first + j);
      for (int k = 0; k < j; ++k) column(i, j) -= L(i, k) * column(j, k);
      if (i > j) L(i, j) = column(i, j) / column(j, j);
    }
  const auto at = [&x](int i) -> S& { return x[static_cast<std::size_t>(i)]; };
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < i; ++k) at(i) -= L(i, k) * at(k);
  for (int i = n - 1; i >= 0; --i) {
    at(i) /= column(i, i);
    for (int k = i + 1; k < n; ++k) at(i) -= L(k, i) * at(k);
  }
}

/// Replaces the right-hand side `x` by what `steps` steps of conjugate gradients from zero make of it, on the diagonal
/// block of `a` that starts at `first`. Stops where the residual is at most `tolerance`, or where the curvature is no
/// positive number. The count of steps made.
template <class S>
int conjugate_gradients(const Tensor<S, 2>& a, int first, int steps, const S& tolerance, std::span<S> x) {
  using std::isfinite;
  const int n = static_cast<int>(x.size());
  std::vector<S> residual(x.begin(), x.end()), direction = residual, image(x.size());
  std::fill(x.begin(), x.end(), S(0));
  S square = dot(residual, residual);
  for (int step = 0; step < steps; ++step) {
    if (!(square > tolerance * tolerance)) return step;
    for (int i = 0; i < n; ++i) {
      S& sum = image[static_cast<std::size_t>(i)];
      sum = S(0);
      for (int j = 0; j < n; ++j) sum += a(first + i, first + j) * direction[static_cast<std::size_t>(j)];
    }
    const S curvature = dot(direction, image);
    if (!(isfinite(curvature) && curvature > S(0))) return step;
    const S alpha = square / curvature;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] += alpha * direction[i];
      residual[i] -= alpha * image[i];
    }
    const S before = std::exchange(square, dot(residual, residual));
    const S beta = square / before;
    for (std::size_t i = 0; i < x.size(); ++i) direction[i] = residual[i] + beta * direction[i];
  }
  return steps;
}

/// Rotates rows and columns p < q of a symmetric matrix so that a(p, q) becomes zero; the cosine and sine.
template <class S>
std::pair<S, S> jacobi_rotate(Tensor<S, 2>& a, int p, int q) {
  using std::sqrt;
  const S theta = (a(q, q) - a(p, p)) / (a(p, q) + a(p, q));
  const S root = sqrt(theta * theta + S(1));
  const S t = S(1) / (theta < S(0) ? theta - root : theta + root);
  const S c = S(1) / sqrt(t * t + S(1)), s = t * c;
  a(p, p) -= t * a(p, q);
  a(q, q) += t * a(p, q);
  a(p, q) = a(q, p) = S(0);
  for (int i = 0; i < a.size(0); ++i) {
    if (i == p || i == q) continue;
    const S ip = a(i, p), iq = a(i, q);
    a(i, p) = a(p, i) = c * ip - s * iq;
    a(i, q) = a(q, i) = s * ip + c * iq;
  }
  return {c, s};
}

/// The largest eigenvalue of a symmetric positive semidefinite matrix and a unit vector that has it.
template <class S>
struct Eigenpair {
  S value = S(0);
  std::vector<S> vector;
};

/// By cyclic Jacobi rotations; `a` has at least one row.
template <class S>
Eigenpair<S> largest_eigenpair(Tensor<S, 2> a) {
  using std::abs;
  const int n = a.size(0);
  Tensor<S, 2> vectors(n, n);
  for (int i = 0; i < n; ++i) vectors(i, i) = S(1);
  S largest = S(0);
  // Convergence is quadratic: about ten sweeps, whatever the precision.
  constexpr int max_sweeps = 50;
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < max_sweeps; ++sweep) {
    rotated = false;
    for (int i = 0; i < n; ++i)
      if (a(i, i) > largest) largest = a(i, i);
    for (int p = 0; p < n; ++p)
      for (int q = p + 1; q < n; ++q) {
        if (largest + abs(a(p, q)) == largest) continue;
        rotated = true;
        const auto [c, s] = jacobi_rotate(a, p, q);
        for (int i = 0; i < n; ++i) {
          const S vp = vectors(i, p), vq = vectors(i, q);
          vectors(i, p) = c * vp - s * vq;
          vectors(i, q) = s * vp + c * vq;
        }
      }
  }
  int best = 0;
  for (int i = 1; i < n; ++i)
    if (a(i, i) > a(best, best)) best = i;
  Eigenpair<S> pair{a(best, best), {}};
  for (int i = 0; i < n; ++i) pair.vector.push_back(vectors(i, best));
  return pair;
}

}  // namespace assay
