#include "language/evaluate/norm_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay::language {
namespace {

/// Squarings of the Gram matrix: its 64th power.
constexpr int squarings = 6;
constexpr double up = 1 + 0x1p-50;
/// More than all products that underflow.
constexpr double underflow = 0x1p-500;

template <class F>
void each_lane(F&& f) {
  for (std::size_t l = 0; l < 8; ++l) f(l);
}

/// Every matrix times a power of two, so that its largest element is in [1/2, 1): exact but for underflow. The powers;
/// 1 for a matrix of zeros or of what is not finite.
EightDoubles scaled(std::vector<EightDoubles>& a) {
  EightDoubles largest{}, power;
  for (const EightDoubles& x : a) each_lane([&](std::size_t l) { largest[l] = std::max(largest[l], std::fabs(x[l])); });
  each_lane([&](std::size_t l) {
    int e = 0;
    if (std::isfinite(largest[l])) std::frexp(largest[l], &e);
    power[l] = std::ldexp(1.0, std::clamp(-e, -1000, 1000));
  });
  for (EightDoubles& x : a) each_lane([&](std::size_t l) { x[l] *= power[l]; });
  return power;
}

/// At least the sum of the squares of all elements.
EightDoubles squares(const std::vector<EightDoubles>& a) {
  EightDoubles sum{};
  for (const EightDoubles& x : a) each_lane([&](std::size_t l) { sum[l] += x[l] * x[l]; });
  const double room = 1 + static_cast<double>(a.size() + 2) * 0x1p-52;
  each_lane([&](std::size_t l) { sum[l] = sum[l] * room + underflow; });
  return sum;
}

// The same bits with wider vectors: no operation is fused, and lanes never meet.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ASSAY_WIDEST_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ASSAY_WIDEST_VECTORS
#endif

/// The sum of n products, of eight pairs of rows.
ASSAY_WIDEST_VECTORS void add_products(const double* x, const double* y, std::size_t n, double* to) {
  double sum[8] = {};  // NOLINT(modernize-avoid-c-arrays): what compilers make vectors of
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t l = 0; l < 8; ++l) sum[l] += x[k * 8 + l] * y[k * 8 + l];
  for (std::size_t l = 0; l < 8; ++l) to[l] = sum[l];
}

/// a a^T, exactly symmetric, every element rounded as a sum of n products.
std::vector<EightDoubles> gram(const std::vector<EightDoubles>& a, std::size_t n) {
  std::vector<EightDoubles> g(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i; j < n; ++j) {
      add_products(a[i * n].data(), a[j * n].data(), n, g[i * n + j].data());
      g[j * n + i] = g[i * n + j];
    }
  return g;
}

}  // namespace

EightDoubles norm_bound(std::vector<EightDoubles> a, int n) {
  const auto size = static_cast<std::size_t>(n);
  // |computed - exact| of a Gram matrix is at most that times the sum of the squares, in any norm up to Frobenius'.
  const double rounding = static_cast<double>(n + 2) * 0x1p-52;
  std::array<EightDoubles, squarings + 1> power, missed;
  EightDoubles total{}, nothing{};
  for (const EightDoubles& x : a) each_lane([&](std::size_t l) { nothing[l] += x[l] == 0 ? 0 : 1; });
  for (std::size_t s = 0; s <= squarings; ++s) {
    power[s] = scaled(a);
    total = squares(a);
    each_lane([&](std::size_t l) { missed[s][l] = total[l] * rounding + underflow; });
    a = gram(a, size);
  }
  // |A|^2 = |A A^T| <= |computed| + missed, and so on for the powers of what was computed.
  EightDoubles bound = squares(a);
  each_lane([&](std::size_t l) {
    double x = std::sqrt(bound[l]) * up;
    for (std::size_t s = squarings + 1; s-- > 0;) x = std::sqrt((x + missed[s][l]) * up) * up / power[s][l];
    if (nothing[l] == 0) x = 0;
    bound[l] = std::isfinite(x) ? x : std::numeric_limits<double>::infinity();
  });
  return bound;
}

}  // namespace assay::language
