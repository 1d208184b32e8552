// Programs where a mechanism's name goes, as users type it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <regex>
#include <set>

#include "files/case_file.hpp"
#include "files/safetensors.hpp"
#include "judge/court/cache.hpp"
#include "language/program/program.hpp"
#include "proptests/core/places.hpp"
#include "proptests/language/programs.hpp"
#include "proptests/tools/cli.hpp"

namespace assay::language {
namespace {

class ProgramVerbs : public CliFiles {
 protected:
  /// A case of the program, and its exact answer in the dtype of a kernel's.
  Safetensors answered(const std::string& program, const std::string& shape, const std::string& dtype = "BF16") {
    const Ran made = run_assay({"case", path_of(program), "--shape", shape, "-o", path("case.safetensors")});
    EXPECT_EQ(made.code, 0) << made.err;
    const Ran ran = run_assay({"oracle", path("case.safetensors"), "-o", path("truth.safetensors")});
    EXPECT_EQ(ran.code, 0) << ran.err;
    Safetensors answer = read_safetensors(path("truth.safetensors"));
    EXPECT_EQ(answer.metadata["status"], "OK") << answer.metadata["message"];
    std::erase_if(answer.tensors, [](const auto& t) { return t.first.find('.') != std::string::npos; });
    for (auto& [name, tensor] : answer.tensors) tensor = store(load(name, tensor), dtype);
    return answer;
  }

  /// The page as JSON.
  Json checked(const Safetensors& answer, int code, const std::vector<std::string>& more = {}) {
    write_safetensors(std::filesystem::path(path("out.safetensors")), answer);
    std::vector<std::string> args = {"check", path("case.safetensors"), path("out.safetensors"), "--format", "json"};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = run_assay(args);
    EXPECT_EQ(ran.code, code) << ran.out << ran.err;
    return ran.out.empty() ? Json() : Json::parse(ran.out);
  }
};

TEST_F(ProgramVerbs, TheOracleAnswersCasesOfPrograms) {
  const auto record = [](const std::string& mechanism) {
    return R"({"format":"assay-cases","version":1,"cases":[{"id":"a","mechanism":")" + mechanism +
           R"(","params":{"scale":"1"},"inputs":{"q":[["1","2"]],"k":[["1","0"]],"v":[["3"]],"log_decay":["-1"]}}]})";
  };
  const std::string file = path_of("mamba2"), digest = load_program(file).digest();
  for (const std::string& name : {file, file + '@' + digest}) {
    const Ran ran = run_assay({"oracle", write("in.json", record(name)), "--digits", "5"});
    EXPECT_EQ(ran.code, 0);
    EXPECT_NE(ran.out.find(R"("o":[["3.0000"]])"), std::string::npos) << ran.out << ran.err;
  }
  const Ran other = run_assay({"oracle", write("in.json", record("gla")), "--digits", "5", "--mechanism", file});
  EXPECT_NE(other.out.find(R"("o":[["3.0000"]])"), std::string::npos) << other.out;
  const Ran wrong = run_assay({"oracle", write("in.json", record(file + '@' + std::string(64, '0')))});
  EXPECT_NE(wrong.out.find("its digest is " + digest + ", and the case is of 000"), std::string::npos) << wrong.out;
  const Ran none = run_assay({"oracle", write("in.json", record(path("none.json")))});
  EXPECT_NE(none.out.find(R"("status":"UNSUPPORTED")"), std::string::npos) << none.out;
  const Ran typed = run_assay({"oracle", write("in.json", record("gla")), "--mechanism", path("none.json")});
  EXPECT_EQ(typed.code, 2);
  EXPECT_NE(typed.err.find("none.json"), std::string::npos) << typed.err;
}

TEST_F(ProgramVerbs, TheModelJudgesKernelsOfPrograms) {
  for (const char* program : {"forgetting_attention", "gated_deltanet"}) {
    Safetensors answer = answered(program, "1,48,2,16,16");
    const Json right = checked(answer, 0), right_rows = right["rows"];
    EXPECT_GE(right_rows.size(), 5);
    for (const Json& row : right_rows) {
      EXPECT_EQ(row["verdict"], "PASS") << row.dump();
      EXPECT_EQ(row["evidence"], "model") << row.dump();
      // Of the exact answer the last rounding alone is left, and healthy kernels have more than that.
      const bool contracted = row["tensor"] == "o" || row["tensor"] == "d_k";
      EXPECT_LT(contracted ? row["rms_z"].get<double>() : 0, 0.8) << row.dump();
    }
    // A write that is 3 % too small; at 2 % the model may not decide, and there is no contract to ask.
    for (StoredTensor* tensor : {&answer.tensors["o"], &answer.tensors["d_v"]}) {
      Array array = load("x", *tensor);
      for (double& x : array.data) x *= 0.97;
      *tensor = store(array, "BF16");
    }
    const Json bad = checked(answer, 1), bad_rows = bad["rows"];
    for (const Json& row : bad_rows) {
      const bool wrong = row["tensor"] == "o" || row["tensor"] == "d_v";
      EXPECT_EQ(row["verdict"], wrong ? "FAIL" : "PASS") << row.dump();
    }
  }
}

TEST_F(ProgramVerbs, ContractsAreOfKernelsThatWeHave) {
  const Safetensors answer = answered("kda", "1,20,1,8,8");
  write_safetensors(std::filesystem::path(path("out.safetensors")), answer);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--contract", "bf16"}, {"--form", "chunkwise"}}) {
    std::vector<std::string> args = {"check", path("case.safetensors"), path("out.safetensors")};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = run_assay(args);
    EXPECT_EQ(ran.code, 2);
    EXPECT_NE(ran.err.find("is a program, and has no kernel of ours: --form FORM.json, a program with the kernel's "
                           "roundings, has the sites of a contract; without"),
              std::string::npos)
        << ran.err;
  }
  // The same case of the room's, judged by the program.
  ASSERT_EQ(run_assay({"case", "kda", "--shape", "1,20,1,8,8", "-o", path("case.safetensors")}).code, 0);
  const Json page = checked(answer, 0, {"--mechanism", path_of("kda")}), rows = page["rows"];
  EXPECT_GE(rows.size(), 7);
  for (const Json& row : rows) EXPECT_EQ(row["evidence"], "model");
}

TEST_F(ProgramVerbs, CheckSaysWhichErrorsInTheFormulaItWouldHaveFailed) {
  const Safetensors answer = answered("gated_deltanet", "1,40,2,16,16");
  const Json formula = checked(answer, 0, {"--mutants"})["formula"];
  EXPECT_GT(formula["mutants"], 60);
  EXPECT_GE(formula["revealed"], 0.9 * formula["mutants"].get<double>()) << formula.dump();
  EXPECT_EQ(formula["revealed"].get<std::size_t>() + formula["passes"].size(), formula["mutants"]);
  ASSERT_EQ(run_assay({"case", "kda", "--shape", "1,20,1,8,8", "-o", path("case.safetensors")}).code, 0);
  ASSERT_EQ(run_assay({"oracle", path("case.safetensors"), "-o", path("out.safetensors")}).code, 0);
  const Ran ran = run_assay({"check", path("case.safetensors"), path("out.safetensors"), "--mutants"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.err.find("--mutants: kda is no program"), std::string::npos) << ran.err;
}

/// Keys and values of every group are those that its first head would have without groups.
TEST_F(ProgramVerbs, SharedInputsHaveFewerHeads) {
  answered("gla", "1,20,4,8,8");
  const Safetensors whole = read_safetensors(path("case.safetensors"));
  const Safetensors answer = answered("gla", "1,20,4/2,8,8");
  const Safetensors grouped = read_safetensors(path("case.safetensors"));
  for (const auto& [name, tensor] : grouped.tensors) {
    const Array drawn = load(name, tensor), all = load(name, whole.tensors.at(name));
    const bool is_shared = name == "k" || name == "v";
    ASSERT_EQ(drawn.data.size(), is_shared ? all.data.size() / 2 : all.data.size()) << name;
    for (std::size_t i = 0; i < drawn.data.size(); ++i)
      ASSERT_EQ(drawn.data[i], all.data[is_shared ? i / 8 * 16 + i % 8 : i]) << name << ' ' << i;
  }
  EXPECT_EQ(answer.tensors.at("d_k").shape, (std::vector<int>{1, 20, 2, 8}));
  EXPECT_EQ(answer.tensors.at("d_q").shape, (std::vector<int>{1, 20, 4, 8}));
  checked(answer, 0);
  const Ran ran = run_assay(
      {"case", source_dir() + "/mechanisms/json/hgrn.json", "--shape", "1,20,4/2,8,8", "-o", path("none.safetensors")});
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.err.find("has no q and k or v whose heads could share; leave out /2"), std::string::npos) << ran.err;
}

/// Axes of written length, and of names that no shape has: as long as K.
TEST_F(ProgramVerbs, CasesHaveInputsOfAnyAxes) {
  const auto shape_of = [&](const std::string& name) {
    return read_safetensors(path("case.safetensors")).tensors.at(name).shape;
  };
  answered("gated_delta_product", "2,6,2,4,5");
  EXPECT_EQ(shape_of("k"), (std::vector<int>{2, 6, 2, 2, 4}));
  EXPECT_EQ(shape_of("v"), (std::vector<int>{2, 6, 2, 2, 5}));
  EXPECT_EQ(shape_of("beta"), (std::vector<int>{2, 6, 2, 2}));
  const std::string library = source_dir() + "/mechanisms/json/";
  for (const char* name : {"gsa", "falcon3", "log_linear_attention"}) {
    const Ran made =
        run_assay({"case", library + name + ".json", "--shape", "1,5,2,4,3", "-o", path("case.safetensors")});
    EXPECT_EQ(made.code, 0) << made.err;
    EXPECT_EQ(run_assay({"oracle", path("case.safetensors"), "-o", path("out.safetensors")}).code, 0);
    const auto metadata = read_safetensors(path("out.safetensors")).metadata;
    EXPECT_EQ(metadata.at("status"), "OK") << name << metadata.at("message");
  }
}

/// What was kept for one program is not found for another one in the same file.
/// Of a tensor of four axes and more, rows are all indices but the last one.
TEST_F(ProgramVerbs, TensorsOfAnyAxesAreJudged) {
  for (const std::string name : {"delta_product", "gated_delta_product", "differential_attention", "mamba3"}) {
    const std::string program = source_dir() + "/mechanisms/json/" + name + ".json";
    ASSERT_EQ(run_assay({"case", program, "--shape", "1,20,2,4,4", "-o", path("case.safetensors")}).code, 0) << name;
    ASSERT_EQ(run_assay({"oracle", path("case.safetensors"), "-o", path("truth.safetensors")}).code, 0) << name;
    Safetensors answer = read_safetensors(path("truth.safetensors"));
    std::erase_if(answer.tensors, [](const auto& t) { return t.first.find('.') != std::string::npos; });
    const auto widest =
        std::max_element(answer.tensors.begin(), answer.tensors.end(),
                         [](const auto& a, const auto& b) { return a.second.shape.size() < b.second.shape.size(); });
    ASSERT_GE(widest->second.shape.size(), 5U) << name;  // a file has the batch, too
    const std::string tensor = widest->first;
    checked(answer, 0);
    Array wrong = load(tensor, answer.tensors.at(tensor));
    for (double& x : wrong.data) x *= -1;
    answer.tensors.at(tensor) = store(wrong, "F64");
    const Json page = checked(answer, 1);
    for (const Json& one : page["rows"]) {
      EXPECT_EQ(one["verdict"], one["tensor"] == tensor ? "FAIL" : "PASS") << name << ' ' << one["tensor"];
      if (one["tensor"] == tensor) {
        EXPECT_NE(one.dump().find("of axis"), std::string::npos) << one.dump();
      }
    }
  }
}

/// Without its hints, the state of rwkv7 grows by a factor for every token.
TEST_F(ProgramVerbs, CasesFollowHints) {
  const std::string program = source_dir() + "/mechanisms/json/rwkv7.json";
  ASSERT_EQ(run_assay({"case", program, "--shape", "1,200,2,8,8", "-o", path("case.safetensors")}).code, 0);
  const Array a = load("a", read_safetensors(path("case.safetensors")).tensors.at("a"));
  for (std::size_t first = 0; first < a.data.size(); first += 8) {
    double squares = 0;
    for (std::size_t i = first; i < first + 8; ++i) squares += a.data[i] * a.data[i];
    EXPECT_NEAR(squares, 1, 0x1p-6);  // each number is rounded to bf16
  }
  ASSERT_EQ(run_assay({"oracle", path("case.safetensors"), "-o", path("truth.safetensors")}).code, 0);
  const Array state = load("final_state", read_safetensors(path("truth.safetensors")).tensors.at("final_state"));
  for (const double x : state.data) EXPECT_LT(std::fabs(x), 1e6);
  std::string text = text_of_file(path_of("retnet"));
  const std::string domain = R"("domain":"value")";
  ASSERT_NE(text.find(domain), std::string::npos);
  text.replace(text.find(domain), domain.size(), domain + R"(,"hint":{"high":"0.5","low":"0.25"})");
  const std::string hinted = write("hinted.json", text);
  ASSERT_EQ(run_assay({"case", hinted, "--shape", "1,40,2,8,8", "-o", path("case.safetensors")}).code, 0);
  for (const double x : load("v", read_safetensors(path("case.safetensors")).tensors.at("v")).data)
    EXPECT_TRUE(x >= 0.25 && x <= 0.5) << x;
  const Ran refused = run_assay(
      {"case", write("none.json", text.replace(text.find("0.25"), 4, "none")), "--shape", "1,4,1,2,2", "-o", "-"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("v: hint low"), std::string::npos) << refused.err;
}

TEST_F(ProgramVerbs, WhatIsKeptIsOfTheProgramThatTheFileHolds) {
  const auto key = [&](const std::string& program, const std::string& to) {
    write("mine.json", text_of_file(path_of(program)));
    // A process of its own: one reads a program once.
    EXPECT_EXIT(
        {
          write(to, digest_of(Problem{"mine", path("mine.json"), {}, {}, {}}));
          std::exit(0);
        },
        testing::ExitedWithCode(0), "");
    return read(to);
  };
  const std::string first = key("gated_deltanet", "first");
  EXPECT_EQ(first.size(), 64U);
  EXPECT_NE(key("gated_deltanet-undecayed", "second"), first);
  EXPECT_EQ(key("gated_deltanet", "third"), first);
}

/// The rows of `assay-lab identities` by law, and their verdicts.
std::map<std::string, std::string> laws_of(const std::string& program, int code) {
  const Ran ran = run_assay({"identities", "--mechanism", program, "--format", "json"});
  EXPECT_EQ(ran.code, code) << ran.out << ran.err;
  std::map<std::string, std::string> verdicts;
  const Json page = Json::parse(ran.out), rows = page["rows"];
  for (const Json& row : rows) {
    std::string& verdict = verdicts[row["limit"].get<std::string>()];
    if (verdict.empty() || row["verdict"] != "PASS") verdict = row["verdict"].get<std::string>();
  }
  return verdicts;
}

TEST_F(ProgramVerbs, LimitsMeasuresTheLawsOfItsNamesAndAxes) {
  for (const char* recurrence : {"gated_deltanet", "deltanet-next_latent", "mdn", "gated_delta_product"}) {
    const auto laws = laws_of(path_of(recurrence), 0);
    for (const char* law : {"continuation", "causality", "heads"}) EXPECT_EQ(laws.at(law), "PASS") << recurrence << law;
  }
  const auto attention = laws_of(path_of("forgetting_attention"), 0);
  EXPECT_FALSE(attention.contains("continuation"));
  EXPECT_EQ(attention.at("causality"), "PASS");
  // From the end: the state of the start comes last, and rows read what follows.
  std::string reversed = text_of_file(path_of("gated_deltanet"));
  const std::string forward = R"("reverse":false)";
  ASSERT_NE(reversed.find(forward), std::string::npos);
  reversed.replace(reversed.find(forward), forward.size(), R"("reverse":true)");
  const auto laws = laws_of(write("reversed.json", reversed), 1);
  EXPECT_EQ(laws.at("continuation"), "FAIL");
  EXPECT_EQ(laws.at("causality"), "no");
  EXPECT_EQ(laws.at("heads"), "PASS");
}

/// Tokens may run along an axis of any name, and a state's axis may be called as keys are.
TEST_F(ProgramVerbs, LawsDoNotDependOnTheNamesOfAxes) {
  const std::string text = text_of_file(path_of("gated_deltanet")),
                    renamed = std::regex_replace(text, std::regex("\\bT\\b"), "L");
  ASSERT_NE(renamed, text);
  for (const auto& [name, program] :
       {std::pair("along.json", renamed), {"state.json", std::regex_replace(text, std::regex("\\bK\\b"), "S")}}) {
    const auto laws = laws_of(write(name, program), 0);
    for (const char* law : {"continuation", "causality", "heads", "permutation"})
      EXPECT_EQ(laws.at(law), "PASS") << law;
  }
}

TEST_F(ProgramVerbs, FixturesOfProgramsAreWrittenAndVerified) {
  const std::string program = path_of("gla"), golden = path("gla.safetensors");
  const Ran made = run_assay({"fixtures", "generate", program, "--folder", folder.string()});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(read_safetensors(golden).metadata.at("mechanism"), program + '@' + load_program(program).digest());
  const Ran same = run_assay({"fixtures", "verify", program, "--folder", folder.string()});
  EXPECT_EQ(same.code, 0) << same.out << same.err;
  Safetensors changed = read_safetensors(golden);
  changed.tensors.at("length_15/o").bytes[3] ^= 1;
  write_safetensors(std::filesystem::path(golden), changed);
  const Ran other = run_assay({"fixtures", "verify", program, "--folder", folder.string()});
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.out.find("length_15/o: other values"), std::string::npos) << other.out;
}

TEST_F(ProgramVerbs, ASuiteOfAProgramHasEightCases) {
  const std::string program = path_of("gated_deltanet"), cases = path("cases");
  ASSERT_EQ(run_assay({"suite", program, "--write-cases", cases, "--head-dim", "8"}).code, 0);
  for (int n = 1; n <= 8; ++n) {
    const std::string number = std::to_string(n) + ".safetensors";
    ASSERT_EQ(run_assay({"oracle", cases + "/case" + number, "-o", cases + "/out" + number}).code, 0) << n;
  }
  const std::vector<std::string> judge = {"suite", program, "--answers", cases, "--head-dim", "8", "--format", "json"};
  const Ran right = run_assay(judge);
  EXPECT_EQ(right.code, 0) << right.out << right.err;
  const Json page = Json::parse(right.out);
  EXPECT_EQ(page["cases"].size(), 8U);
  for (const Json& one : page["cases"]) EXPECT_EQ(one["verdict"], "PASS") << one.dump();
  Safetensors wrong = read_safetensors(cases + "/out3.safetensors");
  Array o = load("o", wrong.tensors.at("o"));
  for (double& x : o.data) x *= 0.9;
  wrong.tensors.at("o") = store(o, "F64");
  write_safetensors(std::filesystem::path(cases + "/out3.safetensors"), wrong);
  const Ran failing = run_assay(judge);
  EXPECT_EQ(failing.code, 1);
  EXPECT_EQ(Json::parse(failing.out)["cases"][2]["verdict"], "FAIL");
}

/// What right algorithms of a program err by, and of a form; a form of another program is refused.
TEST_F(ProgramVerbs, TheModelIsCalibratedOnAProgramsOwnAlgorithms) {
  const std::string library = source_dir() + "/mechanisms/", program = library + "json/kda.json";
  const std::vector<std::string> args = {"calibrate",   "--model",    "--mechanism", program,
                                         "--precision", "bf16,fp32",  "--style",     "normal",
                                         "--shape",     "1,40,2,8,8", "--form"};
  const auto with_form = [&](const std::string& form) {
    std::vector<std::string> all = args;
    all.push_back(library + "forms/json/" + form + "_chunks.json");
    all.insert(all.end(), {"--format", "csv"});
    return run_assay(all);
  };
  const Ran ran = with_form("kda");
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  // Eight tensors: token by token, with its operands rounded, and twice the form; in fp32 operands are as wide as sums.
  EXPECT_NE(ran.out.find(program + ",bf16,32,"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find(program + ",fp32,24,"), std::string::npos) << ran.out;
  const Ran other = with_form("gated_deltanet");
  EXPECT_EQ(other.code, 2);
}

/// A state that no product makes errs by the roundings of its operations.
TEST_F(ProgramVerbs, TheModelKnowsWhatNoProductMakes) {
  const Ran ran =
      run_assay({"calibrate", "--model", "--mechanism", source_dir() + "/mechanisms/json/affine_linear_attention.json",
                 "--precision", "bf16,fp16", "--style", "normal"});
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
}

/// A chunk algorithm in every precision, by its own sites; and the recurrence itself.
TEST_F(ProgramVerbs, ReportsAreOfAProgramsAlgorithms) {
  const std::string library = source_dir() + "/mechanisms/", form = library + "forms/json/gated_deltanet_chunks.json";
  std::vector<std::string> args = {"report",      "--mechanism", library + "json/gated_deltanet.json",
                                   "--precision", "fp32,bf16",   "--shape",
                                   "1,40,2,8,8",  "--format",    "json"};
  for (const bool by_form : {false, true}) {
    if (by_form) args.insert(args.end(), {"--form", form});
    const Ran ran = run_assay(args);
    ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
    const Json page = Json::parse(ran.out), rows = page["rows"];
    EXPECT_EQ(rows.size(), 16U);  // eight tensors in two precisions
    for (const Json& row : rows) {
      EXPECT_EQ(row["verdict"], "PASS") << row.dump();
      EXPECT_EQ(row["form"], by_form ? form : library + "json/gated_deltanet.json");
    }
  }
}

/// What normal numbers hide, another case of the suite shows: it was chosen for that.
TEST_F(ProgramVerbs, ASuiteIsChosenByTheErrorsThatItShows) {
  const std::string program = path_of("implicit_delta"), cases = path("cases");
  const Ran measured = run_assay({"suite", program, "--measure", "--format", "json"});
  ASSERT_EQ(measured.code, 0) << measured.err;
  const Json choice = Json::parse(measured.out);
  EXPECT_EQ(choice["shown"], choice["errors"]) << choice.dump();
  EXPECT_TRUE(choice["hidden"].empty()) << choice.dump();
  ASSERT_EQ(choice["cases"].size(), 8U);
  std::size_t shown = 0, last_shows = choice["cases"].back()["shows_more"];
  for (const Json& one : choice["cases"]) shown += one["shows_more"].get<std::size_t>();
  EXPECT_EQ(shown, choice["shown"]);
  EXPECT_GT(last_shows, 0U) << "the last place is one that general cases had: " << choice.dump();

  ASSERT_EQ(run_assay({"suite", program, "--write-cases", cases, "--head-dim", "8"}).code, 0);
  const auto hidden_of = [&](const std::string& number) {
    std::filesystem::copy_file(cases + "/case" + number + ".safetensors", path("case.safetensors"),
                               std::filesystem::copy_options::overwrite_existing);
    EXPECT_EQ(run_assay({"oracle", path("case.safetensors"), "-o", path("truth.safetensors")}).code, 0);
    Safetensors answer = read_safetensors(path("truth.safetensors"));
    std::erase_if(answer.tensors, [](const auto& t) { return t.first.find('.') != std::string::npos; });
    return checked(answer, 0, {"--mutants"})["formula"]["passes"].get<std::set<std::string>>();
  };
  const std::set<std::string> of_first = hidden_of("1"), of_last = hidden_of("8");
  EXPECT_FALSE(of_first.empty());
  for (const std::string& what : of_first) EXPECT_FALSE(of_last.contains(what)) << what;
}

/// A file of Python where a mechanism's name goes, and where a form's does; what only a case names is not run.
TEST_F(ProgramVerbs, FilesOfPythonAreProgramsWhereTheyAreTyped) {
  const std::string examples = source_dir() + "/docs/examples/", source = examples + "implicit_delta.py";
  std::filesystem::copy(source, path("typed.py"));
  const Ran made = run_assay({"case", path("typed.py"), "--shape", "1,20,2,8,6", "-o", path("case.safetensors")});
  ASSERT_EQ(made.code, 0) << made.err;
  const auto metadata = read_safetensors(path("case.safetensors")).metadata;
  EXPECT_EQ(metadata.at("mechanism"), path("typed.py") + '@' + load_program(path_of("implicit_delta")).digest());
  const std::vector<std::string> mechanism = {"--mechanism", path("typed.py")};
  ASSERT_EQ(run_assay({"oracle", path("case.safetensors"), "--mechanism=" + path("typed.py"), "-o",
                       path("truth.safetensors")})
                .code,
            0);
  Safetensors answer = read_safetensors(path("truth.safetensors"));
  std::erase_if(answer.tensors, [](const auto& t) { return t.first.find('.') != std::string::npos; });
  checked(answer, 0, mechanism);
  const std::vector<std::string> form = {"--mechanism", path("typed.py"), "--form",
                                         examples + "implicit_delta_chunks.py"};
  const Json rows = checked(answer, 0, form)["rows"];
  for (const Json& row : rows) EXPECT_EQ(row["evidence"], "form " + form[3] + ", bf16") << row.dump();

  // As a command that we print names it.
  const Ran named = run_assay({"case", "--mechanism", metadata.at("mechanism"), "--shape", "1,2,1,2,2", "-o", "-"});
  EXPECT_EQ(named.code, 0) << named.err;

  write("other.py", "open('" + path("ran") + "', 'w').close()\n");
  Safetensors case_file = read_safetensors(path("case.safetensors"));
  case_file.metadata["mechanism"] = path("other.py");
  write_safetensors(std::filesystem::path(path("case.safetensors")), case_file);
  const Ran refused = run_assay({"oracle", path("case.safetensors"), "-o", path("none.safetensors")});
  EXPECT_NE((refused.err + read("none.safetensors")).find("assay runs only the Python that you name"),
            std::string::npos)
      << refused.err;
  EXPECT_FALSE(std::filesystem::exists(path("ran")));
}

/// What is kept is of the program that the file held, and Python runs where it is typed.
TEST_F(ProgramVerbs, BaselinesAreOfAProgram) {
  const std::string source = source_dir() + "/docs/examples/implicit_delta.py", mine = path("mine.py");
  std::filesystem::copy(source, mine);
  const Ran saved = run_assay({"baseline", "save", path("base.json"), "--mechanism", mine, "--precision", "bf16",
                               "--shape", "1,20,1,4,4", "--seeds", "3"});
  EXPECT_EQ(saved.code, 0) << saved.err;
  EXPECT_NE(saved.out.find("7 tensors, 3 seeds"), std::string::npos) << saved.out;
  const auto compared = [&](const std::string& mechanism) {
    return run_assay({"baseline", "compare", path("base.json"), "--mechanism", mechanism});
  };
  const Ran same = compared(mine);
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_NE(same.out.find("7 tensors: 7 same"), std::string::npos) << same.out;
  const Ran other = compared(path_of("gla"));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("is not about " + path_of("gla")), std::string::npos) << other.err;

  // Another program in the file is refused.
  const std::string pinned = mine + '@' + load_program(path_of("implicit_delta")).digest();
  Json base = Json::parse(read("base.json"));
  EXPECT_EQ(base["subject"]["mechanisms"][0], pinned);
  base["subject"]["mechanisms"][0] = mine + '@' + std::string(64, '0');
  write("base.json", base.dump());
  const Ran changed = compared(mine);
  EXPECT_EQ(changed.code, 2);
  EXPECT_NE(changed.err.find("its digest is"), std::string::npos) << changed.err;
}

TEST_F(ProgramVerbs, WhatNeedsAKernelOfOursSaysSo) {
  const std::string program = path_of("gla");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"report", "--mechanism", program, "--form", "chunkwise"},
        {"mutants", "--mechanism", program}}) {
    const Ran ran = run_assay(words);
    EXPECT_EQ(ran.code, 2) << words[0];
    EXPECT_NE(ran.err.find("is a program, and has no kernel of ours"), std::string::npos) << ran.err;
  }
}

}  // namespace
}  // namespace assay::language
