// One rounding more: what it allows, to either side of a tie and to numbers that are all the same, and what it does
// not.
#include "judge/sigma/stored.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "reference/core/rounding.hpp"

namespace assay {
namespace {

constexpr double bf16_spacing = 0x1p-7;  // from 1 to 2

/// Two heads of 64 x 32 numbers that a kernel errs by `sigma` in, known from `freedom` degrees of it.
Expected of_fp32(const std::function<double(std::size_t)>& value, double sigma, double freedom = 15) {
  Expected e{.shape = {2, 64, 32}, .layout = {2, 64, 32}, .value = {}, .bound = {}, .sigma = {}, .reach = {}};
  const std::size_t n = e.layout.size();
  for (std::size_t i = 0; i < n; ++i) e.value.push_back({value(i), 0});
  e.bound.assign(n, 0), e.sigma.assign(n, sigma), e.freedom.assign(n, freedom);
  e.reach.assign(n, equivalent_sigmas(element_sigmas, freedom));
  e.stored = e.ulp_format = Format::fp32;
  e.rms_limit = 1.5;
  e.weight.assign(n, sigma > 0 ? 1 / sigma : 0);
  const std::vector<double> ones(n, sigma > 0 ? 1 : 0), counts = slice_sums(e.layout, ones, ones);
  const std::vector<Slice> slices = slices_of(e.layout);
  for (std::size_t s = 0; s < slices.size(); ++s) e.sums.push_back({slices[s], std::sqrt(counts[s]), 7});
  return e;
}

double scattered(std::size_t i) { return 1 + static_cast<double>(RandomBits{}.at(i) >> 12) * 0x1p-52; }
double tie(std::size_t) { return 1 + bf16_spacing / 2; }

/// The verdict on what `stored` makes of the truth.
Verdict verdict(const Expected& e, const std::function<double(double)>& stored) {
  std::vector<double> got;
  for (const HiLo& x : e.value) got.push_back(stored(x.hi));
  return judge(e, got).verdict;
}
double nearest(double x) { return round_to(x, Format::bf16); }
double down(double x) { return round_to(x, Format::bf16, Rounding::toward_zero); }
double up(double x) { return down(x) + bf16_spacing; }

TEST(Storage, allows_one_rounding_and_no_more) {
  for (const double sigma : {1e-9, 1e-4, 0.01}) {
    Expected e = of_fp32(scattered, sigma);
    EXPECT_EQ(verdict(e, nearest) == Verdict::fail, sigma < 1e-3);
    ASSERT_TRUE(allow_storage(e, Format::bf16));
    EXPECT_EQ(verdict(e, nearest), Verdict::pass) << sigma;
    if (sigma > bf16_spacing) continue;
    EXPECT_EQ(verdict(e, down), Verdict::fail) << "rounded to one side, " << sigma;
    EXPECT_EQ(verdict(e, [](double x) { return nearest(x) + 3 * bf16_spacing; }), Verdict::fail) << sigma;
  }
}

/// Elements that round alike lean together and are off by the most that there is; a tie may go either way.
TEST(Storage, allows_ties_to_either_side) {
  Expected e = of_fp32(tie, 1e-9);
  ASSERT_TRUE(allow_storage(e, Format::bf16));
  for (const auto& side : {down, up}) EXPECT_NE(verdict(e, side), Verdict::fail);
  // The truth is rounded to even here, up and down by turns, and a kernel that is a little less rounds all of it down.
  Expected turns = of_fp32([](std::size_t i) { return tie(i) + static_cast<double>(i % 2) * bf16_spacing; }, 1e-9);
  ASSERT_TRUE(allow_storage(turns, Format::bf16));
  EXPECT_NE(verdict(turns, down), Verdict::fail);
  // Ties that round down among numbers that round up: their sum is less than where a kernel rounds all of it up.
  Expected mixed = of_fp32([](std::size_t i) { return i % 2 == 0 ? tie(i) : 1 + 0.75 * bf16_spacing; }, 1e-9);
  ASSERT_TRUE(allow_storage(mixed, Format::bf16));
  EXPECT_NE(verdict(mixed, up), Verdict::fail);
  // No tie, all the same: off by a quarter of a spacing, to the same side, and not to the other.
  Expected same = of_fp32([](std::size_t) { return 1 + bf16_spacing / 4; }, 1e-9);
  ASSERT_TRUE(allow_storage(same, Format::bf16));
  EXPECT_NE(verdict(same, down), Verdict::fail);
  EXPECT_EQ(verdict(same, up), Verdict::fail);
}

TEST(Storage, what_must_be_exact_is_the_number_next_to_it) {
  Expected e = of_fp32([](std::size_t i) { return i % 2 == 0 ? scattered(i) : 1.5; }, 0);
  ASSERT_TRUE(allow_storage(e, Format::bf16));
  EXPECT_EQ(e.sigma, std::vector<double>(e.sigma.size(), 0.0));
  EXPECT_NE(verdict(e, nearest), Verdict::fail);
  EXPECT_EQ(verdict(e, down), Verdict::fail) << "up to a spacing off";
  EXPECT_EQ(verdict(e, [](double x) { return x == 1.5 ? x + bf16_spacing : nearest(x); }), Verdict::fail);
  EXPECT_EQ(verdict(e, [](double x) { return x == 1.5 || x > 1.9 ? nearest(x) : nearest(x) + bf16_spacing; }),
            Verdict::fail);
  Expected either = of_fp32(tie, 0);
  ASSERT_TRUE(allow_storage(either, Format::bf16));
  for (const auto& side : {down, up}) EXPECT_NE(verdict(either, side), Verdict::fail);
}

TEST(Storage, changes_nothing_where_the_dtype_is_as_fine) {
  for (const Format dtype : {Format::fp32, Format::fp64}) {
    Expected e = of_fp32(scattered, 1e-9);
    EXPECT_FALSE(allow_storage(e, dtype));
    EXPECT_EQ(e.sigma.front(), 1e-9);
    EXPECT_EQ(e.stored, Format::fp32);
  }
  // Once is once.
  Expected e = of_fp32(scattered, 1e-9);
  ASSERT_TRUE(allow_storage(e, Format::bf16));
  const std::vector<double> sigma = e.sigma;
  EXPECT_FALSE(allow_storage(e, Format::bf16));
  EXPECT_EQ(e.sigma, sigma);
  EXPECT_EQ(e.ulp_format, Format::bf16);
}

/// The rounding is known; only what was known before is uncertain.
TEST(Storage, a_known_rounding_needs_no_more_reach_than_a_known_sigma) {
  Expected e = of_fp32(scattered, 1e-9);
  EXPECT_GT(e.reach.front(), 15);
  allow_storage(e, Format::bf16);
  EXPECT_NEAR(e.reach.front(), element_sigmas, 1e-6);
  Expected large = of_fp32(scattered, 0.1);
  const double before = large.reach.front();
  allow_storage(large, Format::bf16);
  EXPECT_NEAR(large.reach.front(), before, 0.05 * before);
}

/// fp16 has more digits than bf16 and a smaller range: small numbers lose some.
TEST(Storage, sees_the_range_as_well_as_the_digits) {
  EXPECT_TRUE(is_narrower(Format::fp16, Format::bf16));
  EXPECT_TRUE(is_narrower(Format::bf16, Format::fp16));
  EXPECT_TRUE(is_narrower(Format::bf16, Format::tf32));
  EXPECT_FALSE(is_narrower(Format::fp64, Format::fp32));
  EXPECT_FALSE(is_narrower(Format::e4m3, Format::e4m3));
  Expected e = of_fp32([](std::size_t i) { return scattered(i) * (i == 7 ? 0x1p-22 : 1); }, 1e-12);
  e.stored = Format::bf16;
  ASSERT_TRUE(allow_storage(e, Format::fp16));
  EXPECT_GT(e.sigma[7], 1e-9);
  EXPECT_EQ(e.sigma[8], 1e-12);
}

}  // namespace
}  // namespace assay
