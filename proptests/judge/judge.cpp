// The judge on trial: synthetic tensors with a known spread, tensors just inside and just outside their limits, every
// corruption, and every verdict.
#include "judge/verdict/judge.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "proptests/judge/noise.hpp"
#include "reference/core/error.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

std::vector<double> normal_tensor(std::size_t n, std::uint64_t seed) {
  Noise noise(seed);
  std::vector<double> t(n);
  for (double& x : t) x = noise.normal();
  return t;
}

/// Values drawn from N(0, 1), sigma 0.003 as in bf16, limits as for a spread known exactly.
Expected expected_of(std::vector<int> shape, double sigma = 0.003) {
  Expected e;
  e.layout = layout_of(shape, shape.size() == 3);
  e.shape = std::move(shape);
  e.ulp_format = Format::bf16;
  for (const double x : normal_tensor(e.layout.size(), 7)) e.value.push_back({x, 0});
  e.bound.assign(e.value.size(), 0);
  e.sigma.assign(e.value.size(), sigma);
  e.reach.assign(e.value.size(), 7);
  const Spread known{{}, {}, static_cast<double>(e.value.size()), 1000};
  e.rms_limit = rms_limit(known, false_alarm_rate);
  return e;
}

std::vector<double> off_by(const Expected& e, double sigmas) {
  std::vector<double> got;
  for (std::size_t i = 0; i < e.value.size(); ++i)
    got.push_back(e.value[i].hi + (i % 2 ? sigmas : -sigmas) * e.sigma[i]);
  return got;
}

std::vector<double> healthy(const Expected& e, std::uint64_t seed) {
  Noise noise(seed);
  std::vector<double> got;
  for (std::size_t i = 0; i < e.value.size(); ++i) got.push_back(e.value[i].hi + noise.normal() * e.sigma[i]);
  return got;
}

TEST(Judge, passes_gaussian_errors_of_the_stated_sigma) {
  const Expected e = expected_of({2, 24, 16});
  constexpr int runs = 400;
  double squares = 0;
  for (int seed = 1; seed <= runs; ++seed) {
    const Judgement j = judge(e, healthy(e, static_cast<std::uint64_t>(seed)));
    ASSERT_EQ(j.verdict, Verdict::pass) << j.reason;  // 400 runs at 1e-6 and 2.6e-12 per element
    squares += j.rms_z * j.rms_z / runs;
  }
  // Mean of runs * 768 squares: standard deviation sqrt(2 / n).
  EXPECT_NEAR(squares, 1, 5 * std::sqrt(2.0 / (runs * 768.0)));
}

/// Of more elements than one block of neighbours has: all blocks count.
TEST(Judge, measures_a_large_tensor_alike_on_any_number_of_threads) {
  Expected e = expected_of({2, 1100, 64}, 0x1p-8);
  for (HiLo& value : e.value) value.hi = std::round(value.hi * 0x1p10) * 0x1p-10;  // errors and their squares are exact
  e.weight.assign(e.value.size(), 1 / e.sigma[0]), e.gain_weight = gain_weights(e);
  for (const Slice& slice : slices_of(e.layout)) e.sums.push_back({slice, 1e5, 7}), e.gains.push_back({slice, 1e9, 7});
  std::vector<double> got;
  for (std::size_t i = 0; i < e.value.size(); ++i)
    got.push_back(e.value[i].hi + (static_cast<double>(7 * i % 5) - 2) * e.sigma[i]);
  const std::size_t last = got.size() - 1, late = last - 5;
  got[3] = e.value[3].hi + 9 * e.sigma[3], got[late] = e.value[late].hi - 10 * e.sigma[late];
  const Judgement j = judge(e, got);
  EXPECT_EQ(j.beyond, 2U);
  EXPECT_EQ(j.worst_z_at, late);
  double squares = 0;
  for (std::size_t i = 0; i < got.size(); ++i) squares += z_at(e, got, i) * z_at(e, got, i);
  EXPECT_EQ(j.rms_z, std::sqrt(squares / static_cast<double>(got.size())));
  for (const int threads : {2, 5}) EXPECT_EQ(judge(e, got, threads), j);
  EXPECT_EQ(undecided_at(e), std::nullopt);
  e.bound[last] = e.bound[70000] = 1;
  for (const int threads : {1, 5}) EXPECT_EQ(undecided_at(e, threads), 70000U);
}

TEST(Judge, rejects_one_element_just_outside_its_limit_and_accepts_it_just_inside) {
  const Expected e = expected_of({2, 24, 16});
  for (const std::size_t i : {std::size_t{0}, e.value.size() / 3, e.value.size() - 1}) {
    std::vector<double> got = healthy(e, 3);
    got[i] = e.value[i].hi + 0.99 * 7 * e.sigma[i];
    EXPECT_EQ(judge(e, got).verdict, Verdict::pass);
    got[i] = e.value[i].hi - 1.01 * 7 * e.sigma[i];
    const Judgement j = judge(e, got);
    EXPECT_EQ(j.verdict, Verdict::fail);
    EXPECT_EQ(j.worst_z_at, i);
    EXPECT_NEAR(j.worst_z, 7.07, 1e-9);
    EXPECT_NE(j.reason.find(place(e.shape, i)), std::string::npos) << j.reason;
  }
}

TEST(Judge, rejects_a_root_mean_square_just_outside_its_limit_and_accepts_it_just_inside) {
  const Expected e = expected_of({2, 24, 16});
  EXPECT_EQ(judge(e, off_by(e, 0.99 * e.rms_limit)).verdict, Verdict::pass);
  const Judgement j = judge(e, off_by(e, 1.01 * e.rms_limit + oracle_share));
  EXPECT_EQ(j.verdict, Verdict::fail);
  EXPECT_NE(j.reason.find("root mean square"), std::string::npos) << j.reason;
}

TEST(Judge, rejects_what_is_not_finite) {
  const Expected e = expected_of({24, 16});
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()})
    for (const std::size_t i : {std::size_t{0}, std::size_t{100}, std::size_t{383}}) {
      std::vector<double> got = healthy(e, 5);
      got[i] = bad;
      const Judgement j = judge(e, got);
      EXPECT_EQ(j.verdict, Verdict::fail);
      EXPECT_NE(j.reason.find(place(e.shape, i)), std::string::npos) << j.reason;
    }
}

TEST(Judge, rejects_every_corruption_when_it_is_the_answer) {
  for (const std::vector<int>& shape : {std::vector<int>{3, 16, 16}, {2, 150, 8}, {2, 5, 1}, {40, 12}, {9}}) {
    const Expected e = expected_of(shape);
    int applied = 0;
    for (const Corruption& c : corruptions()) {
      if (!c.applies(e.layout)) continue;
      EXPECT_EQ(judge(e, c.applied(healthy(e, 11), e.layout)).verdict, Verdict::fail) << c.name;
      ++applied;
    }
    EXPECT_GE(applied, 7);
  }
}

TEST(Judge, rejects_what_it_fails) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  Expected vague = expected_of({2, 5, 3}), overflowing = vague, leaning = vague;
  vague.bound[3] = vague.sigma[3], overflowing.sigma[4] = infinite;
  leaning.weight.assign(leaning.value.size(), 1 / leaning.sigma[0]);
  for (const Slice& slice : slices_of(leaning.layout)) leaning.sums.push_back({slice, 4, 3});
  int passed = 0, failed = 0;
  for (const Expected& e : {expected_of({5}), expected_of({3, 4, 4}), vague, overflowing, leaning})
    for (const double sigmas : {0.0, 0.5, 1.0, 2.0, 3.0, 6.9, 7.1})
      for (int kind = 0; kind < 5; ++kind) {
        std::vector<double> got = off_by(e, kind == 4 ? 0 : sigmas);
        if (kind == 1) got[0] = infinite;
        if (kind == 2) got.back() = std::nan("");
        if (kind == 3 && std::isinf(e.sigma[std::min<std::size_t>(4, got.size() - 1)])) got[4] = infinite;
        for (std::size_t i = 0; kind == 4 && i < got.size(); ++i) got[i] += sigmas * e.sigma[0];
        const bool fails = judge(e, got).verdict == Verdict::fail;
        EXPECT_EQ(rejects(e, got), fails) << sigmas << ' ' << kind;
        ++(fails ? failed : passed);
        // An answer that ends early is exact from there.
        std::vector<double> first_head(got.begin(),
                                       got.begin() + static_cast<std::ptrdiff_t>(e.layout.size()) / e.layout.heads);
        got = first_head;
        for (std::size_t i = got.size(); i < e.value.size(); ++i) got.push_back(e.value[i].hi);
        EXPECT_EQ(Rejection(e).rejects(first_head), rejects(e, got)) << sigmas << ' ' << kind;
      }
  EXPECT_GT(passed, 30);
  EXPECT_GT(failed, 30);
}

/// Half of sigma at each of 30 elements comes to 15, against a limit of 12.
TEST(Judge, sees_what_leans_to_either_side) {
  Expected e = expected_of({2, 5, 3});
  e.weight.assign(e.value.size(), 1 / e.sigma[0]);
  for (const Slice& slice : slices_of(e.layout)) e.sums.push_back({slice, 4, 3});
  for (const double sigmas : {0.5, -0.5}) {
    std::vector<double> got;
    for (const HiLo& value : e.value) got.push_back(value.hi + sigmas * e.sigma[0]);
    EXPECT_EQ(judge(e, got).verdict, Verdict::fail) << sigmas;
    EXPECT_EQ(judge(e, got).worst_sum_slice, "the whole tensor") << sigmas;
  }
}

/// Values that hide a corruption: where a tensor is vacuous, or else a blind spot of one that passes.
struct HidingCase {
  std::vector<int> shape;
  double (*value)(int h, int r, int c, double drawn);
  std::string_view corruption;
  Verdict verdict = Verdict::vacuous;
};
double hash(int a, int b) { return 1 + 0.1 * ((a * 7 + b * 3) % 11); }
const HidingCase hiding_cases[] = {
    // A part of 3 sigma, or of 1.9 in half of the tensor, is seen by itself, and drowns among the others.
    {{2, 12, 8}, [](int h, int, int c, double) { return hash(h, c); }, "rows_shifted"},
    {{2, 12, 8}, [](int h, int r, int c, double) { return hash(h, c) + std::min(r, 11 - r); }, "rows_reversed"},
    {{2, 12, 8}, [](int h, int r, int c, double) { return hash(h, c) + std::min(r, 10); }, "last_row_stale"},
    {{2, 12, 8}, [](int, int r, int, double x) { return r < 11 ? x : 0.009; }, "last_row_zero"},
    {{2, 12, 8}, [](int h, int r, int c, double) { return hash(h, c) + r % 6; }, "previous_tile"},
    {{2, 150, 8}, [](int h, int r, int c, double) { return hash(h, c) + (r % 128) % 64; }, "previous_tile"},
    {{2, 12, 8}, [](int h, int r, int, double) { return hash(h, r); }, "columns_rotated"},
    {{2, 12, 8}, [](int, int, int c, double x) { return c < 7 ? x : 0.009; }, "last_column_zero"},
    {{2, 8, 8}, [](int h, int r, int c, double) { return hash(h, r) * hash(h, c) + 1e-9 * r; }, "transposed"},
    {{2, 12, 8}, [](int h, int r, int c, double) { return hash(r, c) + 1e-9 * h; }, "heads_swapped"},
    {{2, 12, 8}, [](int h, int, int, double x) { return h < 1 ? x : 0.0057; }, "last_head_zero"},
    // A symmetric matrix is right when it is transposed, and equal heads are when they are exchanged.
    {{2, 8, 8}, [](int h, int r, int c, double) { return hash(h, r) * hash(h, c); }, "transposed", Verdict::pass},
    {{2, 8, 8}, [](int, int r, int c, double) { return hash(r, c); }, "heads_swapped", Verdict::pass},
    // Of a part in which there is nothing to see no copy has to be rejected, as of a tensor that is UNSEEN.
    {{2, 12, 8}, [](int, int r, int, double x) { return r < 11 ? x : 1e-6 * x; }, "last_row_zero", Verdict::pass},
    {{2, 12, 8}, [](int, int, int c, double x) { return c < 7 ? x : 1e-6 * x; }, "last_column_zero", Verdict::pass},
    {{2, 12, 8}, [](int h, int, int, double x) { return h < 1 ? x : 1e-6 * x; }, "last_head_zero", Verdict::pass},
};

TEST(Judge, names_what_values_hide) {
  for (const HidingCase& row : hiding_cases) {
    SCOPED_TRACE(row.corruption);
    Expected e = expected_of(row.shape);
    std::size_t i = 0;
    for (int h = 0; h < e.layout.heads; ++h)
      for (int r = 0; r < e.layout.rows; ++r)
        for (int c = 0; c < e.layout.cols; ++c, ++i) e.value[i] = {row.value(h, r, c, e.value[i].hi), 0};
    const Judgement j = judge(e, healthy(e, 2));
    EXPECT_EQ(j.verdict, row.verdict) << j.reason;
    if (row.verdict == Verdict::vacuous) {
      EXPECT_TRUE(std::ranges::count(j.accepted_corruptions, row.corruption));
      EXPECT_NE(j.reason.find(row.corruption), std::string::npos) << j.reason;
    } else {
      EXPECT_EQ(j.blind_spots, std::vector<std::string_view>{row.corruption});
    }
  }
}

/// An answer is infinite where its dtype holds no number of that size, and with the sign of the truth.
TEST(Judge, takes_infinity_where_the_dtype_holds_no_such_number) {
  Expected e = expected_of({24, 16});
  e.stored = Format::fp16, e.value[3] = {7e4, 0}, e.value[5] = {-7e4, 0}, e.value[7] = {6e4, 0};
  std::vector<double> got = healthy(e, 1);
  const double inf = std::numeric_limits<double>::infinity();
  got[3] = inf, got[5] = -inf;
  EXPECT_EQ(judge(e, got).verdict, Verdict::pass) << judge(e, got).reason;
  EXPECT_EQ(judge(e, got).infinite, 2U);
  EXPECT_FALSE(rejects(e, got));
  for (const auto& [i, wrong] : {std::pair(3, -inf), std::pair(7, inf), std::pair(0, inf)}) {
    std::vector<double> other = got;
    other[static_cast<std::size_t>(i)] = wrong;
    EXPECT_EQ(judge(e, other).verdict, Verdict::fail) << i;
    EXPECT_TRUE(judge(e, other).not_finite && rejects(e, other)) << i;
  }
}

/// One stale element of a vector is reported, not required: it may be no further off than a correct one.
TEST(Judge, names_what_a_vector_cannot_reveal) {
  const Expected e = expected_of({40}, 0.2);
  std::vector<double> got = healthy(e, 1);
  const Judgement j = judge(e, got);
  EXPECT_EQ(j.verdict, Verdict::pass) << j.reason;
  EXPECT_TRUE(std::count(j.blind_spots.begin(), j.blind_spots.end(), "last_row_zero"));
  EXPECT_TRUE(judge(expected_of({40}, 1e-4), healthy(expected_of({40}, 1e-4), 1)).blind_spots.empty());
}

/// A row that is zero and must be exactly so hides that nothing wrote it. Where the truth is zero throughout, zeros are
/// right, and what is not zero is not.
TEST(Judge, names_what_an_exact_zero_cannot_reveal) {
  const auto zero_from = [](int first) {
    Expected e = expected_of({2, 12, 8});
    std::vector<double> got = healthy(e, 2);
    for (std::size_t i = 0; i < got.size(); ++i)
      if (static_cast<int>(i / 8 % 12) >= first) e.value[i] = {0, 0}, e.sigma[i] = e.bound[i] = got[i] = 0;
    return judge(e, got);
  };
  EXPECT_EQ(zero_from(11).verdict, Verdict::pass) << zero_from(11).reason;
  EXPECT_EQ(zero_from(11).blind_spots, std::vector<std::string_view>{"last_row_zero"});
  const Judgement nothing = zero_from(0);
  EXPECT_EQ(nothing.verdict, Verdict::pass);
  EXPECT_TRUE(std::count(nothing.blind_spots.begin(), nothing.blind_spots.end(), "zeros"));
  Expected e = expected_of({2, 12, 8});
  std::vector<double> got(e.value.size());
  for (HiLo& value : e.value) value = {0, 0};
  EXPECT_EQ(judge(e, got).verdict, Verdict::pass);
  got[17] = 20 * e.sigma[17];
  EXPECT_EQ(judge(e, got).verdict, Verdict::fail);
}

TEST(Judge, sees_nothing_where_sigma_drowns_the_values) {
  const Expected e = expected_of({2, 24, 16}, 2.0);
  const Judgement j = judge(e, healthy(e, 1));
  EXPECT_EQ(j.verdict, Verdict::unseen);
  EXPECT_GE(j.accepted_corruptions.size(), 8u);
}

TEST(Judge, is_undecided_where_the_oracle_is_not_sharp_enough) {
  Expected e = expected_of({24, 16});
  e.bound[17] = 0.99 * oracle_share * e.sigma[17];
  EXPECT_EQ(judge(e, healthy(e, 1)).verdict, Verdict::pass);
  e.bound[17] = 1.01 * oracle_share * e.sigma[17];
  EXPECT_EQ(judge(e, healthy(e, 1)).verdict, Verdict::undecided);
  std::vector<double> broken = healthy(e, 1);
  broken[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(judge(e, broken).verdict, Verdict::fail);  // no oracle is needed to see that
  e.bound[17] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(judge(e, healthy(e, 1)).verdict, Verdict::undecided);
}

TEST(Judge, wants_equality_to_the_oracles_bound_where_sigma_is_zero) {
  Expected e = expected_of({24, 16});
  e.sigma[5] = 0, e.bound[5] = 1e-20, e.value[5] = {1.5, 1e-21};
  std::vector<double> got = healthy(e, 1);
  EXPECT_EQ(judge(e, got).verdict, Verdict::pass);
  got[5] = std::nextafter(1.5, 2);
  const Judgement j = judge(e, got);
  EXPECT_EQ(j.verdict, Verdict::fail);
  EXPECT_TRUE(std::isinf(j.worst_z));
  EXPECT_EQ(j.worst_z_at, 5u);
}

TEST(Judge, elements_that_cannot_spread_do_not_dilute_the_root_mean_square) {
  Expected e = expected_of({24, 16});
  for (std::size_t i = 0; i < e.sigma.size(); i += 2) e.sigma[i] = 0;
  EXPECT_NEAR(judge(e, off_by(e, 1.2)).rms_z, 1.2, 1e-9);
}

/// An infinity that the contract forces is not the kernel's fault, another one is.
TEST(Judge, does_not_judge_what_the_contract_itself_overflows) {
  Expected e = expected_of({24, 16});
  std::vector<double> got = healthy(e, 1);
  e.sigma[3] = std::numeric_limits<double>::infinity();
  for (const double overflow : {got[3], e.sigma[3], -e.sigma[3], std::numeric_limits<double>::quiet_NaN()}) {
    got[3] = overflow;
    const Judgement j = judge(e, got);
    EXPECT_EQ(j.verdict, Verdict::unsupported) << overflow;
    EXPECT_EQ(j.reason, "[0][3]: the contract's own roundings overflow");
  }
  got[4] = e.sigma[3];  // others overflow elsewhere
  EXPECT_EQ(judge(e, got).verdict, Verdict::unsupported);
}

/// All limits of a run together, exceeded as rarely as it says.
TEST(Judge, shares_the_rate_of_a_run_among_its_tensors_and_elements) {
  const auto normal_tail = [](double x) { return std::erfc(x / std::numbers::sqrt2); };
  for (const double rate : {1e-3, 1e-6, 1e-12})
    for (const std::size_t tensors : {1U, 6U, 500U})
      for (const std::size_t elements : {500U, 100000U, 100000000U}) {
        const Limits limits = limits_of(rate, tensors, elements);
        const double of_elements = normal_tail(limits.sigmas) * static_cast<double>(elements),
                     of_rms = limits.tensor_rate * static_cast<double>(tensors), of_sums = of_rms;
        EXPECT_LE(of_elements + of_rms + of_sums, rate * (1 + 1e-9)) << rate << ' ' << tensors << ' ' << elements;
        EXPECT_GE(limits.sigmas, element_sigmas);
        if (limits.sigmas > element_sigmas) {
          EXPECT_NEAR(of_elements / rate, 1 / 3., 1e-6);
        }
      }
  EXPECT_EQ(limits_of(1e-6, 6, 1000).sigmas, element_sigmas);
}

TEST(Judge, smallest_gain_is_where_the_verdict_turns) {
  for (const double sigma : {1e-4, 3e-3, 3e-2}) {
    const Expected e = expected_of({2, 24, 16}, sigma);
    const std::vector<double> got = healthy(e, 9);
    const double gain = judge(e, got).smallest_gain;
    const auto scaled = [&](double g) {
      std::vector<double> t = got;
      for (double& x : t) x *= 1 + g;
      return judge(e, t).verdict;
    };
    EXPECT_EQ(scaled(0.99 * gain), Verdict::pass) << gain;
    EXPECT_EQ(scaled(1.01 * gain), Verdict::fail) << gain;
  }
}

TEST(Judge, measures_errors_as_defined) {
  Expected e = expected_of({2, 2});
  e.value = {{1, 0}, {-2, 0x1p-60}, {4, 0}, {0, 0}};
  const Judgement j = judge(e, {1, -2, 4.0625, 0});
  EXPECT_DOUBLE_EQ(j.relative_error, 0.0625 / std::sqrt(21.0));
  EXPECT_DOUBLE_EQ(j.max_error, 0.0625);
  EXPECT_EQ(j.max_error_at, 2u);
  EXPECT_DOUBLE_EQ(j.worst_ulps, 2);  // bf16 numbers in [4, 8) are 1/32 apart
  EXPECT_EQ(place({2, 3, 4}, 23), "[1][2][3]");
  EXPECT_EQ(place({}, 0), "");
}

TEST(Judge, sees_the_low_word_of_the_oracle) {
  Expected e = expected_of({1});
  e.value = {{1, 0x1p-60}}, e.sigma = {0x1p-61};
  EXPECT_NEAR(judge(e, {1}).worst_z, 2, 1e-12);
}

TEST(Judge, refuses_a_tensor_of_another_size) {
  const Expected e = expected_of({24, 16});
  EXPECT_THROW(judge(e, std::vector<double>(383)), InputError);
}

/// A kernel has one tile shape of several, and which is not known.
TEST(Judge, takes_the_shape_that_a_tensor_fits) {
  const auto of = [](Verdict verdict, std::size_t beyond = 0) {
    Judgement j;
    j.verdict = verdict, j.beyond = beyond;
    return j;
  };
  EXPECT_EQ(fitting({of(Verdict::fail, 3), of(Verdict::pass)}), 1U);
  EXPECT_EQ(fitting({of(Verdict::pass), of(Verdict::unseen), of(Verdict::vacuous)}), 2U);
  EXPECT_EQ(fitting({of(Verdict::pass), of(Verdict::unseen)}), 1U);
  EXPECT_EQ(fitting({of(Verdict::fail, 1), of(Verdict::undecided), of(Verdict::pass)}), 2U);
  EXPECT_EQ(fitting({of(Verdict::fail, 1), of(Verdict::undecided)}), 1U);
  EXPECT_EQ(fitting({of(Verdict::fail, 251), of(Verdict::fail, 246)}), 0U);
  EXPECT_EQ(fitting({of(Verdict::fail, 9), of(Verdict::fail, 1)}), 1U);
  EXPECT_EQ(fitting({of(Verdict::fail, 1), of(Verdict::fail)}), 1U);
}

}  // namespace
}  // namespace assay
