#pragma once
// Systems of linear equations in any scalar: a matrix that is factored once, and the solutions for its right-hand
// sides.
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "language/evaluate/functions.hpp"
#include "oracles/multiword/definite.hpp"

namespace assay::language {

/// Whether x is above zero. Throws Undecided where an enclosure holds both.
template <class S>
bool is_positive(const S& x) {
  if constexpr (is_dual<S>)
    return is_positive(x.value);
  else
    return !is_undefined(x) && S(0) < x;
}

/// Whether a step of an elimination may divide by x: some number that is not zero.
template <class S>
bool is_pivot(const S& x) {
  if constexpr (std::is_same_v<S, Ball>)
    return !x.contains_zero();
  else if constexpr (is_dual<S>)
    return is_pivot(x.value);
  else
    return x < S(0) || S(0) < x;
}

/// Whether a is the better pivot: the larger one, where size matters.
template <class S>
bool is_better_pivot(const S& a, const S& b) {
  if constexpr (std::is_same_v<S, Ball>)
    return std::fabs(a.middle()) > std::fabs(b.middle());
  else if constexpr (is_dual<S>)
    return is_better_pivot(a.value, b.value);
  else
    return !std::is_same_v<S, Rational> && magnitude(b) < magnitude(a);
}

/// x less a_0 b_0, a_1 b_1, ...: in draws in any order.
template <class S>
void subtract_products(S& x, const S* a, const S* b, std::size_t n) {
  if constexpr (std::is_same_v<S, Emulated>)
    if (PerturbedArithmetic* draw = draw_of<S>(); draw != nullptr && n > 0) {
      x.value = draw->less_products(x.value, &a->value, &b->value, static_cast<int>(n));
      return;
    }
  for (std::size_t i = 0; i < n; ++i) x -= a[i] * b[i];
}

/// A matrix A [n, n]. `definite`: symmetric and positive definite, A = L D L^T, of which the lower triangle is read; an
/// infinite diagonal element makes its unknown zero. Otherwise the rows of A in another order are L U.
template <class S>
class Factored {
 public:
  /// `numbers`: row-major. Packs take a definite matrix alone; others throw Undecided, since lanes have pivots of their
  /// own.
  Factored(std::vector<S> numbers, int n, bool definite)
      : a_(std::move(numbers)), n_(static_cast<std::size_t>(n)), definite_(definite) {
    for (const S& x : a_)
      if constexpr (must_be_asked<S>) singular_ = singular_ || is_undefined(x);
    if (singular_) return;
    if constexpr (Several<S>) {
      if (!definite) throw Undecided();
      singular_ = !solver_.emplace(a_.data(), n, n).proven();
    } else if (definite) {
      eliminate_definite();
    } else {
      eliminate();
    }
  }
  Factored(const Factored&) = delete;
  Factored& operator=(const Factored&) = delete;
  ~Factored() = default;

  /// Replaces a right-hand side by its solution; undefined where the matrix is singular, or not positive definite, or
  /// not proven to be. `absorb`: zero stays zero, whatever the matrix.
  void solve(std::vector<S>& x, bool absorb) const {
    const std::vector<S> b = absorb ? x : std::vector<S>();
    bool undefined_one = singular_;
    for (const S& one : x)
      if constexpr (must_be_asked<S>) undefined_one = undefined_one || is_undefined(one);
    if (undefined_one)
      x.assign(n_, undefined<S>());
    else if constexpr (Several<S>)
      solver_->solve(x);
    else if (definite_)
      solve_definite(x);
    else
      solve_general(x);
    if (absorb) keep_zeros(b, x);
  }

 private:
  template <class X>
  struct SolverOf {
    struct type {};
  };
  template <Several X>
  struct SolverOf<X> {
    using type = std::optional<typename X::DefiniteSolver>;
  };

  S& at(std::size_t i, std::size_t j) { return a_[i * n_ + j]; }
  const S& at(std::size_t i, std::size_t j) const { return a_[i * n_ + j]; }

  /// L below the diagonal, D on it, L D where A was above: an infinite D never meets a zero of L.
  void eliminate_definite() {
    for (std::size_t j = 0; j < n_; ++j) {
      const std::vector<S> above = column(j, 0, j);
      for (std::size_t i = j; i < n_; ++i) {
        S& one = i > j ? at(j, i) : at(j, j);
        one = at(i, j);
        subtract_products(one, a_.data() + i * n_, above.data(), j);
        if (i == j && !is_positive(one)) return void(singular_ = true);
        if (i > j) at(i, j) = one / at(j, j);
      }
    }
  }

  void solve_definite(std::vector<S>& x) const {
    for (std::size_t i = 0; i < n_; ++i) subtract_products(x[i], a_.data() + i * n_, x.data(), i);
    for (std::size_t i = n_; i-- > 0;) {
      x[i] /= at(i, i);
      const std::vector<S> below = column(i, i + 1, n_);
      subtract_products(x[i], below.data(), x.data() + i + 1, below.size());
    }
  }

  /// Rows [first, last) of column j.
  std::vector<S> column(std::size_t j, std::size_t first, std::size_t last) const {
    std::vector<S> list;
    list.reserve(last - first);
    for (std::size_t i = first; i < last; ++i) list.push_back(at(i, j));
    return list;
  }

  /// The row from j on whose element j is the best pivot; n where all are zero.
  std::size_t pivot_row(std::size_t j) const {
    std::size_t best = n_;
    bool open = false;
    for (std::size_t i = j; i < n_; ++i) {
      open = open || !is_zero(at(i, j));
      if (is_pivot(at(i, j)) && (best == n_ || is_better_pivot(at(i, j), at(best, j)))) best = i;
    }
    if (std::is_same_v<S, Ball> && best == n_ && open) throw Undecided();
    return best;
  }

  void eliminate() {
    for (std::size_t i = 0; i < n_; ++i) order_.push_back(i);
    for (std::size_t j = 0; j < n_; ++j) {
      std::vector<S> above;
      for (std::size_t i = 0; i < n_; ++i) {
        subtract_products(at(i, j), a_.data() + i * n_, above.data(), above.size());
        if (i < j) above.push_back(at(i, j));
      }
      const std::size_t best = pivot_row(j);
      if (best == n_) return void(singular_ = true);
      std::swap(order_[j], order_[best]);
      for (std::size_t k = 0; best != j && k < n_; ++k) std::swap(at(j, k), at(best, k));
      for (std::size_t i = j + 1; i < n_; ++i) at(i, j) /= at(j, j);
    }
  }

  void solve_general(std::vector<S>& x) const {
    std::vector<S> y;
    for (const std::size_t i : order_) y.push_back(x[i]);
    for (std::size_t i = 0; i < n_; ++i) subtract_products(y[i], a_.data() + i * n_, y.data(), i);
    for (std::size_t i = n_; i-- > 0;) {
      subtract_products(y[i], a_.data() + i * n_ + i + 1, y.data() + i + 1, n_ - i - 1);
      y[i] /= at(i, i);
    }
    x = std::move(y);
  }

  static void keep_zeros(const std::vector<S>& b, std::vector<S>& x) {
    if constexpr (Several<S>) {
      for (int lane = 0; lane < S::size; ++lane) {
        bool zero = true;
        for (const S& one : b) zero = zero && one.sizes().at[static_cast<std::size_t>(lane)] == 0;
        for (S& one : x)
          if (zero) one.take(lane, 0.0);
      }
    } else {
      bool zero = true;
      for (const S& one : b) zero = zero && is_zero(one);
      if (zero) x.assign(x.size(), S(0));
    }
  }

  std::vector<S> a_;  ///< A, then its factors; of packs A
  std::size_t n_;
  bool definite_, singular_ = false;
  std::vector<std::size_t> order_;
  [[no_unique_address]] typename SolverOf<S>::type solver_;
};

}  // namespace assay::language
