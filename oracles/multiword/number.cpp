// Newton's iteration; what it reached is measured by a residual, so nothing about its convergence needs proof.
#include "oracles/multiword/number.hpp"

#include <cmath>

#include "oracles/multiword/magnitude.hpp"

namespace assay::words {
namespace {

using portable::plus;
using portable::size_of;
using portable::times;
using portable::Words;
using portable::words;
using Four = Words<double, 4>;

Factor factor(const Four& x, double error) {
  Factor f;
  for (std::size_t i = 0; i < 4; ++i) f.word[i] = x.w[i];
  f.error = error;
  return f;
}

/// Bound on |residual|, computed as 1 - product with all sizes below 1.01.
double residual_bound(const Four& residual) {
  const Constants& c = constants(4);
  return (size_of(residual) + 1.1 * (2 * c.multiply + c.multiply_plain + 2 * c.add)) * safety;
}

}  // namespace

double Factor::error_of(int words) const {
  double dropped = 0;
  for (std::size_t i = 4; i-- > static_cast<std::size_t>(words);) dropped += std::fabs(word[i]);
  // The first word is within 2^-50 of the whole.
  return (error + (dropped == 0 ? 0 : dropped / std::fabs(word[0]) * (1 + 0x1p-40))) * safety;
}

Factor exactly(double x) { return factor(words<double, 4>(x), 0); }

Factor reciprocal(double x) {
  Four y = words<double, 4>(1 / x), residual{};
  for (int i = 0; i < 4; ++i) {
    residual = plus(-times(y, x), 1.0);
    if (i < 3) y = y + y * residual;
  }
  // 1/x = y / (1 - residual)
  return factor(y, 1.01 * residual_bound(residual));
}

Factor reciprocal_sqrt(double x) {
  Four y = words<double, 4>(1 / std::sqrt(x)), residual{};
  for (int i = 0; i < 4; ++i) {
    residual = plus(-times(y * y, x), 1.0);
    if (i < 3) y = y + times(y * residual, 0.5);
  }
  // y sqrt(x) = sqrt(1 - residual)
  return factor(y, 1.01 * residual_bound(residual));
}

}  // namespace assay::words
