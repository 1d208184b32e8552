// assay suite: eight cases, one verdict; which cases these are is what was measured.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "files/problem_file.hpp"
#include "judge/sigma/expected.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/core/one_in.hpp"
#include "proptests/tools/cli.hpp"
#include "tools/cases/suite_cases.hpp"
#include "tools/cases/suite_measure.hpp"
#include "tools/pages/suite_page.hpp"

namespace assay {
namespace {

/// Answers the cases of a suite as a kernel would. Heads have 8 dimensions: every kernel takes them, faults are planted
/// in them, and eight cases take seconds.
class SuiteRun : public CliFiles {
 protected:
  Ran suite(std::vector<std::string> args, const std::vector<std::string>& more = {}) const {
    args.insert(args.begin(), "suite");
    args.insert(args.end(), more.begin(), more.end());
    return run_assay(args);
  }
  void write_cases(const std::string& mechanism, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {mechanism, "--write-cases", folder.string(), "--head-dim", "8"};
    const Ran ran = suite(args, more);
    ASSERT_EQ(ran.code, exit_passed) << ran.err;
  }
  void put(int number, const ProblemFile& file, Answer answer) const {
    TensorFile to;
    for (auto& [name, array] : answer.outputs)
      to.put(name, std::move(array), answer_field(*file.room, name), file.batch, "BF16");
    for (auto& [name, array] : answer.gradients)
      to.put("d_" + name, std::move(array), answer_field(*file.room, "d_" + name), file.batch, "BF16");
    write_safetensors(path("out" + std::to_string(number) + ".safetensors"), std::move(to).finish({}));
  }
  ProblemFile read_case(int number) const {
    const std::string name = path("case" + std::to_string(number) + ".safetensors");
    return read_problem(read_safetensors(name), name);
  }
  /// The oracle's answers, rounded once to bf16.
  void answer_all() const {
    for (int number = 1; number <= suite_size; ++number) {
      const ProblemFile file = read_case(number);
      Answer answer;
      const Oracle oracle = oracle_of(*file.room, file.problem);
      for (const auto& [name, tensor] : oracle.tensors) {
        Array array(tensor.shape, {});
        for (const HiLo& value : tensor.value) array.data.push_back(value.hi);
        if (array.data.empty()) continue;
        if (name.starts_with("d_"))
          answer.gradients[name.substr(2)] = std::move(array);
        else
          answer.outputs[name] = std::move(array);
      }
      put(number, file, std::move(answer));
    }
  }
  /// What a kernel with that fault answers to one case.
  void plant(int number, const std::string& fault) const {
    const ProblemFile file = read_case(number);
    const KernelForm& form = find_kernels(kernel_rooms(), file.room->name)->forms.front();
    Policy policy = Policy::of(form.sites, Format::bf16);
    policy.fault = fault;
    put(number, file, form.run(file.problem, policy, 0));
  }
};

/// Every eleventh, for time; all with ASSAY_EVERY=1 in the environment.
std::vector<std::string> mechanisms() {
  std::vector<std::string> names;
  const auto step = static_cast<std::size_t>(one_in(11));
  const auto rooms = kernel_rooms();
  for (std::size_t i = 0; i < rooms.size(); i += step) names.emplace_back(rooms[i]->name);
  return names;
}

class EverySuite : public SuiteRun, public testing::WithParamInterface<std::string> {};

/// Without gradients, for time.
TEST_P(EverySuite, passes_the_oracle_rounded_and_fails_what_is_planted) {
  write_cases(GetParam(), {"--no-cotangents"});
  answer_all();
  const std::vector<std::string> args = {GetParam(), "--answers", folder.string(), "--head-dim",
                                         "8",        "--format",  "json"};
  const Ran right = suite(args);
  ASSERT_EQ(right.code, exit_passed) << right.out << right.err;
  EXPECT_EQ(Json::parse(right.out)["cases"].size(), static_cast<std::size_t>(suite_size));

  // Of the faults that change o, the first two: one case has them, and that one is named.
  const KernelForm& form = find_kernels(kernel_rooms(), GetParam())->forms.front();
  int planted = 0;
  for (const Mutant& mutant : form.mutants) {
    if (planted == 2) break;
    plant(1, std::string(mutant.name));
    Json all = Json::parse(suite(args, {"--case", "1", "--contract", "bf16"}).out);
    if (all["passed"].get<bool>()) continue;
    ++planted;
    all = Json::parse(suite(args, {"--case", "1", "--case", "2", "--contract", "bf16"}).out);
    EXPECT_EQ(all["cases"][0]["verdict"], "FAIL") << mutant.name;
    EXPECT_EQ(all["cases"][1]["verdict"], "PASS") << mutant.name;
  }
  EXPECT_EQ(planted, 2) << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Of, EverySuite, testing::ValuesIn(mechanisms()),
                         [](const testing::TestParamInfo<std::string>& of) { return of.param; });

TEST_F(SuiteRun, has_one_verdict_and_one_table) {
  write_cases("retnet", {"--no-cotangents"});
  answer_all();
  const std::vector<std::string> args = {"retnet", "--answers", folder.string(), "--head-dim", "8"};
  const Ran right = suite(args);
  EXPECT_EQ(right.code, exit_passed) << right.out << right.err;
  EXPECT_NE(right.out.find("\n8 cases: all PASS\n"), std::string::npos) << right.out;
  std::filesystem::copy(path("out2.safetensors"), path("spare"));
  Safetensors out = read_safetensors(path("out2.safetensors"));
  Array o = load("o", out.tensors.at("o"));
  for (double& x : o.data) x *= -1;
  out.tensors.at("o") = store(o, "BF16");
  write_safetensors(path("out2.safetensors"), out);
  const Ran wrong = suite(args);
  EXPECT_EQ(wrong.code, exit_failed) << wrong.out;
  for (const std::string& part :
       {std::string("\n8 cases: 7 PASS, 1 not\n"), std::string("FAIL  retnet chunkwise, case 2, bf16 o: "),
        std::string("FAIL  o is wrong "), std::string("looks like the sign reversed"),
        "build/assay suite retnet --answers " + folder.string() + " --head-dim 8 --case 2\n"})
    EXPECT_NE(wrong.out.find(part), std::string::npos) << part << '\n' << wrong.out;
  // Only that one, in every format.
  for (const char* format : {"table", "markdown", "html", "json", "csv", "junit", "sarif", "github"}) {
    const Ran one = suite(args, {"--case", "2", "--tensor", "o", "--format", format});
    EXPECT_EQ(one.code, exit_failed) << one.err;
    EXPECT_NE(one.out.find("case 2"), std::string::npos) << one.out;
  }
  std::filesystem::remove(path("out2.safetensors"));
  const Ran missing = suite(args);
  EXPECT_EQ(missing.code, exit_failed) << missing.err;
  EXPECT_NE(missing.out.find("out2.safetensors: cannot be read"), std::string::npos) << missing.out;
}

TEST_F(SuiteRun, runs_a_kernel_that_stays) {
  write_cases("retnet", {"--no-cotangents"});
  answer_all();
  // It knows the answers by the digests of the cases.
  const std::string script = write("kernel.sh", "echo >> " + path("starts") +
                                                    "\nwhile read -r case out; do for n in 1 2 3 4 5 6 7 8; do cmp -s "
                                                    "$case " +
                                                    folder.string() + "/case$n.safetensors && cp " + folder.string() +
                                                    "/out$n.safetensors $out; done; echo done; done\n");
  const Ran ran = suite({"retnet", "--kernel-loop", "sh " + script, "--head-dim", "8", "--no-cotangents"});
  EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
  EXPECT_EQ(read("starts"), "\n");
  // A size that is not taken is an error of one case; none that is, an error of all.
  const Ran none = suite({"retnet", "--kernel", "exit 3 # {case} {out}", "--head-dim", "8"});
  EXPECT_EQ(none.code, exit_usage);
  EXPECT_EQ(none.err, "assay: --kernel: the command ended with exit code 3\n");
}

TEST_F(SuiteRun, refuses_in_one_sentence) {
  const auto refused = [&](const std::vector<std::string>& args, const std::string& sentence) {
    const Ran ran = suite(args);
    EXPECT_EQ(ran.code, exit_usage) << ran.out;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_NE(ran.err.find(sentence), std::string::npos) << ran.err;
  };
  refused({}, "suite: expected a mechanism");
  refused({"deltanett", "--kernel", "{case} {out}"}, "did you mean deltanet?");
  refused({"rmsnorm", "--kernel", "{case} {out}"}, "suite: rmsnorm has no kernel and so no contract to judge by");
  refused({"deltanet"}, "suite: expected one of --kernel, --kernel-loop, --plugin, --answers and --write-cases");
  refused({"deltanet", "--kernel", "true"}, "--kernel: expected {case} and {out} in the command");
  refused({"deltanet", "--kernel", "{case} {out}", "--case", "9"}, "--case: expected numbers from 1 to 8");
  refused({"deltanet", "--kernel", "{case} {out}", "--param", "nothing=1"}, "--param: deltanet has no nothing");
  refused({"gla", "--kernel", "{case} {out}", "--settings"}, "--settings: gla has none");
  refused({"deltanet", "--answers", folder.string()},
          "case1.safetensors: missing; `assay suite deltanet --write-cases");
  write_cases("retnet");
  refused({"deltanet", "--answers", folder.string()}, "is not case 1 of the suite of deltanet");
}

/// Of kernels with arguments: the same eight, drawn with them, judged by the model.
TEST_F(SuiteRun, has_the_arguments_that_are_asked_for) {
  const std::vector<std::string> with = {"--param", "soft_cap=2", "--with", "sink", "--no-cotangents"};
  write_cases("softmax_attention", with);
  const auto answer = [&](int number, const std::string& cap) {
    const std::string n = std::to_string(number) + ".safetensors";
    Safetensors file = read_safetensors(path("case" + n));
    ASSERT_TRUE(file.tensors.contains("sink"));
    Json params = Json::parse(file.metadata.at("params"));
    params["soft_cap"] = cap, file.metadata["params"] = params.dump();
    write_safetensors(path("misread"), file);
    ASSERT_EQ(run_assay({"oracle", path("misread"), "-o", path("out" + n)}).code, exit_passed);
  };
  answer(2, "2"), answer(6, "2");  // 64 tokens and one, for time
  std::vector<std::string> args = {"softmax_attention", "--answers", folder.string(), "--head-dim", "8"};
  EXPECT_NE(suite(args).err.find("is not case 1 of the suite of softmax_attention"), std::string::npos);
  args.insert(args.end(), with.begin(), with.end());
  args.insert(args.end(), {"--case", "2", "--case", "6", "--format", "json"});
  const Ran right = suite(args);
  ASSERT_EQ(right.code, exit_passed) << right.out << right.err;
  const auto command = Json::parse(right.out)["cases"][0]["command"].get<std::string>();
  EXPECT_NE(command.find(" --param soft_cap=2 --with sink --no-cotangents -o "), std::string::npos) << command;
  answer(2, "2.1");
  const Json all = Json::parse(suite(args).out);
  EXPECT_EQ(all["cases"][0]["verdict"], "FAIL");
  EXPECT_EQ(all["cases"][1]["verdict"], "PASS");
  const Ran refused = suite({"deltanet", "--kernel", "{case} {out}", "--with", "sink"});
  EXPECT_EQ(refused.code, exit_usage);
  EXPECT_NE(refused.err.find("sink: deltanet does not take it: it has no scores"), std::string::npos) << refused.err;
}

TEST_F(SuiteRun, has_the_cases_that_are_asked_for) {
  write_cases("deltanet", {"--precision", "fp32", "--seed", "5", "--no-groups", "--no-cotangents"});
  for (int number = 1; number <= suite_size; ++number) {
    const ProblemFile file = read_case(number);
    EXPECT_EQ(file.metadata.at("precision"), "fp32");
    EXPECT_EQ(file.metadata.at("seed"), "5");
    EXPECT_EQ(file.heads, file.shared_heads);
    EXPECT_TRUE(file.problem.cotangents.empty());
  }
}

/// Every mechanism with kernels has eight cases, each of which can be made; the page says which.
TEST(SuiteTable, has_every_mechanism) {
  std::size_t at = 0;
  for (const KernelRoom* room : kernel_rooms()) {
    ASSERT_LT(at, suites().size());
    const Suite& suite = suites()[at++];
    EXPECT_EQ(suite.mechanism, room->name);
    EXPECT_EQ(suite.cases.size(), static_cast<std::size_t>(suite_size)) << room->name;
    // What is wrong with a setting changes no number of a case that has it off: those with settings show it.
    EXPECT_GE(20 * std::max(suite.by_contract, suite.shown_with_settings), 17 * suite.faults) << room->name;
    for (const SuiteBlindSpot& spot : suite.blind_spots)
      EXPECT_NE(suite_page().find("| " + spot.name + " |"), std::string::npos);
  }
  EXPECT_EQ(at, suites().size());
}

/// The table is what measuring says today, of the mechanism that takes least.
TEST(SuiteTable, is_what_is_measured) {
  const Room& room = listed_room("value_averaging");
  const SuiteMatrix matrix = measure_suite(room, suite_candidates(room), {}, [](std::size_t) {});
  EXPECT_EQ(json_of({suite_of(room, matrix)}), json_of({*find_suite(room.name)}));
}

/// First what shows most, then what shows most of the rest; each length once before one comes again.
TEST(SuiteChoice, is_greedy) {
  const auto seen = [](bool a, bool b, bool c) { return std::vector<Seen>{{a, a, a}, {b, b, b}, {c, c, c}}; };
  SuiteMatrix matrix;
  matrix.candidates = {{"1,65,2"}, {"1,65,2"}, {"1,65,2"}, {"1,9,2"}};
  matrix.faults = {"a", "b", "c"};
  matrix.seen = {seen(true, false, false), seen(true, true, false), seen(false, false, true),
                 seen(false, false, false)};
  EXPECT_EQ(choose_cases(matrix, {0, 1, 2, 3}, 8), (std::vector<std::size_t>{1, 3, 2, 0}));
  EXPECT_EQ(choose_cases(matrix, {0, 1, 2}, 2), (std::vector<std::size_t>{1, 2}));
}

}  // namespace
}  // namespace assay
