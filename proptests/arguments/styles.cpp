// Codes and scales of cases with operands of few bits are drawn operands. That styles get to the traps that they are
// named for is in proptests/transcripts/arguments.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "arguments/drawn_case.hpp"
#include "reference/core/rounding.hpp"

namespace assay::arguments {
namespace {

/// A case of that style, 1 sequence of 24 tokens, 2 heads of which both have keys.
Safetensors drawn_in(const char* style) {
  return draw_case({.mechanism = "softmax_attention",
                    .shape = {.seq_len = 24, .heads = 2, .key_dim = 32, .value_dim = 32},
                    .precision = Format::fp32,
                    .with = {{"lse", ""}},
                    .argument_style = style},
                   "test");
}
std::vector<double> numbers(const Safetensors& file, const std::string& name) {
  return load(name, file.tensors.at(name)).data;
}

/// Operands of a style, in blocks of so many channels, and between which sizes the largest code of a block is: a power
/// of two puts it into the last binade of E4M3; a scale of E4M3 errs by a sixteenth at most, and what is above 5
/// becomes 6; a scale in single precision makes it the largest of E4M3.
struct Operands {
  const char* style;
  std::vector<std::string> names;
  std::size_t block;
  double least, most;
};

/// Codes times scales are what the style `normal` draws, but for a rounding to a code; and codes are of their grid.
TEST(ArgumentStyles, CodesAndScalesAreTheDrawnOperands) {
  const Safetensors plain = drawn_in("");
  const std::set<double> e2m1 = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (const auto& [style, names, block, least, most] : {Operands{"mxfp8", {"q", "k", "v"}, 32, 256, 448},
                                                         {"nvfp4", {"q", "k", "v"}, 16, 6, 6},
                                                         {"fp8_per_token_head", {"k", "v"}, 32, 448, 448}}) {
    const bool of_powers = least < most, of_four_bits = most == 6;
    const Safetensors file = drawn_in(style);
    EXPECT_EQ(file.tensors.contains("q_scale"), names.size() == 3) << style;
    for (const std::string& name : names) {
      const std::vector<double> codes = numbers(file, name), scales = numbers(file, name + "_scale"),
                                x = numbers(plain, name);
      ASSERT_EQ(scales.size(), codes.size() / block) << style << ' ' << name;
      for (std::size_t first = 0; first < codes.size(); first += block) {
        double largest = 0;
        for (std::size_t i = first; i < first + block; ++i) largest = std::max(largest, std::fabs(codes[i]));
        EXPECT_TRUE(least <= largest && largest <= most) << style << ' ' << name << ' ' << largest;
      }
      for (std::size_t i = 0; i < codes.size(); ++i) {
        const std::size_t head = i / 32 % 2, token = i / 64, channel = i % 32;  // [T][H][32]; scales are [H][T][blocks]
        const double scale = scales[(head * 24 + token) * (32 / block) + channel / block], size = std::fabs(codes[i]);
        int exponent = 0;
        EXPECT_TRUE(!of_powers || std::frexp(scale, &exponent) == 0.5) << scale;
        EXPECT_TRUE(of_four_bits ? e2m1.contains(size) : codes[i] == round_to(codes[i], Format::e4m3)) << codes[i];
        // Half a step of E4M3 above 2^-6, or one sixth of the numbers that saturate; half a step of E2M1.
        const double step = of_four_bits ? scale : std::max(std::fabs(x[i]) / 16, std::ldexp(scale, -10));
        EXPECT_LE(std::fabs(codes[i] * scale - x[i]), of_powers && size == 448 ? std::fabs(x[i]) / 8 : step)
            << style << ' ' << name << ' ' << i;
      }
    }
  }
}

}  // namespace
}  // namespace assay::arguments
