// assay check where a transcript does not do (proptests/transcripts/check.md, plugin.md): every damage to a file, what
// no contract excuses, and steps that grow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "files/problem_file.hpp"
#include "files/safetensors.hpp"
#include "judge/contract/contract.hpp"
#include "judge/court/growing_steps.hpp"
#include "judge/court/judge_answer.hpp"
#include "judge/sigma/expected.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/core/places.hpp"
#include "proptests/tools/cli.hpp"
#include "reference/core/rounding.hpp"
#include "tools/run/device.hpp"

namespace assay {
namespace {

/// The answer of the room's own emulation to a case, as a kernel would write it.
Safetensors emulated(const std::string& path, Format precision) {
  ProblemFile file = read_problem(read_safetensors(path), path);
  const KernelForm& kernel = find_kernels(kernel_rooms(), file.room->name)->forms.front();
  if (!kernel.has_gradients) file.problem.cotangents.clear();
  Answer answer = kernel.run(file.problem, Policy::of(kernel.sites, precision), 0);
  TensorFile to;
  for (auto& [name, array] : answer.outputs)
    to.put(name, std::move(array), answer_field(*file.room, name), file.batch, dtype_of(precision));
  for (auto& [name, array] : answer.gradients)
    to.put("d_" + name, std::move(array), answer_field(*file.room, "d_" + name), file.batch, dtype_of(precision));
  return std::move(to).finish({});
}

class Check : public CliFiles {
 protected:
  void make(const std::string& shape, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"case", "deltanet", "--shape", shape, "-o", path("case.st")};
    args.insert(args.end(), more.begin(), more.end());
    ASSERT_EQ(run_assay(args).code, exit_passed);
  }
  /// That it is bad input, said in one sentence about `what`, and that nothing is printed.
  static void expect_refused(const Ran& ran, const std::string& what) {
    EXPECT_EQ(ran.code, exit_usage) << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_TRUE(ran.err.starts_with("assay: " + what + ": ")) << ran.err;
  }
};

#ifdef ASSAY_PLUGIN_DELTANET_ON_DEVICE
/// On a GPU if there is one; if not, that is what is said.
TEST_F(Check, runs_a_plugin_on_a_device) {
  make("2,70,2/1,8,6", {"--no-cotangents"});
  const Ran ran = run_assay({"check", path("case.st"), "--plugin", plugin_built("deltanet_on_device")});
  if (gpu() != nullptr) {
    EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
  } else {
    expect_refused(ran, plugin_built("deltanet_on_device") + ": asks for memory on a device");
  }
}
#endif

/// However a file is cut off, and whatever its header claims, it is refused in one sentence.
TEST_F(Check, refuses_every_damaged_file) {
  make("1,3,1,2");
  const auto expect_this_refused = [&](const std::string& file) {
    write("out.st", file);
    expect_refused(run_assay({"check", path("case.st"), path("out.st")}), path("out.st"));
  };
  const std::vector<std::uint8_t> bytes = serialize(emulated(path("case.st"), Format::bf16));
  const std::string whole(bytes.begin(), bytes.end());
  for (std::size_t size = 0; size < whole.size(); ++size) expect_this_refused(whole.substr(0, size));
  const std::uint64_t header = whole.find('}', whole.rfind("]")) - 7;
  for (const std::uint64_t claim : {std::uint64_t{0}, std::uint64_t{1}, header - 1, header + 9, whole.size() - 8 + 1,
                                    std::uint64_t{1} << 32, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    std::string forged = whole;
    for (std::size_t i = 0; i < 8; ++i) forged[i] = static_cast<char>(claim >> (8 * i));
    expect_this_refused(forged);
  }
  // Digits in the header replaced: of what is then a valid file, nothing is said.
  const ProblemFile problem = read_problem(read_safetensors(path("case.st")), "case");
  const Oracle oracle = oracle_of(*problem.room, problem.problem);
  int refused = 0;
  for (std::size_t at = whole.find("\"},\"d_"); at < whole.find("}}"); ++at)
    for (const char put : {'9', '-', '[', '"', '}', '\0'}) {
      if (std::isdigit(static_cast<unsigned char>(whole[at])) == 0) continue;
      std::vector<std::uint8_t> forged = bytes;
      forged[at] = static_cast<std::uint8_t>(put);
      try {
        read_outputs(parse_safetensors(forged, "out"), problem, oracle, {}, "out");
      } catch (const InputError& e) {
        EXPECT_TRUE(std::string(e.what()).starts_with("out: ")) << e.what();
        ++refused;
      }
    }
  EXPECT_GT(refused, 100);
}

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
