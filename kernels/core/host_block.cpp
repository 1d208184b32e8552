#include "kernels/core/host_block.hpp"

#include <bit>
#include <cstdint>

namespace assay::tile {

void round_values(long double* p, std::size_t n, Format f, Rounding mode, RandomBits& random) {
  if (f == Format::exact) return;
  const bool jitters = f == Format::fp64 && mode != Rounding::nearest_even;
  for (std::size_t i = 0; i < n; ++i) {
    double x = static_cast<double>(p[i]);
    if (jitters) {
      // Both random modes are, in the normal range, nearest_even after a uniform jitter of half a unit: the long double
      // has the 11 bits below fp64's last place that show it. Grid points have no rest, infinities a NaN: both stay.
      const double rest = static_cast<double>(p[i] - static_cast<long double>(x));
      if (rest != 0) {
        const double binade = std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & 0x7ff0000000000000);
        const double spacing = std::max(binade, std::numeric_limits<double>::min()) * 0x1p-52;
        const double moved = rest + (static_cast<double>(random.next() >> 12) * 0x1p-52 - 0.5) * spacing;
        x += moved > 0.5 * spacing ? spacing : 0.0;
        x -= moved < -0.5 * spacing ? spacing : 0.0;
      }
    } else if (f != Format::fp64) {
      round_values(&x, 1, f, mode, random);
    }
    p[i] = x;
  }
}

}  // namespace assay::tile
