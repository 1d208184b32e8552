// Arithmetic that is the same on the device and in its emulation: what it computes, and that no compiler has bits of
// its own.
#include "kernels/core/same_bits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "proptests/core/ex2_digest.hpp"

namespace assay::tile {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(PortableEx2, ErrsByLessThanItsBound) {
  double worst = 0;
  for (std::uint32_t i = 0; i < Ex2Arguments::count; ++i) {
    const float x = std::bit_cast<float>(Ex2Arguments::bits(i));
    if (x < -126) continue;
    const double power = ex2(static_cast<double>(x)), ulp = std::ldexp(1.0, std::ilogb(power) - 23);
    worst = std::max(worst, std::fabs(static_cast<double>(portable_ex2(x)) - power) / ulp);
  }
  EXPECT_LT(worst, 0.84);
  EXPECT_GT(worst, 0.5);
}

TEST(PortableEx2, HasItsEnds) {
  EXPECT_EQ(portable_ex2(0), 1);
  EXPECT_EQ(portable_ex2(-126), 0x1p-126F);
  EXPECT_GT(portable_ex2(std::nextafter(-126.5F, 0.0F)), 0);
  EXPECT_LT(portable_ex2(127.5F), infinity);
  for (const float x : {-126.5F, -127.0F, -128.0F, -1000.0F, -infinity}) EXPECT_EQ(portable_ex2(x), 0) << x;
  EXPECT_TRUE(std::isnan(portable_ex2(std::numeric_limits<float>::quiet_NaN())));
  for (int n = -126; n < 128; ++n) EXPECT_EQ(portable_ex2(static_cast<float>(n)), std::ldexp(1.0F, n));
}

TEST(PortableEx2, HasTheSameBitsEverywhere) {
  EXPECT_EQ(
      digest_of_ex2([](std::uint32_t i) { return bits_of(portable_ex2(std::bit_cast<float>(Ex2Arguments::bits(i)))); }),
      ex2_digest);
}

}  // namespace
}  // namespace assay::tile
