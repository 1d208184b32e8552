// W2 against 335 bits, within the bounds that its header states.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <utility>

#include "proptests/oracles/scalars_inputs.hpp"

namespace assay::scalars {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
constexpr double smallest = std::numeric_limits<double>::denorm_min();

/// Largest error seen, as a multiple of what was allowed.
class Worst {
 public:
  void see(const W2& got, const Mp100& truth, const Mp100& allowed) {
    ASSERT_EQ(got.hi, got.hi + got.lo) << "words overlap";
    const Mp100 error = abs(exact(got) - truth);
    if (error == 0) return;
    const double ratio = to_double(Mp100(error / allowed));
    ASSERT_LE(ratio, 1) << "got " << got.hi << " + " << got.lo;
    ratio_ = std::max(ratio_, ratio);
  }
  /// A run that never saw a rounding error tested nothing.
  void expect_seen(const char* where) const {
    EXPECT_GT(ratio_, 0);
    testing::Test::RecordProperty(where, std::to_string(ratio_));
  }

 private:
  double ratio_ = 0;
};

/// Operands of these exponents, every second pair cancelling if asked for.
struct Exponents {
  const char* where;
  int lowest, highest;
  bool cancelling = false;
};

/// Calls `check(worst, range, a, b)` with operands of every range.
template <class Check>
void expect_within(std::initializer_list<Exponents> ranges, Check check) {
  for (const Exponents& range : ranges) {
    SCOPED_TRACE(range.where);
    Worst worst;
    Draw draw(20240611);
    for (int i = 0; i < 10000 && !testing::Test::HasFatalFailure(); ++i) {
      const W2 a = draw.word_pair(range.lowest, range.highest);
      check(worst, range, a,
            range.cancelling && i % 2 ? draw.opposite(a) : draw.word_pair(range.lowest, range.highest));
    }
    worst.expect_seen(range.where);
  }
}

constexpr double add_bound = 3 * u * u + 13 * u * u * u, multiply_bound = 5 * u * u,
                 divide_bound = 15 * u * u + 56 * u * u * u, sqrt_bound = 25.0 / 8 * u * u, exp_bound = 5 * u * u,
                 log_bound = 35 * u * u;
const W2 step{0x1.62e42fefa39efp-7, 0x1.abc9e3b39803fp-62};  // ln 2 / 64

TEST(W2, RoundsItsExponentialSooner) {
  Draw draw(20261122);
  const auto same = [](double x) { ASSERT_EQ(exp_to_nearest(x), exp(W2(x)).hi) << x; };
  for (int i = 0; i < 300000 && !testing::Test::HasFatalFailure(); ++i) same(draw.word_pair(-60, 9).hi);
  for (int k = -1010; k <= 1010 && !testing::Test::HasFatalFailure(); ++k)
    for (const double next : {-infinity, infinity}) same(k * step.hi), same(std::nextafter((k + 0.5) * step.hi, next));
  for (const double x : {0.0, -0.0, 699.99, 700.0, 709.8, -745.2, -746.0, infinity, -infinity, smallest}) same(x);
  EXPECT_TRUE(std::isnan(exp_to_nearest(nan)));
}

TEST(W2, AddsWithinItsBoundUnderCancellation) {
  expect_within({{"middle", -20, 20, true},
                 {"close", -1, 1, true},
                 {"tiny", -1022, -940, true},
                 {"underflow", -1074, -940, true},
                 {"huge", 990, 1021, true}},
                [](Worst& worst, const Exponents&, const W2& a, const W2& b) {
                  const Mp100 sum = exact(a) + exact(b), rest = exact(a) - exact(b);
                  worst.see(a + b, sum, add_bound * abs(sum));
                  worst.see(a - b, rest, add_bound * abs(rest));
                });
}

TEST(W2, MultipliesWithinItsBound) {
  // 2^-968 = 2^-1074 2^106: from there up all low words are exact.
  expect_within({{"middle", -20, 20}, {"tiny", -484, -400}, {"underflow", -560, -440}, {"huge", 400, 510}},
                [](Worst& worst, const Exponents& range, const W2& a, const W2& b) {
                  const Mp100 product = exact(a) * exact(b);
                  const double lost = range.lowest < -20 ? w2_underflow : 0;
                  worst.see(a * b, product, multiply_bound * abs(product) + lost);
                });
}

TEST(W2, DividesWithinItsBound) {
  expect_within({{"middle", -20, 20}, {"tiny", -460, -400}, {"underflow", -1074, -940, true}, {"huge", 400, 510}},
                [](Worst& worst, const Exponents& range, const W2& a, const W2& b) {
                  if (!std::isfinite(a.hi / b.hi)) return;
                  const Mp100 quotient = exact(a) / exact(b);
                  const Mp100 lost = range.lowest < -460 ? Mp100(1 + 1 / abs(exact(b))) : Mp100(1);
                  worst.see(a / b, quotient, divide_bound * abs(quotient) + w2_underflow * lost);
                });
}

TEST(W2, TakesSquareRootsWithinItsBound) {
  expect_within({{"middle", -20, 20}, {"tiny", -968, -900}, {"underflow", -1074, -940}, {"huge", 900, 1023}},
                [](Worst& worst, const Exponents& range, const W2& a, const W2&) {
                  const Mp100 root = sqrt(abs(exact(a)));
                  const Mp100 lost = range.lowest < -968 ? Mp100(w2_underflow / root) : Mp100(0);
                  worst.see(sqrt(abs(a)), root, sqrt_bound * root + lost);
                });
}

TEST(W2, ExponentiatesWithinItsBound) {
  Draw draw(7);
  const auto check = [](Worst& worst, const W2& x) {
    const Mp100 truth = exp(exact(x));
    worst.see(exp(x), truth, exp_bound * truth + (x.hi < -600 ? w2_underflow : 0));
  };
  Worst everywhere, at_seams, near_zero;
  for (int i = 0; i < 3000 && !HasFatalFailure(); ++i) {
    const W2 x = draw.word_pair(-12, 9);
    if (std::abs(x.hi) <= 700) check(everywhere, x);
    // Where the nearest table entry changes.
    const W2 half_way = W2(draw.integer(-64600, 64600) + 0.5) * step;
    check(at_seams, half_way + W2(draw.real(-60, -20)));
    check(near_zero, draw.word_pair(-900, -40));
    check(near_zero, W2(draw.real(-3, 0)) - W2(745));
  }
  everywhere.expect_seen("everywhere");
  at_seams.expect_seen("at_seams");
}

TEST(W2, TakesLogarithmsWithinItsBound) {
  Draw draw(8);
  const auto check = [](Worst& worst, const W2& x) {
    const Mp100 truth = log(exact(x));
    worst.see(log(x), truth, log_bound * abs(truth));
  };
  Worst everywhere, near_one, near_nodes;
  for (int i = 0; i < 1500 && !HasFatalFailure(); ++i) {
    check(everywhere, abs(draw.word_pair(-1074, 1023)));
    check(near_one, W2(1) + draw.word_pair(-200, -1) * W2(0.5));
    // 2^(j/128): even j are table entries, odd ones seams between them.
    const W2 edge = exp(W2(draw.integer(-130, 130)) * (step * W2(0.5)));
    check(near_nodes, edge * (W2(1) + draw.word_pair(-110, -7) * W2(0.5)));
  }
  everywhere.expect_seen("everywhere");
  near_one.expect_seen("near_one");
  near_nodes.expect_seen("near_nodes");
}

TEST(W2, KeepsBothWordsOfWideSums) {
  const W2 wide = W2(1) + W2(0x1p-1000);
  EXPECT_EQ(wide, W2(1, 0x1p-1000));
  EXPECT_EQ(wide - W2(1), W2(0x1p-1000));
  EXPECT_EQ(wide * W2(0x1p-40), W2(0x1p-40, 0x1p-1040));
  EXPECT_LT(W2(1), wide);
  EXPECT_GT(W2(1), W2(1, -0x1p-1000));
}

TEST(W2, TreatsInfinitiesZerosAndNanAsDoubleDoes) {
  const std::array<double, 7> values{0, 1, -2.5, infinity, -infinity, nan, 0x1.fp1023};
  const auto same = [](double expected, const W2& got) {
    if (std::isnan(expected)) return std::isnan(got.hi) && isnan(got);
    return got.hi == expected && got.lo == 0 && isfinite(got) == std::isfinite(expected);
  };
  // Only the quotients of finite, non-zero numbers have a low word, and overflow happens alike.
  const auto whole = [](double a, double b) { return !(std::isfinite(a) && std::isfinite(b)) || a == 0 || b == 0; };
  for (const double a : values) {
    for (const double b : values) {
      EXPECT_TRUE(!whole(a, b) || same(a + b, W2(a) + W2(b))) << a << " + " << b;
      EXPECT_TRUE(!whole(a, b) || same(a - b, W2(a) - W2(b))) << a << " - " << b;
      EXPECT_TRUE(!whole(a, b) || same(a * b, W2(a) * W2(b))) << a << " * " << b;
      EXPECT_TRUE(!whole(a, b) || same(a / b, W2(a) / W2(b))) << a << " / " << b;
      EXPECT_EQ(a < b, W2(a) < W2(b)) << a << " < " << b;
      EXPECT_EQ(a == b, W2(a) == W2(b)) << a << " == " << b;
    }
  }
  EXPECT_TRUE(same(infinity, W2(0x1.fp1023) + W2(0x1.fp1023)));
  EXPECT_TRUE(same(-infinity, W2(0x1.fp1023) * W2(-2)));
  for (const auto& [x, power] : {std::pair(-infinity, 0.0),
                                 {-1e308, 0.0},
                                 {-744.5, smallest},
                                 {0.0, 1.0},
                                 {709.9, infinity},
                                 {infinity, infinity},
                                 {nan, nan}})
    EXPECT_TRUE(same(power, exp(W2(x)))) << x;
  EXPECT_TRUE(isfinite(exp(W2(709.7))));
  for (const auto& [x, logarithm] :
       {std::pair(0.0, -infinity), {1.0, 0.0}, {infinity, infinity}, {-1.0, nan}, {nan, nan}})
    EXPECT_TRUE(same(logarithm, log(W2(x)))) << x;
  for (const auto& [x, root] : {std::pair(0.0, 0.0), {infinity, infinity}, {-1.0, nan}, {nan, nan}})
    EXPECT_TRUE(same(root, sqrt(W2(x)))) << x;
  EXPECT_TRUE(same(2.5, abs(W2(-2.5))));
}

/// Every build must reproduce this number: g++ and clang, -O0 to -O3.
TEST(W2, HasTheSameBitsUnderEveryCompiler) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto fold = [&](const W2& x) {
    for (const double word : {x.hi, x.lo}) hash = (hash ^ std::bit_cast<std::uint64_t>(word)) * 0x100000001b3;
  };
  Draw draw(20240612);
  for (int i = 0; i < 20000; ++i) {
    const W2 a = draw.word_pair(-6, 8), b = i % 4 ? draw.word_pair(-6, 8) : draw.opposite(a);
    for (const W2& x : {a + b, a - b, a * b, b / a, sqrt(abs(a)), exp(a), log(abs(a)), exp(b * a), log(abs(b * a))})
      fold(x);
  }
  EXPECT_EQ(hash, 9743887548306967130u);
}

}  // namespace
}  // namespace assay::scalars
