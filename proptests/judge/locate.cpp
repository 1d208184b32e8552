// Where a tensor is wrong: faults planted in healthy noise, each of which must be named by the axis that explains it.
#include "judge/verdict/locate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "proptests/core/table.hpp"
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

/// As large as `size`, with a sign of its own at every element.
double rough(At at, double size) { return (at.token * 7 + at.dim * 3 + at.head) % 2 == 0 ? size : -size; }

/// The fault of a row of locate.json: of its size, or no number, at all indices of an axis, or those that it lists, or
/// from `first` to `last` of every so many.
std::function<double(At)> planted_by(const Json& row) {
  std::vector<std::set<int>> wrong;
  for (const NamedAxis& axis : axes) {
    const Json at = row.value(axis.one, Json::object());
    std::set<int>& indices = wrong.emplace_back();
    if (at.is_array()) indices = at.get<std::set<int>>();
    for (int i = 0; at.is_object() && i < axis.extent; ++i) {
      const int position = i % at.value("every", axis.extent);
      if (at.value("first", 0) <= position && position <= at.value("last", axis.extent)) indices.insert(i);
    }
  }
  const double size = row.value("size", std::nan(""));
  return [wrong, size](At a) {
    const bool is_wrong = wrong[0].contains(a.sequence) && wrong[1].contains(a.head) && wrong[2].contains(a.token) &&
                          wrong[3].contains(a.dim);
    return is_wrong ? rough(a, size) : 0;
  };
}

TEST(Locate, names_the_axis_of_every_planted_fault) {
  const Json rows = test_table("judge/locate.json").at("planted");
  for (const Json& row : rows)
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      const std::string where = locate(axes, deviations(seed, planted_by(row)));
      EXPECT_EQ(where.substr(0, where.find(';')), row.at("where").get<std::string>()) << row << ", seed " << seed;
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
  const Deviations one =
      deviations(3, planted_by(Json::parse(R"({"sequence": [1], "head": [3], "token": [70], "dimension": [9]})")));
  const Deviations weak = deviations(3, [](At a) { return rough(a, 1.5); });
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

void expect_described(const char* list) {
  const Json rows = test_table("judge/locate.json").at(list);
  for (const Json& row : rows) {
    const std::string one = row.value("axis", std::string("token"));
    const NamedAxis axis{one,
                         one + "s",
                         row.at("extent").get<int>(),
                         one == "token" ? 64 : 0,
                         row.value("tail", true),
                         row.value("borders", std::vector<int>())};
    EXPECT_EQ(describe(axis, row.at("indices").get<std::vector<int>>()), row.at("words").get<std::string>()) << row;
  }
}

TEST(Locate, describes_what_is_not_complete) {
  expect_described("not complete");
  EXPECT_THROW(describe({"dimension", "dimensions", 64, 0, true}, {}), InputError);
}

TEST(Locate, tells_of_sequences_one_after_the_other) { expect_described("sequences"); }

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
