// The kill table where a transcript does not do (proptests/transcripts/lab.md): rules that reject what is healthy,
// bounds of rates, and errors in formulas, which count.
#include "judge/trial/kill_table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "judge/programs/formula.hpp"
#include "language/room.hpp"
#include "proptests/language/programs.hpp"
#include "tools/pages/confidence.hpp"

namespace assay {
namespace {

TEST(KillTables, a_rule_that_rejects_the_healthy_kernel_kills_nothing) {
  MutantOptions options{.mechanisms = {"value_averaging"}, .precisions = {Format::bf16}, .trials = 1, .power = {}};
  const KillTable table = make_kill_table(options, [](std::size_t, std::string_view) {});
  ASSERT_EQ(table.healthy_runs, 1);
  int rejecting = 0;
  for (std::size_t rule = 0; rule < table.alarms.size(); ++rule) {
    if (table.alarms[rule] == 0) continue;
    EXPECT_EQ(table.killed(rule), 0);
    ++rejecting;
  }
  EXPECT_GT(rejecting, 0);  // 1e-7 of the squares is below what bf16 rounds
}

TEST(ClopperPearson, is_that_of_the_binomial) {
  EXPECT_NEAR(upper_bound_95(0, 60), 1 - std::pow(0.05, 1.0 / 60), 1e-12);
  EXPECT_NEAR(lower_bound_95(60, 60), std::pow(0.05, 1.0 / 60), 1e-12);
  EXPECT_EQ(upper_bound_95(7, 7), 1);
  EXPECT_EQ(upper_bound_95(0, 0), 1);
  EXPECT_EQ(lower_bound_95(0, 9), 0);
  EXPECT_NEAR(upper_bound_95(0, 3'000'000'000), 1e-9, 2e-12);  // the rule of three
  EXPECT_NEAR(upper_bound_95(1, 10), 0.3941633, 1e-6);         // P(X <= 1 | p) = 0.05
}

/// One token: o = (q . k) v / sqrt(4) = 2.
TEST(FormulaErrors, count_whichever_way_they_move_a_number) {
  Problem problem;
  problem.mechanism = language::path_of("mamba2");
  problem.inputs = {{"q", Array({1, 4}, {1, 1, 1, 1})},
                    {"k", Array({1, 4}, {1, 1, 1, 1})},
                    {"v", Array({1, 1}, {1})},
                    {"log_decay", Array({1}, {-1})}};
  const std::vector<WrongFormula> wrong = wrong_formulas(*language::find_mechanism(problem.mechanism), false);
  std::vector<std::size_t> all(wrong.size());
  std::iota(all.begin(), all.end(), 0);
  Expected o{.shape = {1, 1}, .layout = {1, 1, 1}, .value = {{2, 0}}, .bound = {0}, .sigma = {0.01}, .reach = {7}};
  o.rms_limit = 2;
  const std::vector<Fate> fates = fates_of(wrong, all, problem, {{"o", &o}}, Format::bf16, 1);
  std::map<std::string, Fate> of;
  for (const std::size_t i : all) of[wrong[i].what] = fates[i];
  EXPECT_EQ(of.at("0.10 mul: only operand 2 is left"), Fate::revealed) << "the scale forgotten: 4";
  EXPECT_EQ(of.at("0.7 add: wrong sign"), Fate::revealed) << "-2";
  EXPECT_EQ(of.at("0.0 exp left out"), Fate::no_change) << "of a state that is zero";
}

}  // namespace
}  // namespace assay
