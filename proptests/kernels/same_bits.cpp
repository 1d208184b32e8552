// Arithmetic that is the same on the device and in its emulation: what it computes, and that no compiler has bits of
// its own.
#include "kernels/core/same_bits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace assay::tile {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Every 61st float of [from, to), 0 <= from.
template <class F>
void each_float(float from, float to, F f) {
  for (std::uint32_t bits = std::bit_cast<std::uint32_t>(from); std::bit_cast<float>(bits) < to; bits += 61)
    f(std::bit_cast<float>(bits));
}

TEST(PortableEx2, ErrsByLessThanItsBound) {
  double worst = 0;
  const auto look = [&](float x) {
    const double power = ex2(static_cast<double>(x)), ulp = std::ldexp(1.0, std::ilogb(power) - 23);
    worst = std::max(worst, std::fabs(static_cast<double>(portable_ex2(x)) - power) / ulp);
  };
  each_float(0x1p-30F, 127.5, look);
  each_float(0x1p-30F, 126, [&](float x) { look(-x); });
  EXPECT_LT(worst, 0.84);
  EXPECT_GT(worst, 0.5);
}

TEST(PortableEx2, HasItsEnds) {
  EXPECT_EQ(portable_ex2(0), 1);
  EXPECT_EQ(portable_ex2(-126), 0x1p-126F);
  EXPECT_GT(portable_ex2(std::nextafter(-126.5F, 0.0F)), 0);
  EXPECT_LT(portable_ex2(std::nextafter(127.5F, 0.0F)), infinity);
  for (const float x : {-126.5F, -127.0F, -128.0F, -1000.0F, -infinity}) EXPECT_EQ(portable_ex2(x), 0) << x;
  for (const float x : {std::nextafter(127.5F, infinity), 128.0F, 129.0F, 1000.0F, infinity})
    EXPECT_EQ(portable_ex2(x), infinity) << x;
  EXPECT_TRUE(std::isnan(portable_ex2(std::numeric_limits<float>::quiet_NaN())));
  for (int n = -126; n < 128; ++n) EXPECT_EQ(portable_ex2(static_cast<float>(n)), std::ldexp(1.0F, n));
}

TEST(PortableEx2, HasTheSameBitsEverywhere) {
  std::uint64_t hash = 0;
  for (const float sign : {1.0F, -1.0F})
    each_float(0x1p-30F, 200, [&](float x) { hash = hash * 1099511628211U + bits_of(portable_ex2(sign * x)); });
  EXPECT_EQ(hash, 7479489593993724313U);
}

}  // namespace
}  // namespace assay::tile
