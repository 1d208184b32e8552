#pragma once
// Small dense linear algebra in any scalar: symmetric systems, and the largest eigenvalue with its vector.
#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "reference/core/tensor.hpp"
#include "reference/errors/carried_error.hpp"
#include "reference/errors/lines.hpp"
#include "reference/families/definite.hpp"

namespace assay {

/// Makes `x` hold wherever conjugate gradients may stop from here on: no further away than all steps that are left, and
/// these make up A^{-1} residual (docs/error-analysis.md, section 9). The count of steps, between `step` and `steps`.
template <Enclosure S>
S stopped_somewhere(const Tensor<S, 2>& a, int first, int step, int steps, std::vector<S> residual, std::span<S> x) {
  solve_definite(a, first, std::span<S>(residual));
  const Bounds<S> length =
      norm_of<S>(static_cast<int>(x.size()), [&](int i) -> const S& { return residual[static_cast<std::size_t>(i)]; });
  for (S& element : x) element = element.widened(length);
  return S((step + steps) / 2.0).widened(size_of(S((steps - step) / 2.0)));
}

/// Replaces the right-hand side `x` by what `steps` steps of conjugate gradients from zero make of it, on the diagonal
/// block of `a` that starts at `first`, which is positive definite. Stops where the residual is at most `tolerance`, or
/// where the curvature is no positive number. The count of steps made.
template <class S>
S conjugate_gradients(const Tensor<S, 2>& a, int first, int steps, const S& tolerance, std::span<S> x) {
  using std::isfinite;
  const int n = static_cast<int>(x.size());
  std::vector<S> residual(x.begin(), x.end()), direction = residual, image(x.size());
  std::fill(x.begin(), x.end(), S(0));
  S square = dot(residual, residual);
  for (int step = 0; step < steps; ++step) {
    const std::optional<bool> goes_on = is_larger(square, S(tolerance * tolerance));
    if (goes_on == false) return S(step);
    for (int i = 0; i < n; ++i) {
      S& sum = image[static_cast<std::size_t>(i)];
      sum = S(0);
      for (int j = 0; j < n; ++j) sum += a(first + i, first + j) * direction[static_cast<std::size_t>(j)];
    }
    const S curvature = dot(direction, image);
    if constexpr (Enclosure<S>)
      if (!goes_on || !is_larger(curvature, S(0))) return stopped_somewhere(a, first, step, steps, residual, x);
    if (!(isfinite(curvature) && curvature > S(0))) return S(step);
    const S alpha = square / curvature;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] += alpha * direction[i];
      residual[i] -= alpha * image[i];
    }
    const S before = std::exchange(square, dot(residual, residual));
    const S beta = square / before;
    for (std::size_t i = 0; i < x.size(); ++i) direction[i] = residual[i] + beta * direction[i];
  }
  return S(steps);
}

/// The middle of an enclosure; any other number is its own.
template <class S>
S middle_of(const S& x) {
  S middle = x;
  if constexpr (Enclosure<S>) S::take_joint_error(&middle, 1);
  return middle;
}

/// Rotates rows and columns p < q of a symmetric matrix so that a(p, q) becomes zero; the cosine and sine.
template <class S>
std::pair<S, S> jacobi_rotate(Tensor<S, 2>& a, int p, int q) {
  using std::sqrt;
  const S theta = (a(q, q) - a(p, p)) / (a(p, q) + a(p, q));
  const S root = sqrt(theta * theta + S(1));
  const S t = S(1) / (middle_of(theta) < S(0) ? theta - root : theta + root);
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

/// a^T b.
template <class S>
Tensor<S, 2> inner_products(const Tensor<S, 2>& a, const Tensor<S, 2>& b) {
  Tensor<S, 2> product(a.size(1), b.size(1));
  for (int i = 0; i < a.size(1); ++i)
    for (int j = 0; j < b.size(1); ++j)
      for (int x = 0; x < a.size(0); ++x) product(i, j) += a(x, i) * b(x, j);
  return product;
}

/// Proven whatever V, nearly the eigenvectors of `a`, is, from D = V^T A V and G = V^T V (docs/error-analysis.md,
/// section 10). With two eigenvalues that are largest nothing is known of the vector.
template <Enclosure S>
Eigenpair<S> enclosed_eigenpair(const Tensor<S, 2>& a, const Tensor<S, 2>& V, int best) {
  const int n = a.size(0);
  const Tensor<S, 2> D = inner_products(V, inner_products(a, V)), G = inner_products(V, V);
  const auto row_without = [n](int p, int q, const Tensor<S, 2>& matrix, int i) {
    S sum = S(0);
    for (int j = 0; j < n; ++j)
      if (j != p && j != q) sum += abs(matrix(i, j));
    return sum;
  };
  const auto over = [](const S& x, const S& positive) {
    return is_larger(positive, S(0)).value_or(false) ? S(x / positive) : S(S(1) / S(0));
  };
  const S least = over(D(best, best), G(best, best));
  S most = least;
  for (int i = 0; i < n; ++i)
    most = larger(most, over(D(i, i) + row_without(i, i, D, i), G(i, i) - row_without(i, i, G, i)));
  const S half = (most - least) / S(2);
  Eigenpair<S> pair{S(least + half).widened(size_of(half)), {}};

  Tensor<S, 2> N(n, n);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) N(i, j) = pair.value * G(i, j) - D(i, j);
  S share = S(0);  // of every other column
  for (int i = 0; i < n; ++i)
    if (i != best) share = larger(share, over(abs(N(i, best)), N(i, i) - row_without(i, best, N, i)));
  S square = S(0);
  for (int x = 0; x < n; ++x) {
    pair.vector.push_back(V(x, best).widened(size_of(share) * size_of(row_without(best, best, V, x))));
    square += pair.vector.back() * pair.vector.back();
  }
  const S length = sqrt(square);
  for (S& element : pair.vector) element /= length;
  return pair;
}

/// By cyclic Jacobi rotations; `a` has at least one row. The middles of enclosures are rotated, and enclosed_eigenpair
/// judges the result.
template <class S>
Eigenpair<S> largest_eigenpair(Tensor<S, 2> a) {
  using std::abs;
  const int n = a.size(0);
  [[maybe_unused]] const Tensor<S, 2> given = a;
  const auto round = [](S& x) {
    if constexpr (Enclosure<S>) S::take_joint_error(&x, 1);
  };
  for (S& x : a.data) round(x);
  Tensor<S, 2> vectors(n, n);
  for (int i = 0; i < n; ++i) vectors(i, i) = S(1);
  S largest = S(0);
  // Convergence is quadratic: about ten sweeps, whatever the precision.
  constexpr int max_sweeps = 50;
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < max_sweeps; ++sweep) {
    rotated = false;
    for (int i = 0; i < n; ++i) largest = middle_of(larger(largest, a(i, i)));
    for (int p = 0; p < n; ++p)
      for (int q = p + 1; q < n; ++q) {
        if (middle_of(S(middle_of(S(largest + abs(a(p, q)))) - largest)) == S(0)) continue;
        rotated = true;
        const auto [c, s] = jacobi_rotate(a, p, q);
        for (int i = 0; i < n; ++i) {
          const S vp = vectors(i, p), vq = vectors(i, q);
          vectors(i, p) = c * vp - s * vq;
          vectors(i, q) = s * vp + c * vq;
          round(vectors(i, p)), round(vectors(i, q));
          round(a(i, p)), round(a(p, i)), round(a(i, q)), round(a(q, i));
        }
      }
  }
  int best = 0;
  for (int i = 1; i < n; ++i)
    if (middle_of(S(a(i, i) - a(best, best))) > S(0)) best = i;
  if constexpr (Enclosure<S>) {
    return enclosed_eigenpair(given, vectors, best);
  } else {
    Eigenpair<S> pair{a(best, best), {}};
    for (int i = 0; i < n; ++i) pair.vector.push_back(vectors(i, best));
    return pair;
  }
}

}  // namespace assay
