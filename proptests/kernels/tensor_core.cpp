// Sums as a device adds them: products on tensor cores, and rows by the lanes of a warp.
#include "kernels/core/tensor_core.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "kernels/host/host_block.hpp"

namespace assay::tile {
namespace {

constexpr double unbounded = std::numeric_limits<double>::infinity();

TEST(PartialSums, AreAddedInTheOrderOfADevicesLanes) {
  constexpr int columns = 32, lanes = HostBlock<double>::lanes;
  static constexpr SiteTable::Init sites[] = {{"sum", Role::accumulator}, {"x", Role::accumulator}};
  HostBlock<double> b(Policy::of(SiteTable(sites), Format::bf16), 0);
  auto x = b.acc("x"_s, Shape<16, columns>{});
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  for (double& y : x.v) y = normal(random);
  const auto dot = b.dot("sum"_s, x, x);
  for (int r = 0; r < 16; ++r) {
    std::array<float, lanes> sums{};
    for (int lane = 0; lane < lanes; ++lane)
      for (int c = 0; c < columns; ++c)
        if (c / 2 % lanes == lane) {
          const auto y = static_cast<float>(x.at(r, c));
          sums.at(static_cast<std::size_t>(lane)) = std::fma(y, y, sums.at(static_cast<std::size_t>(lane)));
        }
    EXPECT_EQ(dot.at(r, 0), (sums[0] + sums[1]) + (sums[2] + sums[3])) << r;
  }
}

double sum_on_tensor_core(double c, const std::vector<double>& a, const std::vector<double>& b, Format factors) {
  constexpr TensorCore core;
  core.multiply_add(&c, a.data(), b.data(), static_cast<int>(a.size()), 1, factors);
  return c;
}

TEST(TensorCore, CutsWhatIsTwoBitsBelowTheLastPlace) {
  // The last place of 1 is 2^-23, and bits down to 2^-25 are kept.
  const std::vector<double> four(4, 0x1p-13);
  EXPECT_EQ(sum_on_tensor_core(1, four, std::vector<double>(4, 0x1p-12), Format::bf16), 1 + 0x1p-23);
  EXPECT_EQ(sum_on_tensor_core(1, four, std::vector<double>(4, 0x1p-13), Format::bf16), 1);
  // Towards zero, from either side.
  EXPECT_EQ(sum_on_tensor_core(1, {0x1p-12, 0x1p-13}, {0x1p-12, 0x1p-12}, Format::bf16), 1);
  EXPECT_EQ(sum_on_tensor_core(-1, {-0x1p-12, -0x1p-13}, {0x1p-12, 0x1p-12}, Format::bf16), -1);
}

TEST(TensorCore, AlignsToTheSumOfExponents) {
  // 1.5 * 1.5 is at exponent 0, as 1 * 1 is: 2^-25 stays beside both, and not beside 2 * 1.
  for (const double x : {1.0, 1.5}) EXPECT_EQ(sum_on_tensor_core(0x1p-25, {x, x}, {x, -x}, Format::bf16), 0x1p-25) << x;
  EXPECT_EQ(sum_on_tensor_core(0x1p-25, {2, 2}, {1, -1}, Format::bf16), 0);
}

TEST(TensorCore, LeavesZerosAndInfinities) {
  EXPECT_EQ(sum_on_tensor_core(0, {0, 0}, {1, 2}, Format::bf16), 0);
  EXPECT_EQ(sum_on_tensor_core(0x1p-149, {0}, {0}, Format::fp16), 0x1p-149);
  EXPECT_EQ(sum_on_tensor_core(unbounded, {1}, {1}, Format::bf16), unbounded);
  EXPECT_TRUE(std::isnan(sum_on_tensor_core(unbounded, {1}, {-unbounded}, Format::bf16)));
}

TEST(TensorCore, SumsTheProductsOfKernelsWhileEmulated) {
  constexpr int rows = 16, depth = 32;
  constexpr TensorCore core;
  static constexpr SiteTable::Init sites[] = {{"sum", Role::accumulator}, {"x", Role::operand}};
  std::vector<double> expected(rows * rows, 0.0);
  const auto product = [&] {
    HostBlock<double> b(Policy::of(SiteTable(sites), Format::bf16), 0);
    auto x = b.acc("sum"_s, Shape<rows, depth>{});
    std::mt19937_64 random(4);
    std::normal_distribution<float> normal;
    for (double& y : x.v) y = normal(random);
    auto narrow = b.cast("x"_s, x);
    auto sum = b.acc("sum"_s, Shape<rows, rows>{});
    b.mma_abt(sum, narrow, narrow);
    expected.assign(expected.size(), 0.0);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < rows; ++c)
        for (int k = 0; k < depth; k += 16)
          core.multiply_add(&expected[static_cast<std::size_t>(r * rows + c)],
                            &narrow.v[static_cast<std::size_t>(r * depth + k)],
                            &narrow.v[static_cast<std::size_t>(c * depth + k)], 16, 1, Format::bf16);
    return sum.v;
  };
  const std::vector<double> rounded = product();
  {
    const TensorCoreEmulation cutting(core);
    EXPECT_EQ(product(), expected);
  }
  EXPECT_NE(rounded, expected);
  EXPECT_EQ(product(), rounded);
}

}  // namespace
}  // namespace assay::tile
