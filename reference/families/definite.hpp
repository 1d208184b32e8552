#pragma once
// Symmetric positive definite systems, in any scalar.
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "reference/core/tensor.hpp"

namespace assay {

/// The diagonal block of `a` that starts at row and column `first`: A = L D L^T, symmetric positive definite. An
/// infinite diagonal element makes its unknown zero.
template <class S>
class DefiniteSystem {
 public:
  DefiniteSystem(Tensor<S, 2> a, int first, int n) : a_(std::move(a)) {
    if constexpr (solves_itself)
      if (solver_.emplace(a_.data.data() + std::ptrdiff_t{first} * (a_.size(1) + 1), a_.size(1), n).proven()) return;
    eliminate(first, n);
  }
  DefiniteSystem(const DefiniteSystem&) = delete;
  DefiniteSystem& operator=(const DefiniteSystem&) = delete;
  ~DefiniteSystem() = default;

  /// Replaces the right-hand side `x` by the solution.
  void solve(std::span<S> x) const {
    if constexpr (solves_itself)
      if (solver_->proven()) return solver_->solve(x);
    const int n = static_cast<int>(x.size());
    const auto at = [&x](int i) -> S& { return x[static_cast<std::size_t>(i)]; };
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < i; ++k) at(i) -= factor_(i, k) * at(k);
    for (int i = n - 1; i >= 0; --i) {
      at(i) /= column_(i, i);
      for (int k = i + 1; k < n; ++k) at(i) -= factor_(k, i) * at(k);
    }
  }

 private:
  struct None {};
  template <class X>
  struct SolverOf {
    using type = None;
  };
  template <class X>
  requires requires { typename X::DefiniteSolver; }
  struct SolverOf<X> {
    using type = std::optional<typename X::DefiniteSolver>;
  };
  static constexpr bool solves_itself = requires { typename S::DefiniteSolver; };

  void eliminate(int first, int n) {
    column_ = factor_ = Tensor<S, 2>(n, n);
    for (int j = 0; j < n; ++j)
      for (int i = j; i < n; ++i) {
        column_(i, j) = a_(first + i, first + j);
        for (int k = 0; k < j; ++k) column_(i, j) -= factor_(i, k) * column_(j, k);
        if (i > j) factor_(i, j) = column_(i, j) / column_(j, j);
      }
  }

  Tensor<S, 2> a_;
  Tensor<S, 2> column_, factor_;  // column = L D, so that an infinite D never meets a zero of L
  typename SolverOf<S>::type solver_;
};

/// Replaces the right-hand side `x` by the solution of the diagonal block of `a` that starts at `first`.
template <class S>
void solve_definite(const Tensor<S, 2>& a, int first, std::span<S> x) {
  DefiniteSystem<S>(a, first, static_cast<int>(x.size())).solve(x);
}

}  // namespace assay
