// Contracts that a kernel keeps and a check sees: --contract, and what `contract infer` reads off answers. Other words
// of theirs are in proptests/transcripts/contract.md.
#include "judge/contract/contract.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "files/problem_file.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/tools/cli.hpp"

namespace assay {
namespace {

void expect_refused(const Ran& ran, const std::string& part) {
  EXPECT_EQ(ran.code, exit_usage) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_NE(ran.err.find(part), std::string::npos) << ran.err;
}

using ContractFlag = CliFiles;

TEST_F(ContractFlag, is_what_a_check_judges_by) {
  const std::string file = path("case.st"),
                    contract = write("my contract.json", R"({"name": "mine", "base": "bf16", "products": 1,
                                     "sites": {"state": "bf16", "P": "fp32"}})");
  ASSERT_EQ(
      run_assay({"case", "mamba2", "--shape", "1,600,2,16,16", "--style", "long_memory", "--no-cotangents", "-o", file})
          .code,
      exit_passed);
  const ProblemFile read = read_problem(read_safetensors(file), file);
  const KernelForm& form = find_kernels(kernel_rooms(), "mamba2")->forms.front();
  const Answer answer = form.run(read.problem, contract_from(contract).policy(form.sites), 0);
  TensorFile to;
  for (const auto& [name, array] : answer.outputs)
    to.put(name, array, answer_field(*read.room, name), read.batch, "F32");
  const std::string out = path("out.st");
  write_safetensors(out, std::move(to).finish({}));
  const Ran plain = run_assay({"check", file, out, "--contract", "bf16"});
  EXPECT_EQ(plain.code, exit_failed);
  EXPECT_NE(plain.out.find("within any algorithm's error"), std::string::npos) << plain.out;
  EXPECT_NE(plain.out.find("; passes under contract bf16_state"), std::string::npos) << plain.out;
  // Some algorithm in bf16 may have a state in bf16: the page says that the case hides it, and what asks for it finds
  // it.
  const Ran any = run_assay({"check", file, out});
  EXPECT_EQ(any.code, exit_passed);
  EXPECT_NE(any.out.find("\ncannot see  bf16: log_decay in bf16, initial_state in bf16, state in bf16"),
            std::string::npos)
      << any.out;
  const Ran why = run_assay({"check", file, out, "--why"});
  EXPECT_NE(why.out.find(" times its limit: S in bf16; --contract bf16 fails\n"), std::string::npos) << why.out;
  EXPECT_NE(why.out.find("\nwhy: rounds more than bf16 allows in final_state: S in bf16 has "), std::string::npos)
      << why.out;
  const Ran ran = run_assay({"check", file, out, "--contract", contract, "--format", "json"});
  EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
  const Json json = Json::parse(ran.out);
  EXPECT_EQ(json["contract"], "mine");
  EXPECT_NE(json["command"].get<std::string>().find(" --form chunkwise --contract '" + contract + "'"),
            std::string::npos)
      << json["command"];
}

/// A case of softmax attention, and what our program answers to it under `sites`, in fp32; then `spoil`.
class ContractInfer : public CliFiles {
 protected:
  void SetUp() override {
    CliFiles::SetUp();
    case_ = path("case.st"), out_ = path("out.st"), found_ = path("found.json");
    ASSERT_EQ(run_assay({"case", "softmax_attention", "--shape", "1,60,2,16,16", "--precision", "bf16", "--style",
                         "long_memory", "--seed", "3", "-o", case_})
                  .code,
              exit_passed);
  }
  void answer(const std::string& sites, double factor = 1) const {
    const ProblemFile read = read_problem(read_safetensors(case_), case_);
    const KernelForm& form = find_kernels(kernel_rooms(), "softmax_attention")->forms.front();
    const Contract kept = parse_contract(R"({"name": "x", "base": "bf16", "sites": )" + sites + "}", "x");
    Answer answer = form.run(read.problem, kept.policy(form.sites), 0);
    for (double& x : answer.gradients.at("q").data) x *= factor;
    TensorFile to;
    for (const auto& [name, array] : answer.outputs)
      to.put(name, array, answer_field(*read.room, name), read.batch, "F32");
    for (const auto& [name, array] : answer.gradients)
      to.put("d_" + name, array, answer_field(*read.room, "d_" + name), read.batch, "F32");
    write_safetensors(out_, std::move(to).finish({}));
  }
  std::string case_, out_, found_;
};

TEST_F(ContractInfer, writes_a_contract_that_a_check_passes_under) {
  answer(R"({"S": "bf16"})");
  EXPECT_EQ(run_assay({"check", case_, out_, "--contract", "bf16"}).code, exit_failed);
  const Ran ran = run_assay({"contract", "infer", case_, out_, "-o", found_, "--name", "mine"});
  EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("those of the contract bf16 with S in bf16"), std::string::npos) << ran.out;
  EXPECT_EQ(contract_from(found_).name, "mine");
  // A user who asks no contract hears of it, too.
  const Json page = Json::parse(run_assay({"check", case_, out_, "--why", "--format", "json"}).out), why = page["why"],
             rows = page["rows"];
  EXPECT_EQ(why["known"], true);
  EXPECT_EQ(why["sites"], "S in bf16");
  EXPECT_FALSE(why["rounds_more_in"].empty());
  const auto named = [](const Json& row) { return row["rounded_at"] == "S in bf16"; };
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(), named), static_cast<long>(why["rounds_more_in"].size()));
  const Ran check = run_assay({"check", case_, out_, "--contract", found_});
  EXPECT_EQ(check.code, exit_passed) << check.out;
  // Of a part of the answer, too.
  Safetensors part = read_safetensors(out_);
  part.tensors.erase("d_q");
  write_safetensors(out_, part);
  expect_refused(run_assay({"contract", "infer", case_, out_}), "tensor d_q: missing");
  expect_refused(run_assay({"contract", "infer", case_, out_, "--tensor", "d_z"}), "there is no d_z");
  const Ran of_part = run_assay({"contract", "infer", case_, out_, "--tensor", "o,d_k", "--tensor", "d_v"});
  EXPECT_NE(of_part.out.find("those of the contract bf16 with S in bf16"), std::string::npos)
      << of_part.out << of_part.err;
  part.tensors.erase("d_k"), part.tensors.erase("d_v"), part.tensors.erase("d_bandwidth");
  write_safetensors(out_, part);
  // On standard output there is nothing but the contract.
  const Ran piped = run_assay({"contract", "infer", case_, out_, "--tensor", "o", "-o", "-"});
  EXPECT_EQ(parse_contract(piped.out, "piped").rules.size(), 1U);
}

TEST_F(ContractInfer, finds_nothing_that_explains_a_fault) {
  answer("{}", 1.05);
  const Ran ran = run_assay({"contract", "infer", case_, out_, "-o", found_});
  EXPECT_EQ(ran.code, exit_failed) << ran.out;
  EXPECT_EQ(ran.out.find("no contract explains this: "), 0U) << ran.out;
  EXPECT_FALSE(std::filesystem::exists(found_));
}

}  // namespace
}  // namespace assay
