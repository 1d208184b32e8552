#pragma once
// Upper bounds of norms of matrices, several at a time.
#include <array>
#include <vector>

namespace assay::language {

/// Eight numbers, one of each matrix.
using EightDoubles = std::array<double, 8>;

/// At least the 2-norm of every matrix; `a` has the elements, n x n. At most n^(1/256) times that norm and some
/// roundings; infinite where something is not finite. docs/error-analysis.md, section 8.4.
EightDoubles norm_bound(std::vector<EightDoubles> a, int n);

/// At least the 2-norm of a I + b u w^T, d = a + b u.w, where `a` and `d` are at least |a| and |d|, `apart` at least
/// their difference, and `spread` at least b^2 (|u|^2 |w|^2 - (u.w)^2). docs/error-analysis.md, section 8.4.
template <class Bounds>
Bounds norm_of_pair(const Bounds& a, const Bounds& d, const Bounds& apart, const Bounds& spread) {
  Bounds half, nothing;
  half.at.fill(0.5), nothing.at.fill(0x1p-450);  // more than the roots of squares that underflow
  return half * (sqrt((a + d) * (a + d) + spread) + sqrt(apart * apart + spread)) + nothing;
}

}  // namespace assay::language
