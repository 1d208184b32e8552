// Tile shapes are a part of the contract: a kernel of any that a form has passes, and --tile holds it to one.
#include <gtest/gtest.h>

#include <string>

#include "judge/court/cache.hpp"
#include "judge/court/judge_answer.hpp"
#include "judge/trial/fault_trials.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/core/share.hpp"
#include "proptests/tools/cli.hpp"
#include "tools/cases/case_flags.hpp"

namespace assay {
namespace {

Answer answer_of(const KernelForm& form, const Problem& problem, Format precision, int tile,
                 std::string_view fault = {}) {
  Policy policy = Policy::of(form.sites, precision);
  policy.fault = fault;
  return form.run(problem, policy, tile);
}

std::string shown_rows(const Judged& judged) {
  std::string lines = judged.reason;
  for (const ReportRow& row : judged.rows)
    if (!passes(row.judgement.verdict))
      lines += text('\n', row.tensor, ": ", name_of(row.judgement.verdict), ": ", row.judgement.reason);
  return lines;
}

class Tiles : public CliFiles {};

/// Verdicts as `assay check` gives them without --tile. A tensor that is VACUOUS or overflows in one shape says nothing
/// against a kernel. One in six forms and precisions, or more.
TEST_F(Tiles, of_every_form_pass) {
  Share sampled(6);
  int compared = 0, hits = 0;
  while (sampled.goes_on())
    for (const KernelRoom* kernels : kernel_rooms())
      for (const KernelForm& form : kernels->forms) {
        if (!form.unstable.empty()) continue;
        const Room& room = listed_room(kernels->name);
        for (const Format precision : {Format::bf16, Format::fp32}) {
          if (!sampled.takes()) continue;
          CaseSpec spec{std::string(room.name), {1, 43, 2, 1, 8, 8, 0}, precision, Style::normal, 3, {}};
          if (!groups_heads(room.inputs())) spec.shape.shared_heads = 0;
          if (form.iterative) spec.shape = {1, 37, 1, 0, 4, 4, 0};
          if (form.name == "split_decode") spec.shape.query_len = 3;
          Problem problem = room.make(spec);
          ASSERT_EQ(form.obstacle(problem), "") << room.name << ' ' << form.name;
          if (!form.has_gradients) problem.cotangents.clear();
          for (std::size_t tile = 0; tile < form.tiles.size(); ++tile) {
            const Answer got = answer_of(form, problem, precision, static_cast<int>(tile));
            Cache cache(folder);  // the answers of all shapes are judged by the same truth and sigma
            const Judged judged =
                judge(problem, got,
                      {.contract = std::string(name_of(precision)), .form = std::string(form.name), .cache = &cache});
            hits += cache.hits();
            EXPECT_TRUE(passes(judged.verdict) || judged.verdict == Verdict::vacuous)
                << room.name << ' ' << form.name << ' ' << name_of(precision) << " tile " << form.tiles[tile] << ": "
                << shown_rows(judged);
            ++compared;
          }
        }
      }
  EXPECT_GE(compared, sampled.taken());
  EXPECT_GT(hits, compared / 2);
}

/// In chunks of 64 the gradient of a decay in an early token reads no state that was stored in bf16, in chunks of 16 it
/// does.
TEST_F(Tiles, are_a_part_of_the_contract) {
  const Problem problem =
      listed_room("mamba2").make({"mamba2", {1, 70, 2, 1, 16, 16, 0}, Format::bf16, Style::normal, 0, {}});
  const KernelForm& form = find_kernels(kernel_rooms(), "mamba2")->forms.front();
  const auto verdict = [&](int answers, const std::string& judges) {
    return judge(problem, answer_of(form, problem, Format::bf16, answers), {.contract = "bf16", .tile = judges});
  };
  for (std::size_t tile = 0; tile < form.tiles.size(); ++tile) {
    EXPECT_EQ(verdict(static_cast<int>(tile), "").verdict, Verdict::pass) << form.tiles[tile];
    EXPECT_EQ(verdict(static_cast<int>(tile), std::string(form.tiles[tile])).verdict, Verdict::pass)
        << form.tiles[tile];
  }
  const Judged other = verdict(smallest_tile(form), std::string(form.tiles.front()));
  EXPECT_EQ(other.verdict, Verdict::fail);
  EXPECT_NE(shown_rows(other).find("d_log_decay: FAIL"), std::string::npos) << shown_rows(other);
}

/// The first case on which the mutant fails.
std::string conviction(const Room& room, const KernelForm& healthy, const KernelForm& planted, const Mutant& mutant) {
  for (const FaultTrial& trial : fault_trials(room, healthy, fault_styles, fault_precisions, fault_seed)) {
    const Answer got = answer_of(planted, trial.problem, trial.spec.precision, trial.tile, mutant.name);
    const Judged judged =
        judge(trial.problem, got,
              {.contract = std::string(name_of(trial.spec.precision)), .form = std::string(healthy.name)});
    if (judged.verdict == Verdict::fail) return text(trial.spec.repro(), shown_rows(judged));
  }
  return "";
}

/// A kernel that keeps its state in bf16 does not hide behind another tile shape. One form in five, or more.
TEST_F(Tiles, hide_no_narrow_state) {
  Share sampled(5);
  while (sampled.goes_on())
    for (const KernelRoom* kernels : kernel_rooms())
      for (std::size_t f = 0; f < kernels->forms.size(); ++f)
        for (const Mutant& mutant : kernels->forms[f].mutants) {
          const KernelForm& healthy = find_kernels(kernel_rooms(), kernels->name)->forms[f];
          if (mutant.name != "state_in_bf16" || !healthy.unstable.empty() || !sampled.takes()) continue;
          EXPECT_NE(conviction(listed_room(kernels->name), healthy, kernels->forms[f], mutant), "")
              << kernels->name << ' ' << healthy.name;
        }
  EXPECT_GE(sampled.taken(), 1);
}

}  // namespace
}  // namespace assay
