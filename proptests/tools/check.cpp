// assay check where a transcript does not do (proptests/transcripts/check.md, plugin.md): what no contract excuses, and
// steps that grow. Damaged files are in proptests/hostile/readers.cpp.
#include <gtest/gtest.h>

#include <string>

#include "judge/contract/contract.hpp"
#include "judge/court/growing_steps.hpp"
#include "judge/court/judge_answer.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/core/places.hpp"
#include "proptests/tools/cli.hpp"
#include "tools/run/device.hpp"

namespace assay {
namespace {

#ifdef ASSAY_PLUGIN_DELTANET_ON_DEVICE
using Check = CliFiles;

/// On a GPU if there is one; if not, that is what is said.
TEST_F(Check, runs_a_plugin_on_a_device) {
  const std::string made = path("case.st"), plugin = plugin_built("deltanet_on_device");
  ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "2,70,2/1,8,6", "--no-cotangents", "-o", made}).code,
            exit_passed);
  const Ran ran = run_assay({"check", made, "--plugin", plugin});
  if (gpu() != nullptr) {
    EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
  } else {
    EXPECT_EQ(ran.code, exit_usage) << ran.out << ran.err;
    EXPECT_TRUE(ran.err.starts_with("assay: " + plugin + ": asks for memory on a device: ")) << ran.err;
  }
}
#endif

/// A state that is rounded after every token, where writes are small: the model FAILs it, and without being asked by
/// name the contract that promises it excuses nothing.
TEST(Evidence, what_the_model_fails_no_contract_excuses) {
  const Room& room = listed_room("deltanet");
  const Problem problem = room.make({"deltanet", {1, 70, 2, 0, 16, 16, 0}, Format::bf16, Style::slow_writes, 0, {}});
  const KernelForm& form = find_kernels(kernel_rooms(), "deltanet")->forms.front();
  const Answer got = form.run(problem, find_contract("bf16_state_per_token")->policy(form.sites), 0);
  JudgeBy by{.tensors = {"final_state"}, .threads = 1, .precision = "bf16"};
  const Judged without = judge(problem, got, by);
  ASSERT_EQ(without.rows.size(), 1U) << without.reason;
  EXPECT_EQ(without.verdict, Verdict::fail);
  EXPECT_EQ(without.rows.front().evidence, "model");
  by.precision.clear(), by.contract = "bf16_state_per_token";
  EXPECT_EQ(judge(problem, got, by).verdict, Verdict::pass);
}

/// A step of 2 exactly reflects, and is stable.
TEST(GrowingSteps, are_those_beyond_2) {
  Problem problem;
  problem.mechanism = "deltanet";
  problem.inputs = {{"k", Array({1, 2, 2}, {1, 0, 0, 1})}, {"beta", Array({1, 2}, {2, 2})}};
  EXPECT_EQ(growing_steps_of(problem), "");
  problem.inputs.at("beta").data[1] = 2.5;
  const std::string said = growing_steps_of(problem);
  EXPECT_NE(said.find(": it is 2.5 at token 1, and beyond 2 at 1 of 2 steps; "), std::string::npos) << said;
}

}  // namespace
}  // namespace assay
