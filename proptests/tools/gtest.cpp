// EXPECT_VERDICT, as tests of other people's kernels use it, and how it fails.
#include "tools/gtest.hpp"

#include <gtest/gtest-spi.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "judge/contract/contract.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/tools/cli.hpp"

namespace assay {
namespace {

/// Stands for a kernel under test: the tile program, under the contract of that name.
Answer kernel_of(const Problem& problem, const std::string& contract) {
  const KernelForm& form = find_kernels(kernel_rooms(), problem.mechanism)->forms.front();
  return form.run(problem, find_contract(contract)->policy(form.sites), 0);
}

Problem small_problem() {
  return listed_room("gated_deltanet")
      .make({"gated_deltanet", {1, 90, 2, 1, 8, 8, 0}, Format::bf16, Style::long_memory, 4, {}});
}

TEST(ExpectVerdict, passes_a_kernel_within_its_contract) {
  const Problem problem = small_problem();
  EXPECT_VERDICT(pass, assay::judge(problem, kernel_of(problem, "bf16"), {.contract = "bf16"}));
  EXPECT_VERDICT(pass, assay::judge(problem, kernel_of(problem, "fla"), {.contract = "fla"}));
  EXPECT_VERDICT(fail, assay::judge(problem, kernel_of(problem, "bf16_state_per_token"), {.contract = "bf16"}));
  ASSERT_VERDICT(fail, assay::judge(problem, kernel_of(problem, "bf16"), {.contract = "fp32"}));
}

TEST(ExpectVerdict, has_the_limits_of_the_rate_of_false_alarms_that_is_asked_for) {
  Problem problem = small_problem();
  problem.cotangents.clear();
  const Answer answer = kernel_of(problem, "bf16");
  const auto limit = [&](double rate) {
    const Judged judged = assay::judge(problem, answer, {.contract = "bf16", .false_alarms = rate});
    return judged.rows.at(0).judgement.rms_limit;
  };
  EXPECT_LT(limit(1e-3), limit(false_alarm_rate));
}

/// Fails, and says what of a message is in `parts`. The macro below needs a function without captures.
const Judged* shown = nullptr;
std::string message_of(const Judged& judged) {
  shown = &judged;
  testing::TestPartResultArray results;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    EXPECT_VERDICT(pass, *shown);
  }
  return results.size() == 1 ? results.GetTestPartResult(0).message() : "";
}

/// The words of the command that ends a message, without the program's name.
std::vector<std::string> command_of(const std::string& message) {
  std::istringstream line(message.substr(message.find("reproduce: build/assay ") + 23));
  std::vector<std::string> words;
  for (std::string word; line >> word;) words.push_back(word);
  return words;
}

TEST(ExpectVerdict, says_what_is_wrong_where_and_how_to_see_it_again) {
  const Problem problem = small_problem();
  Answer answer = kernel_of(problem, "bf16");
  for (int t = 64; t < 90; ++t) answer.outputs.at("o").data[static_cast<std::size_t>((90 + t) * 8 + 3)] *= 1.5;
  const std::string message = message_of(judge(problem, answer, {.contract = "bf16"}));
  for (const char* part : {"*shown is FAIL, not PASS\nFAIL  o is wrong ", "\nFAIL  gated_deltanet chunkwise bf16 o: ",
                           "where: head 1 of 2, tokens 64..89 of 90 (chunk 1)", "value dimension 3 of 8",
                           "8 tensors: 7 PASS, 1 FAIL", " --form chunkwise --contract bf16 --tensor o\n"})
    EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
  const Ran again = run_assay(command_of(message));
  EXPECT_EQ(again.code, exit_failed) << again.err;
  EXPECT_NE(again.out.find("\nFAIL  o is wrong in tokens 64..89 of 90"), std::string::npos) << again.out;
}

/// A test names a misunderstood convention as `assay check` does.
TEST(ExpectVerdict, says_what_it_looks_like) {
  const Problem problem = small_problem();
  Answer answer = kernel_of(problem, "bf16");
  for (double& x : answer.outputs.at("o").data) x *= -1;
  const std::string message = message_of(judge(problem, answer, {.contract = "bf16"}));
  EXPECT_NE(message.find("\nlooks like "), std::string::npos) << message;
  EXPECT_NE(message.find("sign"), std::string::npos) << message;
}

/// Where nothing can be saved, the verdict is told all the same.
TEST(ExpectVerdict, is_told_where_nothing_can_be_saved) {
  const Problem problem = small_problem();
  Answer answer = kernel_of(problem, "bf16");
  answer.outputs.at("o").data[0] += 100;
  const Judged wrong = judge(problem, answer, {.contract = "bf16"});
  const std::string file = make_private_folder() / "file";
  std::ofstream(file) << "no folder";
  const std::string message = explain(wrong, [&] { return std::filesystem::path(file) / "folder"; });
  EXPECT_NE(message.find("FAIL  gated_deltanet"), std::string::npos) << message;
  EXPECT_NE(message.find("\nwhat it was given could not be saved: "), std::string::npos) << message;
  EXPECT_NE(explain(wrong, [&] { return make_private_folder(file); }).find("could not be saved: " + file),
            std::string::npos);
  std::filesystem::remove_all(std::filesystem::path(file).parent_path());
  // Others cannot foresee the folder, nor look into it.
  const std::filesystem::path one = failure_folder(), other = failure_folder();
  EXPECT_EQ(one.parent_path(), other.parent_path());
  EXPECT_NE(one, other);
  EXPECT_EQ(std::filesystem::status(one.parent_path()).permissions(), std::filesystem::perms::owner_all);
}

class VerdictOfAFile : public CliFiles {};

TEST_F(VerdictOfAFile, is_that_of_its_tensors) {
  const std::string file = path("case.st");
  ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "2,70,2,8,6", "--no-cotangents", "-o", file}).code, exit_passed);
  // As a kernel has it: floats, [B][T][H][d].
  std::map<std::string, Array> answer;
  for (const auto& [name, stored] : right_answer(read_safetensors(file)).tensors) {
    const Array array = load(name, stored);
    answer[name] = tensor(array.shape, std::vector<float>(array.data.begin(), array.data.end()));
  }
  EXPECT_VERDICT(pass, assay::judge(file, answer));
  EXPECT_VERDICT(pass, assay::judge(file, answer, {.contract = "bf16"}));
  const std::map<std::string, Array> only_o = {{"o", answer.at("o")}};
  EXPECT_VERDICT(pass, assay::judge(file, only_o, {.tensors = {"o"}}));

  answer.at("o").data[5] += 1;
  const std::string message = message_of(judge(file, answer));
  EXPECT_NE(message.find("token 0 of 70"), std::string::npos) << message;
  EXPECT_EQ(run_assay(command_of(message)).code, exit_failed) << message;

  // An answer that cannot be judged is no pass, and no exception either.
  EXPECT_VERDICT(error, assay::judge(file, only_o));
  EXPECT_NE(message_of(judge(file, only_o)).find("tensor final_state: missing"), std::string::npos);
  EXPECT_VERDICT(error, assay::judge(path("none.st"), answer));
  EXPECT_VERDICT(error, assay::judge(file, answer, {.contract = "flash_attention"}));
  EXPECT_VERDICT(error, assay::judge(small_problem(), kernel_of(small_problem(), "bf16"), {}));
  EXPECT_VERDICT(error, assay::judge(file, {{"o", Array({2, 70, 2, 5})}}, {.tensors = {"o"}}));
  EXPECT_THROW(tensor({2, 3}, std::vector<float>(5)), InputError);
}

TEST(ExpectVerdict, takes_judgements_of_single_tensors) {
  Judgement judgement;
  judgement.verdict = Verdict::vacuous;
  EXPECT_VERDICT(vacuous, judgement);
  EXPECT_FALSE(verdict_is("", "", Verdict::pass, judgement));
}

}  // namespace
}  // namespace assay
