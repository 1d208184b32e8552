// Which evidence decides (docs/judge.md, "What it asks"), row by row of a table.
#include "judge/verdict/decide.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proptests/core/table.hpp"

namespace assay {
namespace {

/// Of the numbers 1 to 8 in four rows, limits that are 7 and, of the root mean square, 2 times this sigma.
Expected eight(double sigma) {
  Expected e;
  e.shape = {4, 2}, e.layout = layout_of(e.shape, false);
  for (int i = 1; i <= 8; ++i) e.value.push_back({static_cast<double>(i), 0});
  e.bound.assign(8, 0), e.sigma.assign(8, sigma), e.reach.assign(8, 7), e.rms_limit = 2;
  return e;
}

/// What the contract of this sigma says of 1.15 to 8.15, where the model says that.
Verdict contract_says(double contract, const Expected& model, Verdict by_model) {
  const Expected expected = eight(contract);
  std::vector<double> got;
  for (const HiLo& x : expected.value) got.push_back(x.hi + 0.15);
  Judgement j;
  j.verdict = by_model;
  return by_closer_limits(judge(expected, got), &expected, j, model, 2.5, got).verdict;
}

TEST(Decide, calls_data_vacuous_that_no_evidence_sees) {
  // Exchanged columns and a last row that repeats are off by 1, root mean square: within its limit, 2 sigma.
  EXPECT_EQ(contract_says(1, eight(0.05), Verdict::pass), Verdict::vacuous);
  EXPECT_EQ(contract_says(1, eight(0.05), Verdict::undecided), Verdict::pass);    // 20 of the model's sigma
  EXPECT_EQ(contract_says(1, eight(0.5), Verdict::undecided), Verdict::vacuous);  // 2 of them, and 5 are left open
  EXPECT_EQ(contract_says(0.7, eight(0.01), Verdict::fail), Verdict::pass);     // beyond half of the contract's limits
  EXPECT_EQ(contract_says(2, eight(0.01), Verdict::fail), Verdict::vacuous);    // within half of them
  EXPECT_EQ(contract_says(9, eight(0.05), Verdict::undecided), Verdict::pass);  // zeros keep the contract, too
  EXPECT_EQ(contract_says(9, eight(0.01), Verdict::fail), Verdict::unseen);
}

/// Gains are among the limits beyond which the model fails: all errors of 0.15 together are 1.2.
TEST(Decide, takes_gains_for_limits_like_others) {
  for (const auto& [reach, verdict] : {std::pair(0.8, Verdict::pass), std::pair(0.4, Verdict::vacuous)}) {
    Expected model = eight(0.05);
    model.gain_weight.assign(8, 1);
    for (const Slice& slice : slices_of(model.layout)) model.gains.push_back({slice, 1, reach});
    EXPECT_EQ(contract_says(1, model, Verdict::undecided), verdict) << reach;
  }
}

/// What keeps the contract is left open by a model that knows no such algorithm; nothing else is.
TEST(Decide, fails_nothing_that_keeps_the_contract) {
  for (const Verdict contract : all_verdicts)
    for (const Verdict verdict : all_verdicts)
      for (const bool not_finite : {false, true}) {
        Judgement model;
        model.verdict = verdict, model.not_finite = not_finite;
        Verdict beside = verdict;
        if (verdict == Verdict::fail && contract == Verdict::pass) beside = Verdict::undecided;
        if (verdict == Verdict::fail && contract == Verdict::unsupported && not_finite) beside = Verdict::unseen;
        EXPECT_EQ(beside_contract(model, &contract), beside)
            << name_of(verdict) << ' ' << name_of(contract) << ' ' << not_finite;
        EXPECT_EQ(beside_contract(model, nullptr), verdict);
      }
}

/// "PASS" at `name` is Verdict::pass there; a row without it has no such evidence.
Judgement judgement_in(const Json& row, const char* name) {
  Judgement j;
  for (const Verdict verdict : all_verdicts)
    if (row.value(name, std::string("ERROR")) == name_of(verdict)) j.verdict = verdict;
  return j;
}

/// Rows of decide.json: the verdicts of all evidence, the contract's excess, how much of the last two is asked, and
/// the one that counts.
TEST(Decide, rests_on_what_the_table_says) {
  const Json rows = test_table("judge/decide.json");
  for (const Json& row : rows) {
    const Judgement model = judgement_in(row, "model");
    Judgement contract = judgement_in(row, "contract");
    contract.excess = row.value("excess", 0.0);
    int asked = 0;
    const auto says = [&](const char* name) {
      return [&asked, answer = row.at(name).get<bool>()](auto... /*margin*/) {
        ++asked;
        return answer;
      };
    };
    const Basis basis =
        decide(row.at("decides").get<std::string>() == "model" ? Decides::model : Decides::contract, model,
               row.contains("contract") ? &contract : nullptr, says("other form"), says("other contract"));
    constexpr std::string_view bases[] = {"model", "contract", "other form", "other contract"};
    EXPECT_EQ(bases[static_cast<std::size_t>(basis)], row.at("rests on").get<std::string>()) << row;
    EXPECT_EQ(asked, row.at("asked").get<int>()) << row;
  }
}

}  // namespace
}  // namespace assay
