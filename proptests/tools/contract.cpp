// --contract, as its users type it.
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

const std::vector<std::string> small_report = {"report",  "--mechanism", "gated_deltanet",
                                               "--shape", "1,70,1,8,8",  "--format"};

Ran report(const std::string& format, const std::vector<std::string>& more) {
  std::vector<std::string> args = small_report;
  args.push_back(format);
  args.insert(args.end(), more.begin(), more.end());
  return run_assay(args);
}

void expect_refused(const Ran& ran, const std::string& part) {
  EXPECT_EQ(ran.code, exit_usage) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_NE(ran.err.find(part), std::string::npos) << ran.err;
}

class ContractFlag : public CliFiles {
 protected:
  std::string mine() const {
    return write("my contract.json",
                 R"({"name": "mine", "base": "bf16", "products": 1, "sites": {"state": "bf16", "P": "fp32"}})");
  }
};

TEST(ContractFlagOfList, names_them) {
  const Ran table = run_assay({"list", "contracts"}), json = run_assay({"list", "contracts", "--format", "json"});
  EXPECT_EQ(table.code, exit_passed);
  const Json list = Json::parse(json.out)["contracts"];
  ASSERT_EQ(list.size(), named_contracts().size());
  for (const Json& entry : list) {
    const Contract& contract = *find_contract(entry["name"].get<std::string>());
    EXPECT_NE(table.out.find(contract.name + ' '), std::string::npos) << table.out;
    EXPECT_NE(table.out.find(contract.summary), std::string::npos) << table.out;
    EXPECT_NE(run_assay({"list"}).out.find(contract.summary), std::string::npos);
    EXPECT_FALSE(entry["kernels"].empty()) << contract.name;
    EXPECT_FALSE(entry["accumulation"].empty()) << contract.name;
    EXPECT_EQ(entry["sources"].size(), contract.sources.size()) << contract.name;
  }
  EXPECT_EQ(table.out.find("oracle tier"), std::string::npos);
  EXPECT_EQ(run_assay({"list", "nosuch"}).code, exit_usage);
}

TEST_F(ContractFlag, is_what_a_report_runs_and_judges_by) {
  const Json named = Json::parse(report("json", {"--contract", "bf16"}).out),
             plain = Json::parse(report("json", {"--precision", "bf16"}).out);
  ASSERT_EQ(named["rows"].size(), plain["rows"].size());
  for (std::size_t i = 0; i < named["rows"].size(); ++i) {
    Json a = named["rows"][i], b = plain["rows"][i];
    EXPECT_NE(a["command"], b["command"]);
    a.erase("command"), b.erase("command");
    EXPECT_EQ(a, b);
  }
  const std::string file = mine();
  const Ran own = report("json", {"--contract", file});
  EXPECT_EQ(own.code, exit_passed) << own.out << own.err;
  const Json json = Json::parse(own.out);
  EXPECT_EQ(json["contract"], "mine");
  bool other = false;
  for (std::size_t i = 0; i < json["rows"].size(); ++i) {
    EXPECT_EQ(json["rows"][i]["contract"], "mine");
    EXPECT_EQ(json["rows"][i]["precision"], "bf16");
    EXPECT_NE(json["rows"][i]["command"].get<std::string>().find(" --contract '" + file + "'"), std::string::npos);
    other = other || json["rows"][i]["relative_error"] != plain["rows"][i]["relative_error"];
  }
  EXPECT_TRUE(other);
  const Ran table = report("table", {"--contract", file, "--rows"});
  for (const std::string& part :
       {"contract  mine (" + file + ")", std::string("sites as in bf16, state bf16, P fp32, 1 products"),
        std::string("= 1,70,1,8,8, contract mine\n")})
    EXPECT_NE(table.out.find(part), std::string::npos) << table.out;
}

TEST_F(ContractFlag, is_refused_where_it_says_nothing_or_does_not_fit) {
  expect_refused(
      report("json", {"--contract", "flash_attention"}),
      "gated_deltanet chunkwise: contract flash_attention: the kernel has no site m; contracts that fit it are ");
  expect_refused(report("json", {"--contract", "bf16", "--precision", "bf16"}), "--contract");
  expect_refused(report("json", {"--contract", "fla", "--device", "gpu"}), "--device gpu");
  expect_refused(report("json", {"--contract", path("none.json")}), "there is no ");
  const std::string bad = write("bad.json", R"({"name": "x", "base": "bf16", "sites": {"Px": "fp32"}})");
  expect_refused(report("json", {"--contract", bad}), "the kernel has no site Px");
  // Of all kernels there is none that has it.
  expect_refused(run_assay({"report", "--contract", bad}), "contract x: the kernel has no site Px");
  expect_refused(report("json", {"--contract", write("cut.json", R"({"name": "x",)")}), "cut.json: line 1");
  // Who names no mechanism gets those that fit.
  const Ran fit = run_assay({"report", "--contract", "flash_attention", "--shape", "1,8,1,4,4", "--format", "csv"});
  EXPECT_NE(fit.out.find("softmax_attention"), std::string::npos) << fit.err;
  EXPECT_EQ(fit.out.find("deltanet"), std::string::npos);
}

TEST_F(ContractFlag, is_what_a_check_judges_by) {
  const std::string file = path("case.st"), contract = mine();
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
  expect_refused(run_assay({"check", file, out, "--contract", "flash_attention"}),
                 "chunkwise: contract flash_attention: the kernel has no site m");
  expect_refused(run_assay({"check", file, out, "--contract", "fla", "--precision", "bf16"}), "--contract");
}

/// Of a FAIL by a contract: within any algorithm's error, beyond it, or between the two; and who allows it.
TEST_F(ContractFlag, a_fail_says_of_which_kind_it_is) {
  struct Error {
    const char* precision;
    double by;
    std::vector<const char*> said, unsaid;
  };
  const char *within = "within any algorithm's error (", *open = "left open by the model (",
             *beyond = "beyond any algorithm (", *tf32 = "tf32 allows that", *allowed = "; passes under contract ";
  for (const Error& error : {Error{"bf16", 0.009, {within, "), beyond contract bf16"}, {open, beyond, tf32}},
                             {"bf16",
                              0.016,
                              {open, "3.",
                               "itself: a chunk algorithm that cancels may do this), beyond "
                               "contract bf16",
                               allowed},
                              {within, beyond, "--contract says", tf32}},
                             {"bf16", 0.03, {beyond}, {within, open, allowed}},
                             {"fp32", 4e-7, {within, "), beyond contract fp32"}, {open, beyond, tf32}},
                             {"fp32", 1e-6, {beyond, tf32}, {within, open}}}) {
    const std::string file = path("kinds.st"), out = path("kinds_out.st");
    ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "1,40,2,8", "--precision", error.precision, "--no-cotangents",
                         "-o", file})
                  .code,
              exit_passed);
    ASSERT_EQ(run_assay({"oracle", file, "-o", out}).code, exit_passed);
    Safetensors answer = read_safetensors(out);
    std::erase_if(answer.tensors, [](const auto& tensor) { return tensor.first != "final_state"; });
    Array state = load("final_state", answer.tensors.at("final_state"));
    for (std::size_t i = 0; i < state.data.size(); ++i) state.data[i] *= 1 + (i % 2 == 0 ? -1 : 1) * error.by;
    answer.tensors.at("final_state") = store(state, "F64");
    write_safetensors(out, answer);
    const Ran ran = run_assay({"check", file, out, "--contract", error.precision, "--tensor", "final_state"});
    EXPECT_EQ(ran.code, exit_failed);
    for (const char* words : error.said) EXPECT_NE(ran.out.find(words), std::string::npos) << words << '\n' << ran.out;
    for (const char* words : error.unsaid)
      EXPECT_EQ(ran.out.find(words), std::string::npos) << words << '\n' << ran.out;
  }
}

/// What nothing rounds has no sigma to be off by: no multiple of it is printed.
TEST_F(ContractFlag, prints_no_infinite_sigma) {
  const std::string file = path("integers.st"), out = path("integers_out.st");
  ASSERT_EQ(run_assay({"case", "linear_attention", "--shape", "1,8,2,8", "--style", "integers", "--no-cotangents", "-o",
                       file})
                .code,
            exit_passed);
  ASSERT_EQ(run_assay({"oracle", file, "-o", out}).code, exit_passed);
  Safetensors answer = read_safetensors(out);
  std::erase_if(answer.tensors, [](const auto& tensor) { return tensor.first != "final_state"; });
  Array state = load("final_state", answer.tensors.at("final_state"));
  state.data[5] += 0x1p-20;
  answer.tensors.at("final_state") = store(state, "F64");
  write_safetensors(out, answer);
  for (const char* format : {"table", "markdown", "html", "junit", "sarif", "github"}) {
    const Ran ran =
        run_assay({"check", file, out, "--contract", "bf16", "--tensor", "final_state", "--format", format});
    EXPECT_EQ(ran.code, exit_failed) << ran.err;
    EXPECT_NE(ran.out.find("nothing of it is rounded"), std::string::npos) << ran.out;
    for (const char* infinite : {" inf ", ">inf<", " inf<"})
      EXPECT_EQ(ran.out.find(infinite), std::string::npos) << format << '\n' << ran.out;
  }
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

TEST_F(ContractInfer, refuses_what_it_cannot_read) {
  answer("{}");
  expect_refused(run_assay({"contract", "infer", case_}), "contract infer: expected pairs CASE OUT, got 1 files");
  expect_refused(run_assay({"contract", "infer", case_, out_, "--name", "fla"}), "there is a contract fla already");
  expect_refused(run_assay({"contract", "guess", case_, out_}), "infer");
  expect_refused(run_assay({"contract", "infer", case_, out_, "-o", out_}), out_);
}

}  // namespace
}  // namespace assay
