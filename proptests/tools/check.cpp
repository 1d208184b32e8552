// assay check where a transcript does not do (proptests/transcripts/check.md): plugins, every damage to a file, and
// which evidence decides.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "files/problem_file.hpp"
#include "files/safetensors.hpp"
#include "judge/contract/contract.hpp"
#include "judge/court/evidence.hpp"
#include "judge/court/judge_answer.hpp"
#include "judge/sigma/expected.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/core/places.hpp"
#include "proptests/tools/cli.hpp"
#include "reference/core/rounding.hpp"
#include "tools/run/device.hpp"

namespace assay {
namespace {

/// What the room's own emulation answers to a case, as a kernel would write it.
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

/// Two sequences, two heads on one, 70 tokens: a chunk and a ragged one.
class Check : public CliFiles {
 protected:
  void make(const std::string& mechanism = "deltanet", const std::string& precision = "bf16",
            const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"case",        mechanism, "--shape", "2,70,2/1,8,6",
                                     "--precision", precision, "-o",      path("case.st")};
    args.insert(args.end(), more.begin(), more.end());
    const Ran made = run_assay(args);
    ASSERT_EQ(made.code, exit_passed) << made.err;
  }
  Ran check(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"check", path("case.st"), path("out.st")};
    args.insert(args.end(), more.begin(), more.end());
    return run_assay(args);
  }
  /// That it is bad input, said in one sentence that has all of `parts`, and that nothing is printed.
  static void expect_refused(const Ran& ran, const std::vector<std::string>& parts) {
    EXPECT_EQ(ran.code, exit_usage) << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_TRUE(ran.err.starts_with("assay: ")) << ran.err;
    for (const std::string& part : parts) EXPECT_NE(ran.err.find(part), std::string::npos) << part << "\n" << ran.err;
  }
};

TEST_F(Check, runs_a_plugin) {
  for (const char* precision : {"bf16", "fp32"}) {
    make("deltanet", precision, {"--no-cotangents"});
    const Ran ran = run_assay({"check", path("case.st"), "--plugin", plugin_built("deltanet"), "--rows"});
    EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
    EXPECT_NE(ran.out.find("\nPASS  2 tensors by the model, "), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("\nreproduce: build/assay check " + path("case.st") + " --plugin " +
                           plugin_built("deltanet") + " --form chunkwise"),
              std::string::npos)
        << ran.out;
  }
  const auto plugin = [&](const std::string& library, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"check", path("case.st"), "--plugin", library};
    args.insert(args.end(), more.begin(), more.end());
    return run_assay(args);
  };
  expect_refused(plugin(plugin_built("deltanet"), {"--tensor", "o"}),
                 {plugin_built("deltanet") + ": says: answers o and final_state"});
  expect_refused(plugin(path("none.so")), {"none.so: cannot be read"});
  expect_refused(plugin(write("text.so", "text")), {"text.so: cannot be loaded: "});
}

#ifdef ASSAY_PLUGIN_DELTANET_ON_DEVICE
/// On a GPU if there is one; if not, that is what is said.
TEST_F(Check, runs_a_plugin_on_a_device) {
  make("deltanet", "bf16", {"--no-cotangents"});
  const Ran ran = run_assay({"check", path("case.st"), "--plugin", plugin_built("deltanet_on_device")});
  if (gpu() != nullptr) {
    EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
    EXPECT_NE(ran.out.find("2 tensors: 2 PASS\n"), std::string::npos) << ran.out;
  } else {
    expect_refused(ran, {plugin_built("deltanet_on_device") + ": asks for memory on a device: "});
  }
}
#endif

/// What a plugin does wrong is a sentence.
TEST_F(Check, survives_every_plugin) {
  make("deltanet", "bf16", {"--no-cotangents"});
  const auto misbehaving = [&](const char* how, const std::vector<std::string>& more = {}) {
    setenv("ASSAY_MISBEHAVES", how, 1);
    std::vector<std::string> args = {"check", path("case.st"), "--plugin", plugin_built("misbehaving")};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = run_assay(args);
    unsetenv("ASSAY_MISBEHAVES");
    return ran;
  };
  const std::string library = plugin_built("misbehaving");
  expect_refused(misbehaving("crash"), {library + ": crashed with signal 11"});
  expect_refused(misbehaving("abort"), {library + ": crashed with signal 6", ": about to abort"});
  expect_refused(misbehaving("exit"), {library + ": ended with exit code 5"});
  for (const char* how : {"exit_0", "exit_filled"})
    expect_refused(misbehaving(how), {library + ": ends the process in run(), which has to return"});
  expect_refused(misbehaving("overwrites"), {library + ": tensor beta: the plugin has overwritten its input"});
  expect_refused(misbehaving("throw"), {library + ": ended with exit code 1: thrown"});
  expect_refused(misbehaving("hang", {"--timeout", "0.2"}), {library + ": had not ended at the time limit"});
  expect_refused(misbehaving("refuse"), {library + ": says: not today, not tomorrow"});
  expect_refused(misbehaving("version"), {library + ": has version 3 of assay_plugin.h, this program has 2"});
  expect_refused(misbehaving("version_0"), {library + ": has version 0 of assay_plugin.h, this program has 2"});
  expect_refused(misbehaving("memory"), {library + ": asks for memory 77, which assay_plugin.h has not"});
  expect_refused(misbehaving("null"), {library + ": assay_plugin() returned null"});
  expect_refused(misbehaving("no_run"), {library + ": has no run()"});
  expect_refused(misbehaving("dtype"), {library + ": tensor final_state: dtype 9 is none of assay_plugin.h"});
  // It writes nothing: what is poisoned fails.
  const Ran nothing = misbehaving("nothing", {"--format", "json"}),
            version_1 = misbehaving("version_1", {"--format", "json"});  // taken, without its `memory`
  for (const Ran& ran : {nothing, version_1}) {
    EXPECT_EQ(ran.code, exit_failed);
    const Json page = Json::parse(ran.out);
    ASSERT_EQ(page["rows"].size(), 2U);
    for (const Json& row : page["rows"]) {
      EXPECT_EQ(row["verdict"], "FAIL");
      EXPECT_NE(row["reason"].get<std::string>().find("nan, not a finite number"), std::string::npos) << row["reason"];
    }
  }
  // It says which dtype it writes: zeros of bf16 are no NaN, and they are wrong.
  const Json zeros = Json::parse(misbehaving("bf16_zeros", {"--format", "json"}).out);
  ASSERT_EQ(zeros["rows"].size(), 2U);
  for (const Json& row : zeros["rows"]) {
    EXPECT_EQ(row["verdict"], "FAIL");
    EXPECT_NE(row["reason"].get<std::string>().find(" is 0, expected"), std::string::npos) << row["reason"];
  }
}

/// A kernel may be within every limit and still answer other bits each time, or others in a batch than alone.
TEST_F(Check, demands_the_same_bits) {
  ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "3,20,2,8", "--precision", "bf16", "--no-cotangents", "-o",
                       path("case.st")})
                .code,
            exit_passed);
  const auto answered = [&](const char* bug, bool demanded) {
    setenv("ASSAY_BUG", bug, 1), setenv("ASSAY_RUNS", write("runs", "").c_str(), 1);
    std::vector<std::string> args = {"check", path("case.st"), "--plugin", plugin_built("wrong")};
    if (demanded) args.emplace_back("--same-bits");
    const Ran ran = run_assay(args);
    unsetenv("ASSAY_BUG"), unsetenv("ASSAY_RUNS");
    return ran;
  };
  for (const char* bug : {"none", "other_bits_again", "other_bits_in_batch", "reads_behind"})
    EXPECT_EQ(answered(bug, false).code, exit_passed) << bug;
  EXPECT_EQ(answered("none", true).code, exit_passed);
  const Ran behind = answered("reads_behind", true);
  EXPECT_EQ(behind.code, exit_failed);
  EXPECT_NE(behind.out.find("o[2][19][1][7] is "), std::string::npos) << behind.out;
  EXPECT_NE(behind.out.find(" with zeros around the inputs in place of NaN, and was "), std::string::npos)
      << behind.out;
  expect_refused(answered("writes_behind", false), {"tensor o: written behind its memory"});
  expect_refused(answered("writes_in_front", false), {"tensor o: written in front of its memory"});
  const Ran again = answered("other_bits_again", true), batch = answered("other_bits_in_batch", true);
  EXPECT_EQ(again.code, exit_failed);
  EXPECT_NE(again.out.find("\no: o[0][1][0][0] is "), std::string::npos) << again.out;
  EXPECT_NE(again.out.find(" when it is run again, and was "), std::string::npos) << again.out;
  EXPECT_NE(again.out.find(" --same-bits --form"), std::string::npos) << "the command that repeats it: " << again.out;
  EXPECT_EQ(batch.code, exit_failed);
  EXPECT_NE(batch.out.find("\no: o[2][19][1][7] is "), std::string::npos) << batch.out;
  EXPECT_NE(batch.out.find(" when sequence 2 is run alone, and was "), std::string::npos) << batch.out;

  // A command is run in the same way; a file cannot be run again.
  const std::string copy = "cp {case} " + path("seen.st") + " && cp " + path("out.st") + " {out}";
  write_safetensors(path("out.st"), emulated(path("case.st"), Format::bf16));
  const Ran fixed = run_assay({"check", path("case.st"), "--kernel", copy, "--same-bits"});
  EXPECT_EQ(fixed.code, exit_failed);
  EXPECT_NE(fixed.out.find("o has another shape when sequence 0 is run alone"), std::string::npos) << fixed.out;
  const Safetensors seen = read_safetensors(path("seen.st")), whole = read_safetensors(path("case.st"));
  const StoredTensor &part = seen.tensors.at("v"), &v = whole.tensors.at("v");
  EXPECT_EQ(part.shape, (std::vector<int>{1, 20, 2, 8}));
  EXPECT_TRUE(std::equal(part.bytes.rbegin(), part.bytes.rend(), v.bytes.rbegin())) << "the last sequence";
  expect_refused(run_assay({"check", path("case.st"), path("out.st"), "--same-bits"}),
                 {"--same-bits: expected --kernel or --plugin"});
}

/// However a file is cut off, and whatever its header claims, it is refused in one sentence.
TEST_F(Check, refuses_every_damaged_file) {
  ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "1,3,1,2", "-o", path("case.st")}).code, exit_passed);
  const std::vector<std::uint8_t> bytes = serialize(emulated(path("case.st"), Format::bf16));
  const std::string whole(bytes.begin(), bytes.end());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write("out.st", whole.substr(0, size));
    expect_refused(check(), {path("out.st") + ": "});
  }
  const std::uint64_t header = whole.find('}', whole.rfind("]")) - 7;
  for (const std::uint64_t claim : {std::uint64_t{0}, std::uint64_t{1}, header - 1, header + 9, whole.size() - 8 + 1,
                                    std::uint64_t{1} << 32, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    std::string forged = whole;
    for (std::size_t i = 0; i < 8; ++i) forged[i] = static_cast<char>(claim >> (8 * i));
    write("out.st", forged);
    expect_refused(check(), {path("out.st") + ": "});
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

/// A contract that stores in bf16 what the model knows in fp32: within it lies what the model FAILs. Of one element's
/// error a contract's excess is a multiple.
TEST(Evidence, half_of_the_contracts_limits_overrules_the_model) {
  const Room& room = listed_room("value_averaging");
  Problem problem = room.make({"value_averaging", {1, 19, 1, 0, 8, 8, 0}, Format::fp32, Style::normal, 0, {}});
  problem.cotangents.clear();
  const Oracle oracle = oracle_of(room, problem);
  const Oracle::Tensor& truth = oracle.tensors.front().second;
  Contract stores = Contract::of(Format::fp32);
  stores.name = "stores", stores.rules = {{"out", Format::bf16}};
  const KernelForm& form = find_kernels(kernel_rooms(), "value_averaging")->forms.front();
  const Trial trial{.room = room, .kernel = {&form, Format::fp32, 0, 1, &stores}, .problem = problem, .oracle = oracle};
  const auto off_by = [&](double error) {
    Answer got;
    Array& o = got.outputs["o"] = Array(truth.shape);
    for (std::size_t i = 0; i < o.data.size(); ++i) o.data[i] = truth.value[i].hi;
    o.data.back() += error;
    OtherContracts others;
    return judge_by_both(trial, {}, got, {}, Decides::model, others).front();
  };
  const double limit = 0x1p-10 / off_by(0x1p-10).by_contract.value().excess;
  for (const double share : {0.45, 0.55, 0.9}) {
    const ReportRow row = off_by(share * limit);
    EXPECT_EQ(row.by_model.value().verdict, Verdict::fail) << share;
    EXPECT_EQ(row.by_contract.value().verdict, Verdict::pass) << share << ": " << row.by_contract.value().reason;
    EXPECT_EQ(row.judgement.verdict, share < 0.5 ? Verdict::pass : Verdict::fail) << share;
    EXPECT_EQ(row.evidence, share < 0.5 ? "contract stores" : "model") << share;
  }
}

}  // namespace
}  // namespace assay
