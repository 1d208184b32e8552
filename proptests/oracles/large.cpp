// Large problems are computed by groups of heads: the same numbers as all at once, whatever the number of threads.
#include "oracles/core/large.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "arguments/programs/library.hpp"
#include "language/answers/answer.hpp"
#include "oracles/scalars/scalar.hpp"
#include "proptests/words/held.hpp"

namespace assay {
namespace {

CaseSpec grouped(const Room& room) {
  CaseSpec spec{.mechanism = std::string(room.name), .shape = {}, .seed = 3};
  spec.shape = {.batch = 1, .seq_len = 6, .heads = 4, .shared_heads = 0, .key_dim = 4, .value_dim = 3, .query_len = 0};
  if (groups_heads(room.inputs())) spec.shape.shared_heads = 2;
  return spec;
}

class Large : public ::testing::TestWithParam<const Room*> {};

TEST_P(Large, GroupsOfHeadsAreThoseOfTheWhole) {
  const Room& room = *GetParam();
  const Problem problem = room.make(grouped(room));
  const auto whole = room.enclosed(problem);
  const auto parts = answer_large(room, problem, {}, 2);
  ASSERT_TRUE(whole);
  const auto widest = [](double, double x) { return 0x1p-95 * (1 + std::fabs(x)); };
  expect_met(parts.outputs, whole->outputs, "outputs", widest);
  expect_met(parts.gradients, whole->gradients, "gradients", widest);
  for (const int threads : {1, 5}) {
    const auto again = answer_large(room, problem, Tier::ball, threads);
    EXPECT_TRUE(same_bits(parts.outputs, again.outputs) && same_bits(parts.gradients, again.gradients)) << threads;
  }
}

TEST(LargeExact, RationalsAreOffByWhatTheirPairsLeaveOut) {
  const Room& room = listed_room("deltanet");
  const Problem problem = room.make(grouped(room));  // of four keys: the root of a scale is rational
  const language::Mechanism program(arguments::mechanism_program("deltanet", problem.params));
  const BasicAnswer<Rational> truths = language::answer<Rational>(language::Posed<double>(program, problem), true);
  const auto exact = answer_large(room, problem, Tier::exact, 2);
  int inexact = 0;
  const auto check = [&](const BasicArrays<Enclosed>& pairs, const BasicArrays<Rational>& numbers) {
    for (const auto& [name, array] : pairs)
      for (std::size_t i = 0; i < array.data.size(); ++i) {
        const auto& [value, bound] = array.data[i];
        const auto truth = from_decimal<Mp200>(numbers.at(name).data[i].decimal(120));
        const Mp200 off = abs(truth - Mp200(value.hi) - Mp200(value.lo));
        EXPECT_LE(off, Mp200(bound)) << name << ' ' << i;
        EXPECT_LE(bound, 0x1p-105 * std::fabs(value.hi) + 0x1p-1073) << name << ' ' << i;
        inexact += off > Mp200(bound) / 8;
      }
  };
  check(exact.outputs, truths.outputs);
  check(exact.gradients, truths.gradients);
  EXPECT_GT(inexact, 0);
}

TEST_P(Large, TiersAreTheRoomsOwn) {
  const Room& room = *GetParam();
  Problem problem = room.make(grouped(room));
  for (const bool cotangents : {true, false}) {
    if (!cotangents) problem.cotangents.clear();
    for (const Tier tier : {Tier::fp64, Tier::w2, Tier::w4, Tier::mp50}) {
      const BasicAnswer<HiLo> whole = room.values(problem, tier);
      const auto parts = answer_large(room, problem, tier, 3);
      for (const auto& [expected, got] :
           {std::pair(&whole.outputs, &parts.outputs), {&whole.gradients, &parts.gradients}}) {
        ASSERT_EQ(expected->size(), got->size());
        for (const auto& [name, array] : *expected)
          for (std::size_t i = 0; i < array.data.size(); ++i) {
            const Enclosed& x = got->at(name).data[i];
            EXPECT_EQ(x.value.hi, array.data[i].hi) << name << ' ' << i;
            EXPECT_EQ(x.value.lo, array.data[i].lo) << name << ' ' << i;
            EXPECT_EQ(x.bound == no_bound, words_of(tier) == 0) << name << ' ' << i;
          }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rooms, Large, ::testing::ValuesIn(rooms().begin(), rooms().end()),
                         [](const auto& room) { return std::string(room.param->name); });

TEST(LargeProblems, SumsOverHeadsAreAsUncertainAsTheirTerms) {
  const Room& room = listed_room("softmax_attention");
  CaseSpec spec = grouped(room);
  spec.shape.heads = 2, spec.shape.shared_heads = 0;
  const Problem problem = room.make(spec);
  const auto whole = answer_large(room, problem, {}, 1);
  Mp100 total = 0;
  double apart = 0;
  for (const std::size_t head : {0, 1}) {
    Problem one = problem;
    for (Arrays* arrays : {&one.inputs, &one.cotangents})
      for (auto& [name, array] : *arrays) {
        const auto half = static_cast<std::ptrdiff_t>(array.data.size() / 2);
        const auto first = array.data.begin() + half * static_cast<std::ptrdiff_t>(head);
        array = Array({1, array.shape[1], array.shape[2]}, std::vector<double>(first, first + half));
      }
    const Enclosed term = answer_large(room, one, {}, 1).gradients.at("bandwidth").data.front();
    total += Mp100(term.value.hi) + Mp100(term.value.lo), apart += term.bound;
  }
  const Enclosed sum = whole.gradients.at("bandwidth").data.front();
  EXPECT_GT(apart, 0);
  EXPECT_GE(sum.bound, apart);
  EXPECT_LE(abs(total - Mp100(sum.value.hi) - Mp100(sum.value.lo)), Mp100(sum.bound - apart));
}

TEST(LargeProblems, TellWhatIsDone) {
  const Room& room = listed_room("deltanet");
  std::vector<std::size_t> totals;
  answer_large(room, room.make(grouped(room)), {}, 2,
               [&](std::size_t total, std::string_view) { totals.push_back(total); });
  EXPECT_EQ(totals, (std::vector<std::size_t>{2, 2}));
}

TEST(LargeProblems, TheFirstRefusalIsThatOfTheWhole) {
  const Room& room = listed_room("deltanet");
  Problem problem = room.make(grouped(room));
  // In the last group and, later in the order of the tensors, in the first.
  problem.inputs.at("k").data.back() = std::nan("");
  problem.inputs.at("v").data.front() = std::nan("");
  for (const int threads : {1, 2}) try {
      answer_large(room, problem, {}, threads);
      ADD_FAILURE() << "accepted";
    } catch (const Refusal& refusal) {
      EXPECT_EQ(std::string(refusal.what()), "k[1][5][3]: not a finite number");
      EXPECT_EQ(refusal.row(), 5);
    }
}

}  // namespace
}  // namespace assay
