// Ball and Rational: what they claim holds, and what they cannot claim they do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "files/case_file.hpp"
#include "oracles/core/room.hpp"
#include "oracles/scalars/scalar.hpp"
#include "proptests/laws/reference_laws.hpp"
#include "reference/core/error.hpp"
#include "reference/core/random.hpp"
#include "reference/families/dense.hpp"

namespace assay {
namespace {

/// The number in a hundred more digits than any ball here has, as an enclosure that is negligibly wide.
Ball truth(const Mp200& x) {
  const BallPrecision wide(700);
  return Ball::parse(to_decimal(x, 190));
}

bool holds(const Ball& ball, const Mp200& x) {
  const BallPrecision wide(700);
  // Digits cut off after the 190th move the truth by less than this.
  return (ball - truth(x)).contains_zero() || (ball - truth(x)).largest_size() <= 1e-180 * ball.largest_size();
}

TEST(Ball, holds_the_result_of_every_operation) {
  const Stream stream(1, "ball");
  for (const long bits : {53, 64, 113, 200})
    for (std::uint64_t i = 0; i < 200; ++i) {
      const BallPrecision precision(bits);
      const double a = stream.normal(2 * i),
                   b = stream.normal(2 * i + 1) * std::ldexp(1.0, static_cast<int>(i % 40) - 20);
      const Mp200 x(a), y(b);
      EXPECT_TRUE(holds(Ball(a) + Ball(b), x + y));
      EXPECT_TRUE(holds(Ball(a) - Ball(b), x - y));
      EXPECT_TRUE(holds(Ball(a) * Ball(b), x * y));
      EXPECT_TRUE(holds(Ball(a) / Ball(b), x / y));
      EXPECT_TRUE(holds(exp(Ball(a)), exp(x)));
      EXPECT_TRUE(holds(log(abs(Ball(a))), log(Mp200(abs(x)))));
      EXPECT_TRUE(holds(sqrt(abs(Ball(a))), sqrt(Mp200(abs(x)))));
      EXPECT_TRUE(holds(larger(Ball(a), Ball(b)), a < b ? y : x));
      EXPECT_TRUE(holds(smaller(Ball(a), Ball(b)), a < b ? x : y));
      // Not wider than it must be: a few units of the last bit.
      const Ball product = Ball(a) * Ball(b);
      EXPECT_LE(product.radius(), std::ldexp(std::fabs(a * b), 2 - static_cast<int>(bits)));
      // And it can fail: the number next to the truth by more than the radius is outside.
      EXPECT_FALSE(holds(product, x * y * (1 + ldexp(Mp200(1), 3 - static_cast<int>(bits)))));
    }
}

TEST(Ball, decides_only_what_is_certain) {
  const BallPrecision precision(64);
  const Ball third = Ball(1) / Ball(3), sum = third + third + third;
  EXPECT_TRUE(third < Ball(1) && Ball(1) > third && third <= Ball(1) && Ball(1) >= third);
  EXPECT_TRUE(third != Ball(1));
  EXPECT_FALSE(third == Ball(1));
  EXPECT_TRUE(Ball(2) == Ball(2) && Ball(2) <= Ball(2));
  EXPECT_THROW(static_cast<void>(sum < Ball(1)), Undecided);
  EXPECT_THROW(static_cast<void>(sum == Ball(1)), Undecided);
  EXPECT_THROW(static_cast<void>(isfinite(Ball(1) / (sum - Ball(1)))), Undecided);
  EXPECT_TRUE(isfinite(sum));
  EXPECT_TRUE(isfinite(Ball(2)) && isfinite(Ball(0)));
  EXPECT_FALSE(isfinite(Ball(-INFINITY)));
  EXPECT_TRUE(exp(Ball(-INFINITY)).is_zero());
}

TEST(Ball, reads_dyadic_decimals_exactly_and_others_within_a_bit) {
  const BallPrecision precision(128);
  EXPECT_EQ(Ball::parse("-9.5367431640625e-7").radius(), 0);
  EXPECT_EQ(Ball::parse("-9.5367431640625e-7").middle(), -0x1p-20);
  EXPECT_EQ(Ball::parse("1048576.5").radius(), 0);
  const Ball tenth = Ball::parse("0.1");
  EXPECT_GT(tenth.radius(), 0);
  EXPECT_LE(tenth.radius(), 0x1p-130);
  EXPECT_TRUE((tenth * Ball(10) - Ball(1)).contains_zero());
  EXPECT_EQ(Ball::parse("-inf").decimal(5), "-inf");
  for (const char* bad : {"", "one", "1e", "0x10", "1.2.3"}) EXPECT_THROW(Ball::parse(bad), InputError) << bad;
}

TEST(Ball, prints_the_digits_that_all_its_numbers_round_to) {
  const BallPrecision precision(128);
  const Ball third = Ball(1) / Ball(3);
  EXPECT_EQ(third.decimal(5), "3.3333e-1");
  EXPECT_EQ(third.decimal(38), "3." + std::string(37, '3') + "e-1");
  EXPECT_FALSE(third.decimal(45).has_value());
  EXPECT_EQ(Ball(2.5).decimal(1), "2");  // an exact tie goes to the even digit
  // A ball around a tie does not know.
  EXPECT_FALSE((Ball(2.5) + third - third).decimal(1).has_value());
  EXPECT_EQ(Ball(0).decimal(3), "0.0");
}

/// x x^T for a matrix of n rows and `rank` columns, plus `ridge`.
template <class S>
Tensor<S, 2> definite(int n, int rank, double ridge, std::uint64_t seed) {
  const Stream stream(seed, "definite");
  const auto drawn = [&](int row, int l) {
    return S(stream.normal(static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(rank) +
                           static_cast<std::uint64_t>(l)));
  };
  Tensor<S, 2> a(n, n);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      for (int l = 0; l < rank; ++l) a(i, j) += drawn(i, l) * drawn(j, l);
  for (int i = 0; i < n; ++i) a(i, i) += S(ridge);
  return a;
}

/// Rank r plus a ridge: r + 1 steps solve it, and no precision tells that the residual is zero then. The enclosure
/// holds what every number of steps from there on gives, and is hardly wider than its rounding errors.
TEST(Ball, conjugate_gradients_hold_every_step_that_may_be_the_last) {
  constexpr int n = 6, steps = 9;
  for (const int rank : {1, 2, 4})
    for (const long bits : {64, 200}) {
      const BallPrecision precision(bits);
      const Tensor<Ball, 2> a = definite<Ball>(n, rank, 0.5, 1);
      const Tensor<Mp200, 2> exact = definite<Mp200>(n, rank, 0.5, 1);
      std::vector<Ball> x, few;
      std::vector<Mp200> b;
      for (int i = 0; i < n; ++i) x.emplace_back(1 - 0.75 * i), b.emplace_back(1 - 0.75 * i);
      few = x;
      const Ball count = conjugate_gradients(a, 0, steps, Ball(0), std::span(x));
      EXPECT_THROW(static_cast<void>(count < Ball(steps)), Undecided);
      EXPECT_TRUE(holds(count, Mp200(rank + 1)) && holds(count, Mp200(steps)));
      for (const int made : {rank + 1, rank + 2, steps}) {
        std::vector<Mp200> want = b;
        EXPECT_EQ(conjugate_gradients(exact, 0, made, Mp200(0), std::span(want)), made);
        for (std::size_t i = 0; i < n; ++i) EXPECT_TRUE(holds(x[i], want[i])) << rank << ' ' << bits << ' ' << made;
      }
      for (const Ball& element : x) EXPECT_LE(element.radius(), std::ldexp(1.0, 30 - static_cast<int>(bits)));
      // Short of that everything is decided, and the next step is another vector.
      EXPECT_EQ(conjugate_gradients(a, 0, rank, Ball(0), std::span(few)).radius(), 0);
      std::vector<Mp200> next = b;
      conjugate_gradients(exact, 0, rank + 1, Mp200(0), std::span(next));
      EXPECT_FALSE(holds(few[0], next[0]));
      // A tolerance that the residual reaches decides.
      std::fill(few.begin(), few.end(), Ball(1));
      const Ball decided = conjugate_gradients(a, 0, steps, Ball(1e-6), std::span(few));
      EXPECT_TRUE(decided.radius() == 0 && decided <= Ball(rank + 1));
    }
}

/// The first residual is (1/2, -1/2), as long as the tolerance: x may stay at (1/2, 1/2) or go on to (1, 1/3).
TEST(Ball, conjugate_gradients_hold_both_answers_of_an_open_comparison) {
  const BallPrecision precision(100);
  Tensor<Ball, 2> a(2, 2);
  a(0, 0) = Ball(1), a(1, 1) = Ball(3);
  std::vector<Ball> x{Ball(1), Ball(1)};
  const Ball count = conjugate_gradients(a, 0, 5, sqrt(Ball(0.5)), std::span(x));
  EXPECT_TRUE(holds(x[0], Mp200(0.5)) && holds(x[1], Mp200(0.5)) && holds(count, Mp200(1)));
  EXPECT_TRUE(holds(x[0], Mp200(1)) && holds(x[1], Mp200(1) / 3) && holds(count, Mp200(2)));
  EXPECT_LE(x[0].radius(), 0.53);  // |(1/2, -1/6)|
}

/// A matrix's enclosure is as wide as asked for; the eigenpair holds that of every matrix in it.
TEST(Ball, holds_the_largest_eigenvalue_and_its_vector) {
  for (const int n : {1, 2, 5, 8})
    for (const int rank : {1, 3, 8})
      for (const long bits : {64, 200, 1000})
        for (const double wide : {0.0, 0x1p-40}) {
          const BallPrecision precision(bits);
          Tensor<Ball, 2> a = definite<Ball>(n, rank, 0, 2);
          for (int i = 0; i < n; ++i)
            for (int j = 0; j < n; ++j) a(i, j) = a(i, j).widened(Ball(wide).sizes());
          const Eigenpair<Ball> got = largest_eigenpair(a);
          Tensor<Mp200, 2> moved = definite<Mp200>(n, rank, 0, 2);
          if (wide > 0) moved(0, 0) += wide;
          const Eigenpair<Mp200> want = largest_eigenpair(moved);
          EXPECT_TRUE(holds(got.value, want.value)) << n << ' ' << rank << ' ' << bits;
          const double unit = std::max(std::ldexp(1.0, 20 - static_cast<int>(bits)), 64 * n * wide);
          EXPECT_LE(got.value.radius(), unit * got.value.middle()) << n << ' ' << rank << ' ' << bits;
          const Mp200 sign = got.vector[0].middle() * want.vector[0] < 0 ? -1 : 1;
          for (int i = 0; i < n; ++i) {
            const auto at = static_cast<std::size_t>(i);
            EXPECT_TRUE(holds(got.vector[at], sign * want.vector[at])) << n << ' ' << rank << ' ' << bits;
            EXPECT_LE(got.vector[at].radius(), 64 * unit) << n << ' ' << rank << ' ' << bits;
          }
        }
}

/// The unit vectors are no eigenvectors of (4, 1; 1, 1): 4 <= lambda <= 5, and the vector is (1, 0.30).
TEST(Ball, the_largest_eigenvalue_is_above_the_diagonal) {
  const BallPrecision precision(100);
  Tensor<Ball, 2> a(2, 2), V(2, 2);
  a(0, 0) = Ball(4), a(0, 1) = a(1, 0) = a(1, 1) = V(0, 0) = V(1, 1) = Ball(1);
  const Eigenpair<Ball> pair = enclosed_eigenpair(a, V, 0);
  const Mp200 value = (5 + sqrt(Mp200(13))) / 2, slope = value - 4, length = sqrt(Mp200(1 + slope * slope));
  EXPECT_TRUE(holds(pair.value, value) && holds(pair.vector[0], 1 / length) && holds(pair.vector[1], slope / length));
  EXPECT_LE(pair.value.radius(), 0.51);
}

TEST(Ball, knows_no_vector_of_two_eigenvalues_that_are_largest) {
  const BallPrecision precision(100);
  Tensor<Ball, 2> a(3, 3);
  a(0, 0) = a(1, 1) = Ball(5) / Ball(4), a(2, 2) = Ball(1), a(0, 2) = a(2, 0) = a(1, 2) = a(2, 1) = Ball(0);
  a(0, 1) = a(1, 0) = Ball(1) / Ball(3) - Ball(1) / Ball(3);
  const Eigenpair<Ball> pair = largest_eigenpair(a);
  EXPECT_TRUE(holds(pair.value, Mp200(1.25)));
  EXPECT_LE(pair.value.radius(), 0x1p-90);
  EXPECT_FALSE(std::isfinite(pair.vector[0].radius()));
}

/// The numbers of an answer by tensor, gradients as d_NAME.
std::map<std::string, std::vector<std::string>> texts(const Decimals& d) {
  std::map<std::string, std::vector<std::string>> all;
  for (const auto& [name, a] : d.outputs)
    for (const Cell& c : a.data) all[name].push_back(c.text);
  for (const auto& [name, a] : d.gradients)
    for (const Cell& c : a.data) all["d_" + name].push_back(c.text);
  return all;
}

/// How many tensors of `coarse` have a bound; each must hold `fine`, and convict a wrong last digit of the tensor's
/// largest.
int held_bounds(const Decimals& coarse, const std::map<std::string, std::vector<std::string>>& fine,
                const std::string& repro) {
  int proven = 0;
  for (const auto& [name, numbers] : texts(coarse)) {
    const auto bound = coarse.bounds.find(name);
    if (bound == coarse.bounds.end()) continue;
    ++proven;
    std::size_t largest = 0;
    Mp100 size = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i].empty() || numbers[i] == "-inf") continue;
      const auto exact = from_decimal<Mp100>(fine.at(name)[i]);
      EXPECT_LE(abs(from_decimal<Mp100>(numbers[i]) - exact), Mp100(bound->second) + ldexp(abs(exact), -190))
          << repro << ' ' << name << ' ' << i;
      if (Mp100(abs(exact)) > size) largest = i, size = abs(exact);
    }
    if (size == 0 || numbers[largest].size() < 20) continue;
    std::string wrong = numbers[largest];
    char& digit = wrong[wrong.find_last_of("0123456789", wrong.find('e') - 1)];
    digit = digit == '9' ? '8' : static_cast<char>(digit + 1);
    EXPECT_GT(abs(from_decimal<Mp100>(wrong) - from_decimal<Mp100>(fine.at(name)[largest])), Mp100(bound->second))
        << repro << ' ' << name << ": " << wrong;
  }
  return proven;
}

class EveryRoom : public ::testing::TestWithParam<const Room*> {};

/// Containment: what a second, much wider computation finds lies within the bounds of the first; a wrong last digit of
/// a tensor's largest number does not.
TEST_P(EveryRoom, bounds_hold_the_next_tier_and_convict_a_wrong_digit) {
  const Room& room = *GetParam();
  int proven = 0;
  for (const Style style : {Style::normal, Style::ill_conditioned, Style::nearly_parallel_keys, Style::gate_ends}) {
    const Params params = room.variants().front();
    const CaseSpec spec{std::string(room.name), {1, 9, 1, 0, 4, 3, 0}, Format::fp32, style, 3, params};
    const BasicProblem<std::string> p = laws::in_decimals(room.make(spec));
    const auto fine = texts(room.decimals(p, {.digits = 60, .tier = Tier::mp100}));
    for (const Tier tier : {Tier::ball, Tier::w2, Tier::w3, Tier::w4})
      proven += held_bounds(room.decimals(p, {.digits = 20, .tier = tier}), fine,
                            spec.repro() + " " + std::string(name_of(tier)));
  }
  EXPECT_GT(proven, 0);
}

/// With gates that are open or closed and a rational scale, a linear recurrence is a rational function: its answer in
/// exact arithmetic and that in 100 digits round to the same pairs.
TEST_P(EveryRoom, agrees_with_exact_rationals_where_it_is_rational) {
  const Room& room = *GetParam();
  int compared = 0;
  for (const Params& params : room.variants()) {
    CaseSpec spec{std::string(room.name), {1, 4, 1, 0, 2, 2, 0}, Format::bf16, Style::normal, 5, params};
    Problem p = room.make(spec);
    for (auto& [name, a] : p.inputs)
      if (name.starts_with("log_"))
        for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = i % 3 == 2 ? -INFINITY : 0.0;
    if (p.params.contains("scale")) p.params["scale"] = "0.375";
    BasicAnswer<HiLo> exact;
    try {
      exact = room.values(p, Tier::exact);
    } catch (const Refusal& refusal) {
      EXPECT_EQ(refusal.status(), Status::unsupported) << spec.repro() << ": " << refusal.what();
      continue;
    }
    const BasicAnswer<HiLo> digits = room.values(p, Tier::mp100);
    for (const auto& [name, a] : exact.outputs)
      EXPECT_EQ(laws::agrees(name, a, digits.outputs.at(name)), "") << spec.repro();
    for (const auto& [name, a] : exact.gradients)
      EXPECT_EQ(laws::agrees(name, a, digits.gradients.at(name)), "") << spec.repro();
    ++compared;
  }
  constexpr std::string_view transcendental[] = {"softmax_attention", "parallax",  "parallax_gate", "lla",
                                                 "mdn_front_end",     "mdn_gates", "rmsnorm",       "stable_rank"};
  const bool expected =
      std::find(std::begin(transcendental), std::end(transcendental), room.name) == std::end(transcendental);
  EXPECT_GE(compared, expected ? 1 : 0) << room.name;
}

INSTANTIATE_TEST_SUITE_P(Rooms, EveryRoom, ::testing::ValuesIn(rooms().begin(), rooms().end()),
                         [](const auto& room) { return std::string(room.param->name); });

TEST(Rational, is_exact) {
  const Rational a = Rational::parse("0.1"), b(3);
  EXPECT_EQ(a * Rational(10), Rational(1));
  EXPECT_EQ(a / b * b, a);
  EXPECT_EQ(sqrt(Rational::parse("2.25")), Rational(1.5));
  EXPECT_EQ(exp(Rational(0)), Rational(1));
  EXPECT_EQ(exp(Rational(-INFINITY)), Rational(0));
  EXPECT_EQ(log(Rational(1)), Rational(0));
  EXPECT_LT(Rational(-INFINITY), Rational(-1e300));
  EXPECT_EQ(abs(Rational(-2)), Rational(2));
  EXPECT_EQ(Rational::parse("-0012.50e-1"), Rational(-1.25));
}

TEST(Rational, refuses_what_is_not_rational) {
  const auto status = [](const std::function<void()>& act) {
    try {
      act();
    } catch (const Refusal& refusal) {
      return refusal.status();
    }
    return Status::ok;
  };
  EXPECT_EQ(status([] { exp(Rational(1)); }), Status::unsupported);
  EXPECT_EQ(status([] { log(Rational(2)) + Rational(1); }), Status::unsupported);
  EXPECT_EQ(status([] { static_cast<void>(isfinite(log(Rational(2)))); }), Status::unsupported);
  EXPECT_EQ(exp(log(Rational(2))), Rational(2));
  EXPECT_EQ(status([] { sqrt(Rational(2)); }), Status::unsupported);
  EXPECT_EQ(status([] { sqrt(Rational(-4)); }), Status::unsupported);
  EXPECT_EQ(status([] { Rational(1) / Rational(0); }), Status::nonfinite);
  EXPECT_EQ(status([] { Rational(-INFINITY) * Rational(0); }), Status::unsupported);
  EXPECT_EQ(status([] { Rational(NAN) * Rational(2); }), Status::unsupported);
  EXPECT_EQ(status([] { static_cast<void>(Rational(NAN) < Rational(2)); }), Status::unsupported);
  EXPECT_TRUE(isnan(Rational(0) + Rational(NAN)));
  EXPECT_THROW(Rational{INFINITY}, InputError);
  EXPECT_THROW(Rational::parse("1/3"), InputError);
}

/// Those that are doubles are in Decimal.FormatsKnownValues.
TEST(Rational, prints_rounded_to_nearest) {
  EXPECT_EQ((Rational(1) / Rational(3)).decimal(3), "3.33e-1");
  EXPECT_EQ((Rational(2) / Rational(3)).decimal(3), "6.67e-1");
}

}  // namespace
}  // namespace assay
