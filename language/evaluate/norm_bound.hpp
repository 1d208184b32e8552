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

}  // namespace assay::language
