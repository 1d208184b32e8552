#include "kernels/host/host_rounding.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/core/per_machine.hpp"

namespace assay::tile {
namespace {

constexpr std::size_t block = 64;

// Both random modes are, in the normal range, nearest_even after a uniform jitter of half a unit: the long double has
// the 11 bits below fp64's last place, the `rest`, that show it. Grid points have no rest: they stay, and take an
// everyday spacing, for that of a zero is subnormal and costs a hundred times the multiplication.
[[gnu::always_inline]] inline double jittered(double x, double rest, std::uint64_t draw) {
  const double binade = std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & 0x7ff0000000000000);
  const double spacing = (rest != 0 ? std::max(binade, std::numeric_limits<double>::min()) : 1.0) * 0x1p-52;
  const double moved = rest + (static_cast<double>(static_cast<std::int64_t>(draw >> 12)) * 0x1p-52 - 0.5) * spacing;
  const double up = moved > 0.5 * spacing ? spacing : 0.0, down = moved < -0.5 * spacing ? spacing : 0.0;
  return rest != 0 ? x + up - down : x;
}

ASSAY_PER_MACHINE void jitter(double* x, const double* rest, std::size_t n, const RandomBits& random) {
  const RandomBits draws = random;
  for (std::size_t i = 0; i < n; ++i) x[i] = jittered(x[i], rest[i], draws.at(draws.counter + i));
}

// One product for each of n sums. With an exact product p + e and an exact sum s + t of p and c, the rest is t + e.
ASSAY_PER_MACHINE void add_product(double* c, double a, const double* b, std::size_t n, bool jitters,
                                   const RandomBits& random) {
  const RandomBits draws = random;
  if (!jitters) {
    for (std::size_t i = 0; i < n; ++i) c[i] = std::fma(a, b[i], c[i]);
    return;
  }
  for (std::size_t i = 0; i < n; ++i) {
    const double p = a * b[i], e = std::fma(a, b[i], -p), s = p + c[i], of_c = s - p;
    const double t = (p - (s - of_c)) + (c[i] - of_c);
    c[i] = jittered(s, t + e, draws.at(draws.counter + i));
  }
}

/// As doubles; false if one of them is none.
bool as_doubles(const long double* p, int n, std::vector<double>& x) {
  x.resize(static_cast<std::size_t>(n));
  bool all = true;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<double>(p[i]);
    all &= static_cast<long double>(x[i]) == p[i];
  }
  return all;
}

}  // namespace

void round_values(long double* p, std::size_t n, Format f, Rounding mode, RandomBits& random) {
  if (f == Format::exact) return;
  std::array<double, block> x, rest;  // left unset: most spans are short
  for (std::size_t first = 0; first < n; first += block) {
    const std::size_t count = std::min(block, n - first);
    for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<double>(p[first + i]);
    if (f != Format::fp64) {
      round_values(x.data(), count, f, mode, random);
    } else if (mode != Rounding::nearest_even) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto below = static_cast<double>(p[first + i] - static_cast<long double>(x[i]));
        rest[i] = std::isfinite(below) ? below : 0;  // of infinities it is a NaN
      }
      jitter(x.data(), rest.data(), count, random);
      random.counter += count;
    }
    for (std::size_t i = 0; i < count; ++i) p[first + i] = x[i];
  }
}

bool add_products_in_fp64(long double* c, const long double* a, const long double* b, int rows, int depth, int cols,
                          Rounding mode, RandomBits& random) {
  std::vector<double> sums, left, right;
  if (!as_doubles(c, rows * cols, sums) || !as_doubles(a, rows * depth, left) || !as_doubles(b, depth * cols, right))
    return false;
  const bool jitters = mode != Rounding::nearest_even;
  const auto n = static_cast<std::size_t>(cols), k = static_cast<std::size_t>(depth);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r)
    for (std::size_t j = 0; j < k; ++j) {
      add_product(&sums[r * n], left[r * k + j], &right[j * n], n, jitters, random);
      if (jitters) random.counter += n;
    }
  std::copy(sums.begin(), sums.end(), c);
  return true;
}

}  // namespace assay::tile
