// Signed sums over slices on trial: worked by hand, against errors of known correlation, and for what only they see.
#include "judge/verdict/slices.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "judge/sigma/expected.hpp"
#include "judge/verdict/judge.hpp"
#include "proptests/judge/noise.hpp"

namespace assay {
namespace {

using Numbers = std::vector<double>;

TEST(Slices, sum_heads_chunks_positions_columns_and_rows) {
  const Layout layout{2, 65, 2};
  Numbers weight(layout.size(), 1), error(layout.size());
  const auto at = [](int h, int r, int c) { return static_cast<std::size_t>((h * 65 + r) * 2 + c); };
  error[at(0, 0, 0)] = 1, error[at(1, 64, 0)] = 10, error[at(1, 3, 1)] = 100;
  error[at(0, 5, 1)] = 1e6, weight[at(0, 5, 1)] = 0;
  weight[at(1, 3, 1)] = 0.5;
  const std::vector<Slice> slices = slices_of(layout);
  const Numbers sums = slice_sums(layout, weight, error);
  ASSERT_EQ(sums.size(), 1U + 2 + 2 + (16 + 32 + 64) + 2 + 65 + 2 * 65);
  ASSERT_EQ(slices.size(), sums.size());
  const auto sum = [&](const char* name) {
    for (std::size_t i = 0; i < slices.size(); ++i)
      if (slices[i].name() == name) return sums[i];
    ADD_FAILURE() << name;
    return 0.0;
  };
  EXPECT_EQ(sum("the whole tensor"), 61);
  EXPECT_EQ(sum("head 0"), 1);
  EXPECT_EQ(sum("head 1"), 60);
  EXPECT_EQ(sum("rows 0 to 63"), 51);
  EXPECT_EQ(sum("rows 64 to 127"), 10);
  EXPECT_EQ(sum("position 0 of every chunk of 64"), 11);
  EXPECT_EQ(sum("position 3 of every chunk of 64"), 50);
  EXPECT_EQ(sum("position 5 of every chunk of 64"), 0);
  EXPECT_EQ(sum("position 0 of every chunk of 32"), 11);
  EXPECT_EQ(sum("position 3 of every chunk of 16"), 50);
  EXPECT_EQ(sum("row 0"), 1);
  EXPECT_EQ(sum("row 64"), 10);
  EXPECT_EQ(sum("row 3 of head 1"), 50);
  EXPECT_EQ(sum("row 3 of head 0"), 0);
  EXPECT_EQ(sum("column 0"), 11);
  EXPECT_EQ(sum("column 1"), 50);
  EXPECT_EQ(slices_of({1, 16, 1}).size(), 1U) << "one head, one chunk, one column: nothing to tell apart";
}

/// Columns go in blocks of rows, whatever the threads.
TEST(Slices, of_a_large_tensor_have_the_same_bits_on_any_number_of_threads) {
  const Layout layout{3, 700, 96};
  Noise noise(5);
  Numbers terms(layout.size());
  for (double& x : terms) x = std::round(100 * noise.normal());  // whose sums are exact
  const auto by = [&](int threads) {
    return slice_sums<2>(layout, terms.size() - 100, threads, [&](std::size_t i) { return std::array{terms[i], 1.0}; });
  };
  const auto [sums, counts] = by(1);
  EXPECT_EQ(counts[0], static_cast<double>(terms.size() - 100));
  EXPECT_EQ(counts.back(), 0) << "the last row is left out";
  double column = 0;
  for (std::size_t r = 0; r < 3 * 700 - 1; ++r) column += terms[r * 96];
  EXPECT_EQ(sums[SliceOffsets(layout).column], column);
  for (double& x : terms) x /= 3;
  EXPECT_EQ(by(4)[0], by(1)[0]);
}

/// Errors of standard deviation 1: independent, common to a column, or to everything.
struct ErrorModel {
  const char* name;
  Layout layout;
  double of_column, of_all;
};
constexpr ErrorModel error_models[] = {{"independent", {2, 70, 4}, 0, 0},
                                       {"columns", {1, 70, 8}, 0.6, 0},
                                       {"common", {2, 20, 4}, 0, 1},
                                       {"number", {1, 1, 1}, 0, 0}};

Numbers errors_of(const ErrorModel& model, Noise& random) {
  const Layout& n = model.layout;
  Numbers column(static_cast<std::size_t>(n.cols)), errors;
  const double all = random.normal(), rest = std::sqrt(1 - model.of_column * model.of_column);
  for (double& x : column) x = random.normal();
  for (std::size_t i = 0; i < n.size(); ++i) {
    const double x = rest * random.normal() + model.of_column * column[i % column.size()];
    errors.push_back(model.of_all * all + std::sqrt(1 - model.of_all * model.of_all) * x);
  }
  return errors;
}

/// Jittered rounding has twice the variance; every element leans by `lean`.
std::vector<Numbers> draws_of(const ErrorModel& model, Noise& random, double lean = 0) {
  std::vector<Numbers> list;
  for (int k = 0; k < default_draws; ++k) {
    list.push_back(errors_of(model, random));
    for (double& x : list.back()) x = lean + std::sqrt(2.0) * x;
  }
  return list;
}

/// A sigma of one that the draws have all of.
Spread drawn_alone(std::size_t n) { return {.sigma = Numbers(n, 1), .freedom = {}, .drawn = Numbers(n, 1)}; }

bool rejects(const std::vector<SliceSum>& expected, const Layout& layout, const Numbers& weight, const Numbers& error) {
  const Numbers sums = slice_sums(layout, weight, error);
  for (std::size_t s = 0; s < sums.size(); ++s)
    if (!(std::fabs(sums[s]) <= expected[s].reach * expected[s].sigma)) return true;
  return false;
}

TEST(Slices, raise_false_alarms_no_more_often_than_stated) {
  constexpr double rate = 0.02;
  for (const ErrorModel& model : error_models) {
    Noise random(9);
    const Numbers zeros(model.layout.size()), ones(model.layout.size(), 1);
    Numbers values;
    while (values.size() < zeros.size()) values.push_back(random.normal());
    const int trials = zeros.size() > 100 ? 400 : 2000;
    int alarms = 0;
    for (int t = 0; t < trials; ++t) {
      const Numbers& weight = t % 2 == 0 ? ones : values;  // as of leans, and of gains
      const std::vector<SliceSum> expected =
          expected_sums(draws_of(model, random), zeros, {zeros}, model.layout, weight, drawn_alone(zeros.size()), rate);
      alarms += rejects(expected, model.layout, weight, errors_of(model, random)) ? 1 : 0;
    }
    EXPECT_LE(alarms, trials * rate + 5 * std::sqrt(trials * rate)) << model.name;
  }
}

TEST(Slices, let_pass_what_correct_kernels_lean) {
  const ErrorModel& model = error_models[0];
  const Numbers zeros(model.layout.size()), ones(model.layout.size(), 1), leaning(model.layout.size(), 0.8);
  Noise random(5);
  const auto expected_of = [&](double lean_of_draws, const Numbers& own) {
    return expected_sums(draws_of(model, random, lean_of_draws), zeros, {own}, model.layout, ones,
                         drawn_alone(zeros.size()), 1e-6);
  };
  EXPECT_TRUE(rejects(expected_of(0, zeros), model.layout, ones, leaning));
  EXPECT_FALSE(rejects(expected_of(0.8, zeros), model.layout, ones, leaning)) << "random rounding leans as well";
  EXPECT_FALSE(rejects(expected_of(0, leaning), model.layout, ones, leaning)) << "the contract's own rounding leans";
}

/// A column of which nothing counts has nothing to lean by, whatever those next to it do.
TEST(Slices, stay_exact_where_nothing_may_be_off) {
  const Layout layout{1, 50, 2};
  const Numbers zeros(layout.size());
  Numbers weight, own;
  for (std::size_t i = 0; i < layout.size(); ++i) weight.push_back(i % 2 ? 1 : 0), own.push_back(1);
  const std::vector<SliceSum> expected = expected_sums(std::vector<Numbers>(default_draws, zeros), zeros, {own}, layout,
                                                       weight, drawn_alone(zeros.size()), 1e-6);
  for (const SliceSum& sum : expected) {
    const bool whole = sum.slice.axis == Slice::Axis::tensor || sum.slice.axis == Slice::Axis::column;
    EXPECT_GT(sum.sigma + (sum.slice.name() == "column 0" ? 1 : 0), 0) << sum.slice.name();
    if (whole) {
      EXPECT_DOUBLE_EQ(sum.sigma, sum.slice.name() == "column 0" ? 0 : 50) << sum.slice.name();
    }
  }
}

/// Values of a hundred sigma, what draws say of them, and an answer with errors of one sigma.
struct LearntOf {
  Expected e;
  Numbers got;

  LearntOf(const Layout& layout, std::uint64_t seed)
      : e{.shape = {layout.heads, layout.rows, layout.cols},
          .layout = layout,
          .value = {},
          .bound = {},
          .sigma = {},
          .reach = {}} {
    Noise random(seed);
    std::vector<Numbers> samples(default_draws, Numbers(layout.size()));
    Numbers exact;
    for (std::size_t i = 0; i < layout.size(); ++i) {
      exact.push_back(random.normal());
      for (Numbers& draw : samples) draw[i] = exact[i] + std::sqrt(2.0) * 0.01 * random.normal();
      got.push_back(exact[i] + 0.01 * random.normal());
      e.value.push_back({exact[i], 0});
    }
    const Spread spread = spread_of(samples, exact, layout, Format::fp64);
    e.bound.assign(exact.size(), 0), e.sigma = spread.sigma;
    e.rms_limit = rms_limit(spread, false_alarm_rate);
    for (const double freedom : spread.freedom) e.reach.push_back(equivalent_sigmas(element_sigmas, freedom));
    for (const double sigma : e.sigma) e.weight.push_back(1 / sigma);
    e.gain_weight = gain_weights(e);
    e.sums = expected_sums(samples, exact, {exact}, layout, e.weight, spread, false_alarm_rate);
    e.gains = expected_sums(samples, exact, {exact}, layout, e.gain_weight, spread, false_alarm_rate);
  }
};

/// A fifth of sigma, in one column: no element and no mean square shows it.
TEST(Slices, see_what_nothing_else_sees) {
  auto [e, got] = LearntOf({1, 4096, 8}, 11);
  const Judgement healthy = judge(e, got);
  EXPECT_EQ(healthy.verdict, Verdict::pass) << healthy.reason;
  for (std::size_t i = 5; i < got.size(); i += 8) got[i] += 0.002;
  const Judgement leaning = judge(e, got);
  EXPECT_EQ(leaning.verdict, Verdict::fail);
  EXPECT_EQ(leaning.worst_sum_slice, "column 5");
  EXPECT_NE(leaning.reason.find("errors of column 5 lean to one side"), std::string::npos) << leaning.reason;
  EXPECT_LE(leaning.rms_z, leaning.rms_limit);
  EXPECT_LT(leaning.worst_z, 7);
  e.sums.clear();
  EXPECT_EQ(judge(e, got).verdict, Verdict::pass) << "it is the sums that see it";
}

/// Beside errors of one, 1e-273 has no gain: its square is no double. (The bandwidth's gradient of a softmax attention
/// in fp16 whose scores are far apart.)
TEST(Slices, see_no_gain_of_what_errors_hide) {
  const Layout layout{1, 1, 1};
  const Numbers exact{1e-273};
  Noise random(14);
  std::vector<Numbers> samples(default_draws, Numbers(1));
  for (Numbers& draw : samples) draw[0] = random.normal();
  const Spread spread = spread_of(samples, exact, layout, Format::fp64);
  Expected e{
      .shape = {}, .layout = layout, .value = {{exact[0], 0}}, .bound = {0}, .sigma = spread.sigma, .reach = {9}};
  e.rms_limit = 9;
  e.gain_weight = gain_weights(e);
  e.gains = expected_sums(samples, exact, {exact}, layout, e.gain_weight, spread, false_alarm_rate);
  const Judgement healthy = judge(e, {1e-5});
  EXPECT_TRUE(passes(healthy.verdict)) << healthy.reason;
  EXPECT_EQ(judge(e, {100}).verdict, Verdict::fail);
}

/// A part of the values, in one head, one row, or one row of every 16: it leans to no side.
TEST(Slices, see_small_gains) {
  struct Gain {
    const char* slice;
    double by;
    bool (*has)(int head, int row);
  };
  const Layout layout{2, 256, 64};
  for (const Gain& gain :
       {Gain{"head 1", 0.002, [](int head, int) { return head == 1; }},
        Gain{"row 7 of head 0", -0.015, [](int head, int row) { return head == 0 && row == 7; }},
        Gain{"position 3 of every chunk of 16", 0.004, [](int, int row) { return row % 16 == 3; }}}) {
    auto [e, got] = LearntOf(layout, 12);
    ASSERT_EQ(judge(e, got).verdict, Verdict::pass) << judge(e, got).reason;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const int row = static_cast<int>(i) / layout.cols;
      if (gain.has(row / layout.rows, row % layout.rows)) got[i] *= 1 + gain.by;
    }
    const Judgement found = judge(e, got);
    EXPECT_EQ(found.verdict, Verdict::fail) << gain.slice;
    EXPECT_EQ(found.worst_gain_slice, gain.slice);
    EXPECT_NEAR(found.gain, gain.by, std::fabs(gain.by) / 2) << gain.slice;
    e.gains.clear();
    EXPECT_EQ(judge(e, got).verdict, Verdict::pass) << "it is the gains that see it";
  }
}

}  // namespace
}  // namespace assay
