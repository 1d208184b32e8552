// Where a tensor is wrong: faults planted in healthy noise, each of which must be named by the axis that explains it.
#include "judge/verdict/locate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "proptests/judge/noise.hpp"
#include "reference/core/error.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

/// o of two sequences, four heads, 200 tokens (the last chunk has 8) and 16 dimensions.
const std::vector<NamedAxis> axes = {{"sequence", "sequences", 2},
                                     {"head", "heads", 4},
                                     {"token", "tokens", 200, 64, true},
                                     {"dimension", "dimensions", 16, 0, true}};

struct At {
  int sequence, head, token, dim;
};

/// Standard normal numbers, to each of which `fault` adds.
Deviations deviations(std::uint64_t seed, const std::function<double(At)>& fault) {
  Noise noise(seed);
  Deviations d;
  d.mean_square_limit = 2;
  for (int b = 0; b < 2; ++b)
    for (int h = 0; h < 4; ++h)
      for (int t = 0; t < 200; ++t)
        for (int c = 0; c < 16; ++c) {
          const double z = noise.normal() + fault({b, h, t, c});
          d.z.push_back(std::isnan(z) ? std::numeric_limits<double>::infinity() : std::fabs(z));
          d.failing.push_back(!(std::fabs(z) <= element_sigmas));
        }
  return d;
}

struct Planted {
  const char* name;
  std::function<double(At)> fault;
  const char* where;  ///< without the count of elements
};

/// As large as `size`, with a sign of its own at every element.
double rough(At at, double size) { return (at.token * 7 + at.dim * 3 + at.head) % 2 == 0 ? size : -size; }

const Planted planted[] = {
    {"one head", [](At a) { return a.head == 2 ? rough(a, 30) : 0; },
     "all sequences, head 2 of 4, all tokens, all dimensions"},
    {"two heads", [](At a) { return a.head >= 2 ? rough(a, 30) : 0; },
     "all sequences, heads 2..3 of 4, all tokens, all dimensions"},
    {"one sequence", [](At a) { return a.sequence == 0 ? rough(a, 30) : 0; },
     "sequence 0 of 2, all heads, all tokens, all dimensions"},
    {"one dimension", [](At a) { return a.dim == 5 ? rough(a, 12) : 0; },
     "all sequences, all heads, all tokens, dimension 5 of 16"},
    {"the last column", [](At a) { return a.dim == 15 ? rough(a, 40) : 0; },
     "all sequences, all heads, all tokens, the last dimension 15 of 16"},
    {"every fourth dimension", [](At a) { return a.dim % 4 == 1 ? rough(a, 15) : 0; },
     "all sequences, all heads, all tokens, every 4th dimension from 1 to 13 of 16"},
    {"from a token on", [](At a) { return a.token >= 100 ? rough(a, 20) : 0; },
     "all sequences, all heads, tokens 100..199 of 200, all dimensions"},
    {"from a chunk on", [](At a) { return a.token >= 64 ? rough(a, 20) : 0; },
     "all sequences, all heads, tokens 64..199 of 200 (chunks 1..3), all dimensions"},
    {"one chunk", [](At a) { return a.token / 64 == 1 ? rough(a, 20) : 0; },
     "all sequences, all heads, tokens 64..127 of 200 (chunk 1), all dimensions"},
    {"the ragged chunk", [](At a) { return a.token >= 192 ? rough(a, 20) : 0; },
     "all sequences, all heads, tokens 192..199 of 200 (chunk 3), all dimensions"},
    {"the first of every chunk", [](At a) { return a.token % 64 == 0 ? rough(a, 20) : 0; },
     "all sequences, all heads, position 0 of every chunk of 64 tokens, all dimensions"},
    {"the end of every chunk", [](At a) { return a.token % 64 >= 48 ? rough(a, 20) : 0; },
     "all sequences, all heads, positions 48..63 of every chunk of 64 tokens, all dimensions"},
    {"the last rows", [](At a) { return a.token >= 197 ? rough(a, 50) : 0; },
     "all sequences, all heads, the last 3 tokens, 197..199 of 200, all dimensions"},
    {"the last row of one head", [](At a) { return a.token == 199 && a.head == 1 ? rough(a, 50) : 0; },
     "all sequences, head 1 of 4, the last token 199 of 200 (position 7 of chunk 3), all dimensions"},
    {"the first row", [](At a) { return a.token == 0 ? rough(a, 25) : 0; },
     "all sequences, all heads, token 0 of 200 (position 0 of chunk 0), all dimensions"},
    {"one element",
     [](At a) { return a.sequence == 1 && a.head == 3 && a.token == 70 && a.dim == 9 ? std::nan("") : 0; },
     "sequence 1 of 2, head 3 of 4, token 70 of 200 (position 6 of chunk 1), dimension 9 of 16"},
    {"three tokens", [](At a) { return a.token == 3 || a.token == 17 || a.token == 98 ? rough(a, 40) : 0; },
     "all sequences, all heads, tokens 3, 17, 98 of 200, all dimensions"},
    {"a box", [](At a) { return a.head == 1 && a.token >= 128 && a.dim < 8 ? rough(a, 18) : 0; },
     "all sequences, head 1 of 4, tokens 128..199 of 200 (chunks 2..3), dimensions 0..7 of 16"},
    {"everything a little", [](At a) { return rough(a, 1.5); }, "all sequences, all heads, all tokens, all dimensions"},
    {"one head a little", [](At a) { return a.head == 1 ? rough(a, 3) : 0; },
     "all sequences, head 1 of 4, all tokens, all dimensions"},
    {"not a number anywhere", [](At) { return std::nan(""); }, "all sequences, all heads, all tokens, all dimensions"},
};

TEST(Locate, names_the_axis_of_every_planted_fault) {
  for (const Planted& p : planted)
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      const std::string where = locate(axes, deviations(seed, p.fault));
      EXPECT_EQ(where.substr(0, where.find(';')), p.where) << p.name << ", seed " << seed;
    }
}

/// An error that grows: the first token where it shows cannot be exact, the last one is.
TEST(Locate, finds_since_when_an_error_grows) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const auto wrong = wrong_indices(
        axes, deviations(seed, [](At a) { return a.head == 0 && a.token > 80 ? rough(a, 0.2 * (a.token - 80)) : 0; }));
    EXPECT_EQ(wrong[0], (std::vector<int>{0, 1}));
    EXPECT_EQ(wrong[1], std::vector<int>{0});
    EXPECT_GE(wrong[2].front(), 81) << seed;
    EXPECT_LE(wrong[2].front(), 115) << seed;
    EXPECT_EQ(wrong[2].back(), 199);
    EXPECT_EQ(wrong[3].size(), 16U);
  }
}

TEST(Locate, counts_the_elements_beyond_their_limits) {
  const Deviations one = deviations(3, planted[15].fault), weak = deviations(3, [](At a) { return rough(a, 1.5); });
  EXPECT_TRUE(locate(axes, one).ends_with("; 1 of 25600 elements beyond their limits")) << locate(axes, one);
  EXPECT_TRUE(locate(axes, weak).ends_with("; no element alone is beyond its limit")) << locate(axes, weak);
}

/// Nothing that fails is left out, whatever else stands out.
TEST(Locate, holds_every_failing_element) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    RandomBits random{seed};
    const auto draw = [&](int n) { return static_cast<int>(random.next() % static_cast<std::uint64_t>(n)); };
    const At spike{draw(2), draw(4), draw(200), draw(16)};
    const int strong = draw(4);
    const auto wrong = wrong_indices(axes, deviations(seed, [&](At a) {
                                       const bool here = a.sequence == spike.sequence && a.head == spike.head &&
                                                         a.token == spike.token && a.dim == spike.dim;
                                       return here ? 100.0 : a.head == strong ? rough(a, 40) : 0;
                                     }));
    const auto holds = [&](std::size_t axis, int i) {
      return std::find(wrong[axis].begin(), wrong[axis].end(), i) != wrong[axis].end();
    };
    EXPECT_TRUE(holds(0, spike.sequence) && holds(1, spike.head) && holds(2, spike.token) && holds(3, spike.dim));
    EXPECT_TRUE(holds(1, strong));
  }
}

TEST(Locate, describes_what_is_not_complete) {
  const NamedAxis tokens{"token", "tokens", 100, 64, true}, dims{"dimension", "dimensions", 64, 0, true};
  EXPECT_EQ(describe(tokens, {10, 11, 12, 14, 15, 16}), "tokens 10..16 of 100 (6 of 7)");
  EXPECT_EQ(describe(tokens, {0, 99}), "tokens 0, 99 of 100");
  EXPECT_EQ(describe(tokens, {64, 65}), "tokens 64..65 of 100");
  EXPECT_EQ(describe(tokens, {5, 69}), "position 5 of every chunk of 64 tokens");
  EXPECT_EQ(describe({"token", "tokens", 130, 64}, {2, 66}), "position 2 of every chunk of 64 tokens");
  EXPECT_EQ(describe({"token", "tokens", 131, 64}, {2, 66}), "position 2 of chunks 0..1 of 64 tokens");
  EXPECT_EQ(describe(tokens, {60, 61, 62}), "tokens 60..62 of 100");
  EXPECT_EQ(describe(dims, {63}), "the last dimension 63 of 64");
  EXPECT_EQ(describe(dims, {62, 63}), "the last 2 dimensions, 62..63 of 64");
  EXPECT_EQ(describe(dims, {0, 2, 4, 8, 10, 12}), "every 2nd dimension from 0 to 12 of 64 (6 of 7)");
  EXPECT_EQ(describe({"token", "tokens", 300, 64}, {70, 134, 198}), "position 6 of chunks 1..3 of 64 tokens");
  EXPECT_EQ(describe({"token", "tokens", 40, 64, true}, {39}), "the last token 39 of 40");
  EXPECT_THROW(describe(dims, {}), InputError);
}

TEST(Locate, tells_of_sequences_one_after_the_other) {
  const NamedAxis tokens{"token", "tokens", 100, 64, true, {0, 40, 73, 100}};
  std::vector<int> second;
  for (int t = 40; t < 73; ++t) second.push_back(t);
  EXPECT_EQ(describe(tokens, second), "sequence 1 of 3");
  EXPECT_EQ(describe(tokens, {45, 46, 47}), "tokens 5..7 of 33 in sequence 1 of 3");
  EXPECT_EQ(describe(tokens, {0, 40, 73}), "token 0 of all sequences");
  EXPECT_EQ(describe(tokens, {40, 41, 73, 74}), "tokens 0..1 of sequences 1..2 of 3");
  EXPECT_EQ(describe(tokens, {39, 72, 99}), "the last token of all sequences");
  EXPECT_EQ(describe(tokens, {30, 31, 45}), "tokens 30, 31, 45 of 100");
}

/// proptests/transcripts/causes.md has the axes of a room's tensors.
TEST(Locate, wants_as_many_numbers_as_the_axes_have) {
  EXPECT_EQ(locate({}, {{9}, {1}, 2}), "the number itself");
  EXPECT_THROW(locate(axes, {{9}, {1}, 2}), InputError);
}

/// A NaN and an infinity count as beyond every limit; what is healthy does not.
TEST(Locate, takes_what_the_judge_measures) {
  Expected e;
  e.shape = {1, 4};
  e.layout = {1, 4, 1};
  for (const double x : {1.0, 2.0, 3.0, 4.0}) e.value.push_back({x, 0});
  e.bound.assign(4, 0), e.sigma.assign(4, 0.5), e.reach.assign(4, 7);
  e.rms_limit = 1.5;
  const Deviations d = deviations_of(e, {1.5, std::nan(""), -std::numeric_limits<double>::infinity(), 8});
  EXPECT_EQ(d.z[0], 1);
  EXPECT_EQ(d.z[3], 8);
  EXPECT_EQ(d.failing, (std::vector<char>{0, 1, 1, 1}));
  EXPECT_EQ(d.mean_square_limit, 2.25);
}

}  // namespace
}  // namespace assay
