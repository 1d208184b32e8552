// Rounding by block: against the definition of a block, number by number, and how blocks are spelled.
#include "reference/core/blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "proptests/core/table.hpp"

namespace assay {
namespace {

constexpr std::size_t block_rows = 37, block_cols = 40;  // no multiple of any block's

const auto spelled_blocks = test_table("core/blocks.json").at("spelled").get<std::vector<std::string>>();

/// Numbers in (-1, 1), each row and every 8 columns with an exponent of their own.
std::vector<double> numbers_of_many_sizes(std::uint64_t seed) {
  const RandomBits random{seed};
  std::vector<double> x(block_rows * block_cols);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t r = i / block_cols, c = i % block_cols;
    const double size = std::ldexp(1.0, static_cast<int>((random.at(1000 + r) + random.at(2000 + c / 8)) % 7));
    x[i] = size * (static_cast<double>(random.at(5000 + i) >> 11) * 0x1p-52 - 1);
  }
  return x;
}

/// What such a name spells.
BlockFormat spelled(const std::string& name) { return block_format_from(name).value(); }

std::vector<double> in_blocks_of(std::vector<double> x, const BlockFormat& to,
                                 Rounding rounding = Rounding::nearest_even, std::uint64_t seed = 0) {
  RandomBits random{seed, 0};
  round_by_blocks(x.data(), block_rows, block_cols, to, rounding, random);
  return x;
}

/// Whether two numbers share a scale, as docs/contracts.md says.
bool share_a_scale(const Blocks& blocks, std::size_t r, std::size_t c, std::size_t s, std::size_t d) {
  const auto down = static_cast<std::size_t>(blocks.rows), across = static_cast<std::size_t>(blocks.cols);
  if (r / down != s / down || c / across != d / across) return false;
  if (blocks.modulo == 0) return true;
  const auto modulo = static_cast<std::size_t>(blocks.modulo), run = static_cast<std::size_t>(blocks.run);
  return r % down % modulo / run == s % down % modulo / run;
}

TEST(Blocks, are_spelled_as_they_are_read) {
  for (const std::string& name : spelled_blocks) {
    const BlockFormat read = spelled(name);
    EXPECT_EQ(name_of(read.format, read.blocks), name);
  }
  const BlockFormat weights = spelled("e2m1/1x16:e4m3 two_level late");
  EXPECT_EQ(weights.blocks,
            (Blocks{.rows = 1, .cols = 16, .scale = ScaleFormat::e4m3, .two_level = true, .late = true}));
  EXPECT_EQ(spelled("bf16").format, Format::bf16);
  EXPECT_TRUE(spelled("bf16").blocks.none());
  EXPECT_EQ(name_of(Format::bf16, Blocks{}), "bf16");
  const Json misspelled = test_table("core/blocks.json").at("misspelled");
  for (const std::string none : misspelled) EXPECT_FALSE(block_format_from(none).has_value()) << none;
}

/// No number is off by more than half a spacing at the largest of those that share its scale. A scale in e4m3 is off by
/// a sixteenth at most, one in e8m0 less than twice what it need be.
TEST(Blocks, are_off_by_half_a_spacing_of_their_largest_at_most) {
  for (const std::string& name : spelled_blocks) {
    const BlockFormat to = spelled(name);
    const Blocks& blocks = to.blocks;
    const FormatInfo f = info(to.format);
    const double half = std::ldexp(0.5, f.max_exponent - f.mantissa_bits) / f.max_finite;
    const double slack = blocks.scale == ScaleFormat::e8m0   ? 2
                         : blocks.scale == ScaleFormat::e4m3 ? 1 + 0x1p-4
                                                             : 1 + 0x1p-23;
    const std::vector<double> x = numbers_of_many_sizes(7), y = in_blocks_of(x, to);
    const std::size_t width = std::min(block_cols, static_cast<std::size_t>(blocks.leading));
    std::vector<double> mean(block_cols);
    for (std::size_t i = 0; blocks.centred && i < x.size(); ++i)
      mean[i % block_cols] += x[i] / static_cast<double>(block_rows);
    int moved = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t r = i / block_cols, c = i % block_cols;
      if (c >= width) {
        EXPECT_EQ(y[i], x[i]) << name;
        continue;
      }
      double most = 0;
      for (std::size_t j = 0; j < x.size(); ++j)
        if (j % block_cols < width && share_a_scale(blocks, r, c, j / block_cols, j % block_cols))
          most = std::max(most, std::fabs(x[j] - mean[j % block_cols]));
      EXPECT_LE(std::fabs(y[i] - x[i]), half * slack * most) << name << ' ' << r << ' ' << c;
      moved += y[i] != x[i] ? 1 : 0;
    }
    EXPECT_GT(moved, 0) << name;
  }
}

/// What is on the grid of its block's scale stays: rounding twice is rounding once, and zeros are zero.
TEST(Blocks, leave_what_they_have_rounded) {
  const std::vector<double> zeros(block_rows * block_cols);
  for (const std::string& name : spelled_blocks) {
    const BlockFormat to = spelled(name);
    EXPECT_EQ(in_blocks_of(zeros, to), zeros) << name;
    if (to.blocks.centred) continue;
    const std::vector<double> once = in_blocks_of(numbers_of_many_sizes(8), to);
    for (const Rounding rounding : {Rounding::nearest_even, Rounding::jittered, Rounding::toward_zero})
      EXPECT_EQ(in_blocks_of(once, to, rounding, 3), once) << name << ' ' << name_of(rounding);
  }
}

/// A mean that all rows share costs no digits of a centred block.
TEST(Blocks, that_are_centred_lose_nothing_to_the_mean) {
  const std::vector<double> x = numbers_of_many_sizes(10);
  std::vector<double> far = x;
  for (double& value : far) value += 0x1p12;
  const auto error = [&](const std::vector<double>& of, const char* name) {
    const std::vector<double> rounded_ones = in_blocks_of(of, spelled(name));
    double sum = 0;
    for (std::size_t i = 0; i < of.size(); ++i) sum += (rounded_ones[i] - of[i]) * (rounded_ones[i] - of[i]);
    return std::sqrt(sum);
  };
  EXPECT_GT(error(far, "int8/allxall"), 8 * error(x, "int8/allxall"));
  EXPECT_LT(error(far, "int8/allxall centred"), 2 * error(x, "int8/allxall centred"));
}

std::vector<double> row_in_blocks(std::vector<double> x, const char* name) {
  RandomBits random;
  round_by_blocks(x.data(), 1, x.size(), spelled(name), Rounding::nearest_even, random);
  return x;
}

/// A block 2^-14 below its row's largest: its scale vanishes in e4m3, and as a multiple of the row's it errs by a
/// sixteenth at most.
TEST(Blocks, of_two_levels_reach_further_down) {
  std::vector<double> row(32, 0x1p-14);
  row[0] = 1;
  EXPECT_EQ(row_in_blocks(row, "e2m1/1x16:e4m3").back(), 0);
  EXPECT_NEAR(row_in_blocks(row, "e2m1/1x16:e4m3 two_level").back(), 0x1p-14, 0x1p-14 / 16);
}

/// Late scales: numbers are those of the exact scale, times the rounded one.
TEST(Blocks, with_late_scales_are_off_by_the_scales_rounding) {
  std::vector<double> x(16, 0);
  x[0] = 6 * 1.05, x[1] = 3 * 1.05;
  x = row_in_blocks(x, "e2m1/1x16:e4m3 late");
  EXPECT_EQ(x[0], 6 * round_to(1.05, Format::e4m3));
  EXPECT_EQ(x[1], 3 * round_to(1.05, Format::e4m3));
}

/// The mean of n draws of a number between two of its block's grid is within five standard deviations of it: one is at
/// most half a spacing over the root of n.
TEST(Blocks, are_drawn_without_bias) {
  const BlockFormat to = spelled("e2m1/1xall");
  const std::vector<double> row = {6, 0.3, 0.7, 1.2, 1.8, 2.6, 3.3, 5.5, -4.7, -0.9};
  constexpr int n = 4000;
  std::vector<double> sum(row.size());
  for (int k = 0; k < n; ++k) {
    std::vector<double> x = row;
    RandomBits random{RandomBits{11}.at(static_cast<std::uint64_t>(k)), 0};
    round_by_blocks(x.data(), 1, x.size(), to, Rounding::jittered, random);
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] += x[i] / n;
  }
  for (std::size_t i = 0; i < row.size(); ++i) {
    const double size = std::fabs(row[i]), step = size < 2 ? 0.5 : size < 4 ? 1 : 2;
    EXPECT_NEAR(sum[i], row[i], 5 * step / 2 / std::sqrt(static_cast<double>(n))) << row[i];
  }
}

/// Whatever scale the others of its block have.
TEST(Blocks, keep_what_is_no_number) {
  for (const double others : {0.0, 1.0}) {
    std::vector<double> x(16, others);
    x[3] = std::nan("");
    EXPECT_TRUE(std::isnan(row_in_blocks(x, "e2m1/1x16:e4m3")[3])) << others;
  }
}

}  // namespace
}  // namespace assay
