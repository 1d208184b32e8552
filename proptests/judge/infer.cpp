// Contracts that are inferred: of a kernel whose sites are coarser, those sites (proptests/transcripts/contract.md has
// published ones); of a kernel with a fault, none.
#include "judge/verdict/infer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "judge/trial/fault_trials.hpp"
#include "kernels/core/kernel_room.hpp"
#include "oracles/core/room.hpp"
#include "proptests/judge/cases.hpp"

namespace assay {
namespace {

/// The contract inferred in that precision from the first form's answer under a given one, of which these are entries.
InferredContract inferred_of(const Problem& problem, const std::string& entries, Format precision = Format::bf16,
                             const std::function<void(Arrays&)>& spoil = {}) {
  const KernelForm& form = first_form(problem.mechanism);
  const Contract kept = parse_contract(R"({"name": "x", )" + entries + "}", "x");
  const Oracle oracle = oracle_of(listed_room(problem.mechanism), problem);
  Arrays got = flat(form.run(problem, kept.policy(form.sites), 0));
  if (spoil) spoil(got);
  const AnsweredCase cases[] = {{problem, oracle, std::move(got)}};
  return infer_contract(cases, {&form, precision, 0, 1, nullptr});
}

std::string told(const InferredContract& inferred) {
  return inferred.explained ? words_of(inferred.contract) : "nothing: " + inferred.obstacle;
}

Problem long_memory_of(const std::string& room, int tokens, bool cotangents = false) {
  const CaseSpec spec{room, {1, tokens, 2, 0, 16, 16, 0}, Format::bf16, Style::long_memory, 3, {}};
  return cotangents ? drawn(spec) : drawn_forward(spec);
}

TEST(InferredContract, names_two_sites_where_one_is_not_enough) {
  const InferredContract two = inferred_of(long_memory_of("softmax_attention", 60, true),
                                           R"("base": "bf16", "sites": {"S": "bf16", "O": "bf16"})");
  ASSERT_TRUE(two.explained) << told(two);
  std::vector<std::string> sites;
  for (const Contract::Rule& rule : two.contract.rules) sites.push_back(rule.site);
  std::sort(sites.begin(), sites.end());
  EXPECT_EQ(sites, (std::vector<std::string>{"O", "S"})) << told(two);
}

/// A narrow state is seen, and named, and not excused: a contract must promise a state in 16 bits.
TEST(InferredContract, excuses_no_narrow_state) {
  const InferredContract state =
      inferred_of(long_memory_of("mamba2", 300), R"("base": "bf16", "sites": {"S": "bf16"})");
  EXPECT_FALSE(state.explained);
  EXPECT_NE(state.obstacle.find("S in bf16 has 100%"), std::string::npos) << state.obstacle;
  EXPECT_NE(state.obstacle.find("--contract bf16_state"), std::string::npos) << state.obstacle;
}

/// A kernel with vbar in bf16, of which every element from head `from` on has its neighbour's error.
InferredContract with_errors_moved(int from) {
  const Problem problem = long_memory_of("parallax", 60, true);
  const Arrays fine =
      flat(first_form("parallax").run(problem, Policy::of(first_form("parallax").sites, Format::bf16), 0));
  return inferred_of(problem, R"("base": "bf16", "sites": {"vbar": "bf16"})", Format::bf16, [&](Arrays& got) {
    for (auto& [name, array] : got) {
      const std::vector<double>& right = fine.at(name).data;
      std::vector<double> errors;
      for (std::size_t i = 0; i < right.size(); ++i) errors.push_back(array.data[i] - right[i]);
      const std::size_t first = array.data.size() / 2 * static_cast<std::size_t>(from);
      for (std::size_t i = first; i < right.size(); ++i) array.data[i] = right[i] + errors[(i + 1) % right.size()];
    }
  });
}

/// Errors of the very size that a coarser site makes, elsewhere: a tolerance would let them pass, a prediction does
/// not.
TEST(InferredContract, is_not_explained_by_errors_of_the_same_size) {
  const InferredContract all = with_errors_moved(0), none = with_errors_moved(2);
  EXPECT_FALSE(all.explained) << told(all);
  EXPECT_NE(all.obstacle, "");
  EXPECT_EQ(told(none), "vbar in bf16");
}

TEST(InferredContract, is_confirmed_on_what_it_was_not_fitted_to) {
  const InferredContract half = with_errors_moved(1);  // the second head of two is not fitted
  EXPECT_FALSE(half.explained) << told(half);
  EXPECT_NE(half.obstacle.find("vbar in bf16, has"), std::string::npos) << half.obstacle;
  EXPECT_NE(half.obstacle.find("where it was not fitted"), std::string::npos) << half.obstacle;
}

/// Sites in bf16 predict what a kernel of fp32 with such sites answers, and no algorithm of fp32 is so far off.
TEST(InferredContract, is_none_that_the_model_fails) {
  const InferredContract found = inferred_of(long_memory_of("softmax_attention", 60, true),
                                             R"("base": "fp32", "sites": {"O": "bf16"})", Format::fp32);
  EXPECT_FALSE(found.explained) << told(found);
  EXPECT_NE(found.obstacle.find("O in bf16, predicts the errors, and no algorithm in the precision"), std::string::npos)
      << found.obstacle;
}

TEST(InferredContract, sees_operands_that_tensor_cores_cut_off) {
  const Problem problem =
      drawn_forward({"softmax_attention", {1, 40, 2, 0, 32, 32, 0}, Format::fp32, Style::normal, 5, {}});
  const InferredContract found = inferred_of(problem, R"("base": "tf32", "rounding": "toward_zero")", Format::fp32);
  EXPECT_EQ(told(found), "operands in tf32 (cut off)");
  const Contract read = parse_contract(json_of(found, "found"), "f");
  EXPECT_EQ(read.towards_zero, (std::vector<std::string>{"operands"}));
  EXPECT_EQ(read.accumulation.size(), 3U);
}

/// Planted mutants, each on its first small case that it fails: no contract explains them.
TEST(InferredContract, explains_no_fault) {
  const char* asked = std::getenv("ASSAY_INFERRED_MUTANTS");
  const int wanted = asked == nullptr ? 6 : std::stoi(asked);
  std::vector<std::tuple<const Room*, const KernelForm*, const Mutant*>> all;
  for (const KernelRoom* room : kernel_rooms())
    for (const KernelForm& form : room->forms)
      for (const Mutant& mutant : form.mutants) all.emplace_back(&listed_room(room->name), &form, &mutant);
  const std::size_t step = std::max<std::size_t>(1, all.size() / static_cast<std::size_t>(std::max(1, wanted)));
  constexpr Format precisions[] = {Format::bf16};
  int killed = 0, count = 0;
  std::string explained;
  for (std::size_t m = step / 2; m < all.size(); m += step) {
    const auto& [room, planted, mutant] = all[m];
    for (const FaultTrial& trial :
         fault_trials(*room, *planted, std::span(fault_styles).first(1), precisions, fault_seed, 20)) {
      const KernelUnderTest kernel{planted, Format::bf16, trial.tile, 1, nullptr};
      Policy policy = kernel.policy();
      policy.fault = mutant->name;
      const Answer got = planted->run(trial.problem, policy, trial.tile);
      const Oracle oracle = oracle_of(*room, trial.problem);
      const Expectation e = expect(oracle, kernel, trial.problem, default_draws);
      if (failures(judged_tensors(e, got)) == 0) continue;
      const AnsweredCase cases[] = {{trial.problem, oracle, flat(got)}};
      const InferredContract found = infer_contract(cases, kernel);
      ++killed, count += found.explained ? 1 : 0;
      if (found.explained)
        explained += text(room->name, ' ', planted->name, ' ', mutant->name, ": ", told(found), '\n');
      break;
    }
  }
  RecordProperty("killed", killed);
  EXPECT_GT(killed, wanted / 3);
  EXPECT_LE(count, 0.02 * killed) << explained << "of " << killed;
  if (asked != nullptr) printf("%d killed, %d explained\n%s", killed, count, explained.c_str());
}

}  // namespace
}  // namespace assay
