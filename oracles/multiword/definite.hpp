#pragma once
// Eight symmetric positive definite systems of packs at a time, solved by refinement and judged by their residuals.
// docs/error-analysis.md, section 7.
#include <span>
#include <vector>

#include "oracles/multiword/pack.hpp"

namespace assay::words {

template <int W>
class DefiniteSolver {
 public:
  /// A solver for n x n packs, `rows` to be kept by the caller: row i starts at rows[i * step], both triangles count.
  DefiniteSolver(const Pack<W>* rows, std::ptrdiff_t step, int n);

  /// Whether all eight matrices are proven to be positive definite, whatever the numbers in the balls.
  bool proven() const { return proven_; }
  /// Replaces the right-hand side by the solution. Only where proven.
  void solve(std::span<Pack<W>> x) const;

 private:
  using Bounds = typename Pack<W>::Bounds;
  /// x <- (L L^T)^{-1} x in double, [n][8].
  void precondition(std::vector<double>& x) const;
  /// A step of an inverse iteration after another: about the smallest eigenvalues.
  Bounds estimate() const;

  const Pack<W>* rows_;
  std::ptrdiff_t step_;
  std::size_t n_;
  std::vector<double> factor_;
  Bounds smallest_;  ///< at most the smallest eigenvalues
  bool proven_ = false;
};

extern template class DefiniteSolver<2>;
extern template class DefiniteSolver<3>;
extern template class DefiniteSolver<4>;

}  // namespace assay::words
