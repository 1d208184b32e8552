#include "kernels/core/tensor_core.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "reference/core/per_machine.hpp"

namespace assay::tile {
namespace {

constexpr int columns = 64;  // as many at a time, in loops for vector units
using Columns = std::array<double, columns>;

/// 2^floor(log2 |x|), at least `least`; 0 of 0.
[[gnu::always_inline]] inline double power(double x, double least) {
  const double own = std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & 0x7ff0000000000000U);
  return x == 0 ? 0 : std::max(own, least);
}
/// x less its part below `unit`, a power of two; |x| < 2^52 unit.
[[gnu::always_inline]] inline double cut(double x, double unit) {
  const double integers = 0x1p52 * unit, magnitude = std::fabs(x), nearest = (magnitude + integers) - integers;
  return std::copysign(nearest > magnitude ? nearest - unit : nearest, x);
}
[[gnu::always_inline]] inline double cut_to_fp32(double x) {
  constexpr double largest = std::numeric_limits<float>::max();
  const double y = cut(x, 0x1p-23 * power(x, 0x1p-126));
  return std::clamp(y, -largest, largest);
}

ASSAY_PER_MACHINE void add(double* c, const double* a, const double* b, int depth, int stride, int cols, double least,
                           double extra, bool normalized) {
  Columns top{}, all{}, sum{};
  const auto at = [](int j) { return static_cast<std::size_t>(j); };
  for (int j = 0; j < cols; ++j) all[at(j)] = c[j], top[at(j)] = power(c[j], 0x1p-126);
  for (int k = 0; k < depth; ++k) {
    const double x = a[k], of_x = power(x, least);
    const double* y = b + static_cast<std::ptrdiff_t>(k) * stride;
    for (int j = 0; j < cols; ++j) {
      const double p = x * y[j];
      all[at(j)] += p;
      top[at(j)] = std::max(top[at(j)], normalized ? power(p, 0) : of_x * power(y[j], least));
    }
  }
  for (int j = 0; j < cols; ++j) top[at(j)] *= extra, sum[at(j)] = cut(c[j], top[at(j)]);
  for (int k = 0; k < depth; ++k) {
    const double x = a[k];
    const double* y = b + static_cast<std::ptrdiff_t>(k) * stride;
    for (int j = 0; j < cols; ++j) sum[at(j)] += cut(x * y[j], top[at(j)]);
  }
  for (int j = 0; j < cols; ++j) c[j] = std::isfinite(all[at(j)]) ? cut_to_fp32(sum[at(j)]) : all[at(j)];
}

}  // namespace

void TensorCore::multiply_add(double* c, const double* a, const double* b, int depth, int cols, Format factors) const {
  const double least = factors == Format::fp16 ? 0x1p-14 : 0x1p-126, unit = std::ldexp(1.0, -23 - extra_bits);
  for (int j = 0; j < cols; j += columns)
    add(c + j, a, b + j, depth, cols, std::min(columns, cols - j), least, unit, normalized);
}

}  // namespace assay::tile
