// Contracts that are inferred: of a kernel whose sites are coarser, those sites; of a kernel with a fault, none.
#include "oracles/core/infer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/core/kernel_room.hpp"
#include "oracles/core/fault_trials.hpp"
#include "oracles/core/room.hpp"

namespace assay {
namespace {

const KernelForm& form_of(std::string_view room) { return find_kernels(kernel_rooms(), room)->forms.front(); }

InferredContract inferred_of(const std::string& room, const Problem& problem, const std::string& sites) {
  const KernelForm& form = form_of(room);
  const Contract kept = parse_contract(R"({"name": "x", "base": "bf16", "sites": )" + sites + "}", "x");
  const Oracle oracle = oracle_of(*find_room(room), problem);
  const AnsweredCase cases[] = {{problem, oracle, flat(form.run(problem, kept.policy(form.sites), 0))}};
  return infer_contract(cases, {&form, Format::bf16, 0, 1, nullptr});
}

std::string sites_of(const InferredContract& inferred) {
  std::string list = inferred.explained ? "" : inferred.obstacle;
  for (const Contract::Rule& rule : inferred.contract.rules)
    list += (list.empty() ? "" : " ") + rule.site + '=' + name_of(rule.format);
  return list;
}

Problem problem_of(const std::string& room, int tokens) {
  Problem problem =
      find_room(room)->make({room, {1, tokens, 2, 0, 16, 16, 0}, Format::bf16, Style::long_memory, 3, {}});
  problem.cotangents.clear();
  return problem;
}

TEST(InferredContract, is_that_of_a_kernel_whose_site_is_coarser) {
  EXPECT_EQ(sites_of(inferred_of("mamba2", problem_of("mamba2", 300), "{}")), "");
  EXPECT_EQ(sites_of(inferred_of("mamba2", problem_of("mamba2", 300), R"({"S": "bf16"})")), "S=bf16");
}

/// Of every `every`-th planted mutant, on its first small case that it fails: those that a contract explains.
TEST(InferredContract, explains_no_fault) {
  const char* asked = std::getenv("ASSAY_INFERRED_MUTANTS");
  const int wanted = asked == nullptr ? 6 : std::atoi(asked);
  std::vector<std::pair<const KernelForm*, const Mutant*>> all;
  std::vector<std::string_view> rooms;
  for (const KernelRoom* room : mutant_rooms())
    for (const KernelForm& form : room->forms)
      for (const Mutant& mutant : form.mutants) all.emplace_back(&form, &mutant), rooms.push_back(room->name);
  const std::size_t step = std::max<std::size_t>(1, all.size() / static_cast<std::size_t>(std::max(1, wanted)));
  int killed = 0;
  std::string explained;
  for (std::size_t m = step / 2; m < all.size(); m += step) {
    const auto& [planted, mutant] = all[m];
    const Room& room = *find_room(rooms[m]);
    for (const Format precision : {Format::bf16}) {
      const Format precisions[] = {precision};
      for (const FaultTrial& trial :
           fault_trials(room, *planted, std::span(fault_styles).first(1), precisions, fault_seed, 20)) {
        const KernelUnderTest kernel{planted, precision, trial.tile, 1, nullptr};
        Policy policy = kernel.policy();
        policy.fault = mutant->name;
        const Arrays got = flat(planted->run(trial.problem, policy, trial.tile));
        const Oracle oracle = oracle_of(room, trial.problem);
        const Expectation e = expect(oracle, kernel, trial.problem, default_draws);
        const bool fails = std::any_of(e.tensors.begin(), e.tensors.end(), [&](const auto& tensor) {
          return judge(tensor.second, got.at(tensor.first).data).verdict == Verdict::fail;
        });
        if (!fails) continue;
        ++killed;
        const AnsweredCase cases[] = {{trial.problem, oracle, got}};
        const InferredContract found = infer_contract(cases, kernel);
        if (asked != nullptr) {
          printf("%d killed%s\n", killed, found.explained ? ", explained" : "");
          fflush(stdout);
        }
        if (found.explained)
          explained += text(room.name, ' ', planted->name, ' ', mutant->name, ' ', name_of(precision), ": ",
                            sites_of(found), '\n');
        break;
      }
    }
  }
  RecordProperty("killed", killed);
  const auto count = std::count(explained.begin(), explained.end(), '\n');
  EXPECT_GT(killed, wanted / 3);
  EXPECT_LE(static_cast<double>(count), 0.02 * killed) << explained << "of " << killed;
  if (asked != nullptr) printf("%d killed, %d explained\n%s", killed, static_cast<int>(count), explained.c_str());
}

}  // namespace
}  // namespace assay
