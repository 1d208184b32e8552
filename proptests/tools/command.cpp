// The frame of the program: exit codes, messages, and files that appear whole or not at all.
#include "tools/verbs/command.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "files/case_file.hpp"
#include "files/safetensors.hpp"
#include "judge/forms/sequential.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/tools/cli.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

class Files : public CliFiles {
 protected:
  const std::string cases = R"({"format": "assay-cases", "version": 1, "cases": [
    {"id": "good", "mechanism": "deltanet", "params": {"scale": "1"},
     "inputs": {"q": [["1"]], "k": [["1"]], "v": [["2"]], "beta": ["1"]}, "expect": {"status": "OK"}},
    {"id": "bad", "mechanism": "deltanet", "params": {}, "inputs": {"q": [["nan"]], "k": [["1"]], "v": [["1"]],
     "beta": ["1"]}},
    {"id": "unknown", "mechanism": "nothing", "params": {}, "inputs": {}}]})";
};

TEST(Run, HelpAndVersionPass) {
  const Ran help = run_assay({"--help"}), version = run_assay({"--version"}), verb = run_assay({"oracle", "--help"});
  EXPECT_EQ(help.code, exit_passed);
  for (const Command* command : all_verbs().verbs) {
    EXPECT_NE(help.out.find(command->name), std::string::npos) << command->name;
    EXPECT_EQ(run_assay({std::string(command->name), "--help"}).code, exit_passed) << command->name;
  }
  EXPECT_EQ(version.code, exit_passed);
  EXPECT_NE(version.out.find_first_of("0123456789"), std::string::npos);
  EXPECT_EQ(verb.code, exit_passed);
  EXPECT_NE(verb.out.find("--digits"), std::string::npos);
  EXPECT_EQ(help.err + version.err + verb.err, "");
}

TEST(Run, VerbsOfTheLabSayWhereTheyAre) {
  for (const Command* command : lab_command_line().verbs) {
    if (command == &commands::merge_of_lab) continue;
    const std::string name(command->name);
    const Ran ran = run_assay({name}, command_line());
    EXPECT_EQ(ran.code, exit_usage);
    EXPECT_EQ(ran.err, "assay: " + name +
                           " is a verb of assay-lab, which `make lab` builds in a checkout: build/assay-lab " + name +
                           '\n');
  }
}

#ifndef __SANITIZE_ADDRESS__  // which ends the process at once
TEST(Run, WhatNoMemoryHoldsIsTwo) {
  std::ostringstream out, err;
  Console console{out, err, false};
  EXPECT_EQ(run({"case", "deltanet", "--shape", "1,100000000,100,128"}, console), exit_usage);
  EXPECT_EQ(err.str(), "assay: there is not enough memory for a problem of this size\n");
}
#endif

TEST(Run, BadUsageIsTwo) {
  const std::vector<std::string> bad[] = {
      {},
      {"orakle"},
      {"oracle"},
      {"oracle", "in.json", "more"},
      {"oracle", "in.json", "--digits", "0"},
      {"oracle", "in.json", "--digits", "many"},
      {"oracle", "in.json", "--digits", "151"},
      {"oracle", "in.json", "--tier", "mp75"},
      {"oracle", "in.json", "--teir", "mp50"},
      {"list", "--format", "xml"},
  };
  for (const auto& args : bad) {
    const Ran ran = run_assay(args);
    EXPECT_EQ(ran.code, exit_usage);
    EXPECT_EQ(ran.out, "");
    EXPECT_NE(ran.err, "");
  }
}

/// NaN is neither below a limit nor above it. Whatever else is wrong with these words is said later.
TEST(Run, LimitsThatAreNoNumbersAreRefused) {
  const std::vector<std::string> limits[] = {
      {"check", "nosuch.safetensors", "nosuch.safetensors", "--timeout"},
      {"check", "nosuch.safetensors", "nosuch.safetensors", "--false-alarms"},
      {"report", "--mechanism", "nosuch", "--false-alarms"},
      {"baseline", "save", "nosuch/base.json", "--timeout"},
      {"baseline", "compare", "nosuch.json", "--timeout"},
      {"calibrate", "--mechanism", "nosuch", "--seconds"},
      {"mutants", "--mechanism", "nosuch", "--seconds"},
      {"drift", "nosuch", "--budget"},
  };
  for (const auto& args : limits)
    for (const char* value : {"nan", "-nan", "inf", "-inf", "0", "-1", "1e400", "x", ""}) {
      std::vector<std::string> words = args;
      words.emplace_back(value);
      const Ran ran = run_assay(words);
      EXPECT_EQ(ran.code, exit_usage) << args.front() << ' ' << args.back() << ' ' << value;
      EXPECT_EQ(ran.out, "");
      EXPECT_NE(ran.err.find(args.back() + ": expected a "), std::string::npos) << value << ": " << ran.err;
      EXPECT_NE(ran.err.find(text(", got ", value, '\n')), std::string::npos) << ran.err;
    }
}

TEST(Progress, TellsWhatIsLeftOnceItKnows) {
  using std::chrono::seconds;
  EXPECT_EQ(time_left(seconds(12), 3, 9), ", about 24 s left");
  EXPECT_EQ(time_left(seconds(10), 1, 2), ", about 10 s left");
  EXPECT_EQ(time_left(seconds(9), 3, 9), "");
  EXPECT_EQ(time_left(seconds(100), 0, 9), "");
  EXPECT_EQ(time_left(seconds(100), 9, 9), "");
  EXPECT_EQ(time_left(seconds(100), 3, 0), "");
}

TEST(Identities, PrintsRatesAndVerdicts) {
  const Ran json = run_assay({"identities", "--mechanism", "rls", "--format", "json"});
  EXPECT_EQ(json.code, exit_passed);
  const Json rows = Json::parse(json.out)["rows"];
  ASSERT_FALSE(rows.empty());
  int limits = 0;
  for (const Json& row : rows) {
    EXPECT_EQ(row["mechanism"], "rls");
    EXPECT_EQ(row["verdict"], "PASS") << row["limit"];
    if (row["order"] == 0) continue;
    ++limits;
    EXPECT_NEAR(row["measured_order"].get<double>(), row["order"].get<double>(), 1e-9) << row["limit"];
  }
  EXPECT_GT(limits, 0);
  EXPECT_NE(run_assay({"identities", "--mechanism", "rls"}).out.find("0 FAIL"), std::string::npos);
  EXPECT_EQ(run_assay({"limits", "--mechanism", "rls", "--format", "json"}).out, json.out) << "the older name";
}

TEST(Identities, RefusesWhatIsNotListed) {
  const Ran ran = run_assay({"identities", "--mechanism", "nosuch"});
  EXPECT_EQ(ran.code, exit_usage);
  EXPECT_NE(ran.err.find("nosuch"), std::string::npos);
  EXPECT_TRUE(ran.out.empty());
}

TEST(Bench, ComparesEveryTierWithTheSlowOnes) {
  const Ran ran = run_assay(
      {"bench", "oracle", "--mechanism", "gated_deltanet", "--tokens", "32", "--dim", "8", "--format", "json"});
  EXPECT_EQ(ran.code, exit_passed) << ran.err;
  const Json rows = Json::parse(ran.out)["rows"];
  std::set<std::string> tiers;
  for (const Json& row : rows) {
    tiers.insert(row["tier"].get<std::string>());
    EXPECT_GT(row["seconds_per_token"].get<double>(), 0);
    // What is certified says how far it may be off; the loops it is compared with say nothing.
    const bool certified = row["tier"].get<std::string>().find("words") != std::string::npos;
    EXPECT_LE(row["log2_bound"].get<double>(), certified ? -60 : 0) << row["tier"];
  }
  EXPECT_TRUE(tiers.contains("double loop") && tiers.contains("cpp_bin_float_50"));
  EXPECT_GE(tiers.size(), 5U);
  EXPECT_EQ(run_assay({"bench", "oracle", "--mechanism", "kda"}).code, exit_usage);
  EXPECT_EQ(run_assay({"bench"}).code, exit_usage);
}

TEST(Bench, MeasuresRoomsInEveryTier) {
  const Ran ran = run_assay({"bench", "rooms", "--mechanism", "gated_deltanet,stable_rank", "--tokens", "8", "--dim",
                             "4", "--format", "json"});
  EXPECT_EQ(ran.code, exit_passed) << ran.err;
  std::set<std::string> mechanisms, tiers;
  const Json rows = Json::parse(ran.out)["rows"];
  for (const Json& row : rows) {
    mechanisms.insert(row["mechanism"].get<std::string>());
    EXPECT_GT(row["seconds_per_token_and_head"].get<double>(), 0);
    EXPECT_GT(row["peak_memory"].get<double>(), 1e6);
    const auto tier = row["tier"].get<std::string>();
    tiers.insert(tier);
    EXPECT_EQ(row["log2_bound"].get<double>() < -60, tier[0] == 'w') << tier;
  }
  EXPECT_EQ(mechanisms, (std::set<std::string>{"gated_deltanet", "stable_rank"}));
  EXPECT_EQ(tiers, (std::set<std::string>{"double", "mp50", "w2", "w3", "w4"}));
  EXPECT_EQ(run_assay({"bench", "rooms", "--mechanism", "nosuch"}).code, exit_usage);
}

TEST(Bench, MeasuresKernelsInEveryPrecision) {
  const Ran ran = run_assay({"bench", "kernels", "--mechanism", "parallax,value_averaging", "--precision", "bf16,fp32",
                             "--tokens", "5", "--dim", "4", "--format", "json"});
  EXPECT_EQ(ran.code, exit_passed) << ran.err;
  std::set<std::string> kernels;
  const Json rows = Json::parse(ran.out)["rows"];
  for (const Json& row : rows) {
    kernels.insert(row["mechanism"].get<std::string>() + ' ' + row["form"].get<std::string>() + ' ' +
                   row["precision"].get<std::string>() + ' ' + row["shape"].get<std::string>());
    for (const char* key : {"seconds_per_query_and_head", "of_exact", "of_oracle"})
      EXPECT_GT(row[key].get<double>(), 0) << row;
  }
  EXPECT_EQ(kernels, (std::set<std::string>{
                         "parallax tiled bf16 1,5,2/1,4,4", "parallax tiled fp32 1,5,2/1,4,4",
                         "parallax split_decode bf16 1,5,2/1,4,4", "parallax split_decode fp32 1,5,2/1,4,4",
                         "parallax covariance bf16 1,5,2/1,4,4", "parallax covariance fp32 1,5,2/1,4,4",
                         "value_averaging chunkwise bf16 1,5,2,4,4", "value_averaging chunkwise fp32 1,5,2,4,4"}));
  EXPECT_NE(run_assay({"bench", "kernels", "--form", "tiled", "--mechanism", "parallax", "--precision", "bf16",
                       "--tokens", "5", "--dim", "4"})
                .out.find("of oracle"),
            std::string::npos);
  for (const char* flag : {"--mechanism", "--form", "--precision"})
    EXPECT_EQ(run_assay({"bench", "kernels", flag, "nosuch"}).code, exit_usage) << flag;
}

TEST(List, NamesEverything) {
  const Ran table = run_assay({"list"}), json = run_assay({"list", "--format", "json"});
  EXPECT_EQ(table.code, exit_passed);
  EXPECT_EQ(json.code, exit_passed);
  const Json everything = Json::parse(json.out);
  ASSERT_EQ(everything["mechanisms"].size(), rooms().size());
  for (std::size_t i = 0; i < rooms().size(); ++i) {
    EXPECT_EQ(everything["mechanisms"][i]["name"], rooms()[i]->name);
    EXPECT_NE(table.out.find(rooms()[i]->name), std::string::npos);
    EXPECT_NE(table.out.find(rooms()[i]->summary), std::string::npos);
    const KernelRoom* kernels = find_kernels(kernel_rooms(), rooms()[i]->name);
    const Json& forms = everything["mechanisms"][i]["forms"];
    const auto known = kernels == nullptr ? std::vector<const KernelForm*>() : forms_of(*kernels);
    ASSERT_EQ(forms.size(), known.size());
    for (std::size_t f = 0; f < forms.size(); ++f) EXPECT_EQ(forms[f]["unstable"], known[f]->unstable);
  }
  EXPECT_NE(table.out.find("; UNSTABLE: its weights cancel"), std::string::npos);
  EXPECT_EQ(everything["mechanisms"][0]["inputs"]["q"], "[T (queries), K]");
  EXPECT_EQ(everything["mechanisms"][0]["params"]["causal"], "option");
  for (const char* key : {"tiers", "precisions", "styles"}) EXPECT_FALSE(everything[key].empty()) << key;
  EXPECT_NE(table.out.find("correlated_keys"), std::string::npos);
  EXPECT_NE(table.out.find("bf16"), std::string::npos);
}

TEST_F(Files, OracleAnswersEveryCase) {
  const Ran ran = run_assay({"oracle", write("in.json", cases), "-o", path("out.json"), "--digits", "3"});
  EXPECT_EQ(ran.code, exit_passed) << ran.err;
  EXPECT_EQ(ran.out + ran.err, "");
  EXPECT_EQ(names(), (std::vector<std::string>{"in.json", "out.json"}));
  const Json file = Json::parse(read("out.json"));
  EXPECT_EQ(file["format"], "assay-cases");
  EXPECT_EQ(file["version"], 1);
  ASSERT_EQ(file["cases"].size(), 3u);
  EXPECT_EQ(file["cases"][0]["outputs"]["o"], Json::parse(R"([["2.00"]])"));
  EXPECT_FALSE(file["cases"][0].contains("expect"));
  EXPECT_EQ(file["cases"][1]["status"], "NONFINITE");
  EXPECT_EQ(file["cases"][2]["status"], "UNSUPPORTED");
  for (const char* threads : {"1", "2", "7"})
    EXPECT_EQ(run_assay({"oracle", path("in.json"), "--digits", "3", "--threads", threads}).out, read("out.json"));
}

/// --lambda0 goes for every case that is silent about it, and is in the record of the answer.
TEST_F(Files, OracleTakesTheLimitWhereItIsTold) {
  const char* two = R"({"format": "assay-cases", "version": 1, "cases": [
    {"id": "a", "mechanism": "lla", "params": {"bandwidth": "2"}, "inputs":
      {"q": [["1"]], "k": [["2"]], "v": [["3"]], "lambda": "0"}},
    {"id": "b", "mechanism": "lla", "params": {"bandwidth": "2", "lambda0": "refuse"}, "inputs":
      {"q": [["1"]], "k": [["2"]], "v": [["3"]], "lambda": "0"}},
    {"id": "c", "mechanism": "value_averaging", "inputs": {"v": [["3"]]}}]})";
  const std::string in = write("in.json", two);
  const auto status = [&](const Ran& ran, std::size_t i) { return Json::parse(ran.out)["cases"][i]["status"]; };
  const Ran silent = run_assay({"oracle", in}), told = run_assay({"oracle", in, "--lambda0", "limit"});
  EXPECT_EQ(status(silent, 0), "SINGULAR");
  EXPECT_EQ(status(told, 0), "OK");
  EXPECT_EQ(status(told, 1), "SINGULAR");
  EXPECT_EQ(status(told, 2), "OK");
  EXPECT_EQ(Json::parse(told.out)["cases"][0]["params"]["lambda0"], "limit");
  EXPECT_FALSE(Json::parse(told.out)["cases"][2].contains("params"));
  EXPECT_EQ(run_assay({"oracle", in, "--lambda0", "zero"}).code, exit_usage);

  // The shape of a file: the ridge of one head, and one key.
  const std::string problem = path("case.safetensors"), answer = path("answer.safetensors");
  ASSERT_EQ(run_assay({"case", "lla", "--shape", "1,1,1,2", "--no-cotangents", "-o", problem}).code, exit_passed);
  Safetensors file = read_safetensors(problem);
  StoredTensor& ridge = file.tensors.at("lambda");
  std::fill(ridge.bytes.begin(), ridge.bytes.end(), 0);
  write_safetensors(problem, file);
  for (const bool limit : {false, true}) {
    std::vector<std::string> command = {"oracle", problem, "-o", answer};
    if (limit) command.insert(command.end(), {"--lambda0", "limit"});
    EXPECT_EQ(run_assay(command).code, exit_passed);
    const Safetensors got = read_safetensors(answer);
    EXPECT_EQ(got.metadata.at("status"), limit ? "OK" : "SINGULAR");
    EXPECT_EQ(got.metadata.at("params").find("limit") != std::string::npos, limit);
  }
}

TEST_F(Files, EveryTierAnswers) {
  const std::string in = write("in.json", cases);
  for (const Tier tier : all_tiers) {
    const Ran ran = run_assay({"oracle", in, "--digits", "10", "--tier", std::string(name_of(tier))});
    EXPECT_EQ(ran.code, exit_passed) << ran.err;
    EXPECT_EQ(Json::parse(ran.out)["cases"][0]["outputs"]["o"], Json::parse(R"([["2.000000000"]])"));
  }
}

TEST_F(Files, ACaseIsMadeAndAnswered) {
  const std::string in = path("case.safetensors"), out = path("answer.safetensors");
  const Ran made = run_assay({"case", "deltanet", "--shape", "2,5,4/2,6,3", "--precision", "fp16", "--seed", "5",
                              "--param", "scale=0.25", "-o", in});
  EXPECT_EQ(made.code, exit_passed) << made.err;
  const Safetensors file = read_safetensors(in);
  EXPECT_EQ(file.tensors.at("k").shape, (std::vector<int>{2, 5, 2, 6}));
  EXPECT_EQ(file.tensors.at("k").dtype, "F16");
  EXPECT_EQ(file.metadata.at("params"), R"({"scale":"0.25"})");
  // The generator is the command that makes the case again.
  std::istringstream command(file.metadata.at("generator"));
  std::vector<std::string> words{std::istream_iterator<std::string>(command), {}};
  EXPECT_EQ(words.front(), "assay");
  words.erase(words.begin());
  EXPECT_EQ(run_assay(words).out, read("case.safetensors"));

  const Ran answered = run_assay({"oracle", in, "-o", out});
  EXPECT_EQ(answered.code, exit_passed) << answered.err;
  EXPECT_EQ(made.out + made.err + answered.out + answered.err, "");
  EXPECT_EQ(names(), (std::vector<std::string>{"answer.safetensors", "case.safetensors"}));
  const Safetensors answer = read_safetensors(out);
  EXPECT_EQ(answer.metadata.at("status"), "OK");
  EXPECT_EQ(answer.tensors.at("o.lo").shape, (std::vector<int>{2, 5, 4, 3}));
  EXPECT_TRUE(answer.tensors.contains("d_k.bound"));
  for (const char* threads : {"1", "3"})
    EXPECT_EQ(run_assay({"oracle", in, "--threads", threads}).out, read("answer.safetensors"));
  // What it is does not hang on its name.
  std::filesystem::copy(in, path("case.bin"));
  EXPECT_EQ(run_assay({"oracle", path("case.bin")}).out, read("answer.safetensors"));
  for (const char* tier : {"w3", "mp50"}) {
    EXPECT_EQ(run_assay({"oracle", in, "--tier", tier, "-o", out}).code, exit_passed);
    EXPECT_EQ(read_safetensors(out).tensors.contains("o.bound"), tier[0] == 'w') << tier;
  }
}

TEST_F(Files, CasesMayLackCotangentsAndNameOneWidth) {
  const std::string in = path("case.safetensors");
  EXPECT_EQ(run_assay({"case", "softmax_attention", "--shape", "1,7,2,4", "--no-cotangents", "-o", in}).code,
            exit_passed);
  const Safetensors file = read_safetensors(in);
  EXPECT_FALSE(file.tensors.contains("d_o"));
  EXPECT_EQ(file.tensors.at("v").shape, (std::vector<int>{1, 7, 2, 4}));
  const std::vector<std::string> bad[] = {
      {"case"},
      {"case", "deltanet"},
      {"case", "nothing", "--shape", "1,2,3,4"},
      {"case", "deltanet", "--shape", "1,2,3"},
      {"case", "deltanet", "--shape", "1,2,3,0"},
      {"case", "deltanet", "--shape", "1,2,3,4", "--precision", "int8"},
      {"case", "deltanet", "--shape", "1,2,3,4", "--style", "plain"},
      {"case", "deltanet", "--shape", "1,2,3,4", "--param", "colour=red"},
      {"case", "deltanet", "--shape", "1,2,3,4", "--param", "colour"},
  };
  for (std::vector<std::string> args : bad) {
    args.insert(args.end(), {"-o", path("bad.safetensors")});
    const Ran ran = run_assay(args);
    EXPECT_EQ(ran.code, exit_usage) << args.size();
    EXPECT_NE(ran.err, "");
  }
  EXPECT_EQ(names(), std::vector<std::string>{"case.safetensors"});
}

TEST_F(Files, RefusedCasesAreAnsweredAndMalformedOnesAreNot) {
  const std::string in = path("case.safetensors"), out = path("answer.safetensors");
  ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "1,2,1,2", "-o", in}).code, exit_passed);
  const Safetensors good = read_safetensors(in);
  Safetensors nan = good;
  nan.tensors["q"] = store(Array({1, 2, 1, 2}, {1, 1, 1, std::nan("")}), "F32");
  write_safetensors(in, nan);
  const Ran refused = run_assay({"oracle", in, "-o", out});
  EXPECT_EQ(refused.code, exit_passed);
  EXPECT_EQ(refused.out + refused.err, "");
  EXPECT_EQ(read_safetensors(out).metadata.at("status"), "NONFINITE");
  EXPECT_EQ(read_safetensors(out).metadata.at("message"), "q[0][1][0][1]: not a finite number");
  EXPECT_TRUE(read_safetensors(out).tensors.empty());
  std::filesystem::remove(out);

  const std::vector<std::uint8_t> bytes = serialize(good);
  const std::string whole(bytes.begin(), bytes.end());
  std::string integers = whole;
  integers.replace(integers.find("BF16"), 4, "I16 ");
  const std::pair<std::string, std::string> malformed[] = {
      {"", "0 bytes are too few for a safetensors file"},
      {whole.substr(0, 100), "the header claims"},
      {whole.substr(0, whole.size() - 1), "data_offsets lie outside the file"},
      {integers, "dtype I16  is not a floating-point type this tool reads"},
  };
  for (const auto& [contents, sentence] : malformed) {
    write("case.safetensors", contents);
    const Ran ran = run_assay({"oracle", in, "-o", out});
    EXPECT_EQ(ran.code, exit_usage) << sentence;
    EXPECT_NE(ran.err.find(sentence), std::string::npos) << ran.err;
    EXPECT_TRUE(ran.err.starts_with("assay: " + in)) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1);
  }
  write_safetensors(in, good);
  EXPECT_EQ(run_assay({"oracle", in, "-o", out, "--digits", "20"}).code, exit_usage);
  EXPECT_EQ(run_assay({"oracle", path("missing.safetensors"), "-o", out}).code, exit_usage);
  EXPECT_EQ(names(), std::vector<std::string>{"case.safetensors"});
}

TEST_F(Files, BadInputIsOneSentenceAndNoFile) {
  const std::string half = write("half.json", cases.substr(0, cases.size() / 2)), missing = path("missing.json");
  for (const std::string& in : {half, missing, folder.string()}) {
    const Ran ran = run_assay({"oracle", in, "-o", path("out.json")});
    EXPECT_EQ(ran.code, exit_usage);
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(ran.err.rfind("assay: " + in, 0), 0u) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1);
  }
  EXPECT_EQ(names(), std::vector<std::string>{"half.json"});
}

TEST_F(Files, WhatCannotBeWrittenIsTwo) {
  const std::string in = write("in.json", cases);
  for (const std::string& out : {path("no/such/folder/out.json"), folder.string(), std::string("/dev/full")}) {
    const Ran ran = run_assay({"oracle", in, "-o", out});
    EXPECT_EQ(ran.code, exit_usage) << out;
    EXPECT_EQ(ran.err.rfind("assay: " + out, 0), 0u) << ran.err;
  }
  EXPECT_EQ(names(), std::vector<std::string>{"in.json"});
}

TEST_F(Files, AnOldFileStaysUntilTheNewOneIsWhole) {
  std::ostringstream out;
  const std::string old = write("out.json", "old");
  {
    OutputFile file(old, out);
    EXPECT_EQ(names().size(), 2u);
    EXPECT_EQ(read("out.json"), "old");
  }
  EXPECT_EQ(names(), std::vector<std::string>{"out.json"});
  EXPECT_EQ(read("out.json"), "old");
  OutputFile(old, out).commit("new");
  EXPECT_EQ(names(), std::vector<std::string>{"out.json"});
  EXPECT_EQ(read("out.json"), "new");
}

TEST_F(Files, LinksAndDevicesStayWhatTheyAre) {
  std::ostringstream out;
  write("target.json", "old");
  std::filesystem::create_symlink("target.json", folder / "link.json");
  OutputFile(path("link.json"), out).commit("new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.json"));
  EXPECT_EQ(read("target.json"), "new");
  OutputFile("/dev/null", out).commit("gone");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  OutputFile("-", out).commit("text");
  EXPECT_EQ(out.str(), "text");
}

TEST(Progress, OnlyOnATerminal) {
  std::ostringstream out, err;
  Console quiet{out, err, false}, terminal{out, err, true};
  { Progress(quiet, 2).step("a"); }
  EXPECT_EQ(err.str(), "");
  { Progress(terminal, 2).step("a"); }
  EXPECT_EQ(err.str(), "\r\033[K1/2 a, 0 s\r\033[K");
  EXPECT_EQ(out.str(), "");
}

/// Long work between two steps is seen to go on.
TEST(Progress, TheClockRunsWithoutSteps) {
  struct Counted : std::stringbuf {
    std::atomic<int> lines = 0;
    int sync() override {
      ++lines;
      lines.notify_all();
      return 0;
    }
  } counted;
  std::ostream err(&counted);
  std::ostringstream out;
  Console terminal{out, err, true};
  {
    Progress progress(terminal, 0, std::chrono::milliseconds(1));
    counted.lines.wait(0);
    progress.step(3, "a");
  }
  EXPECT_TRUE(counted.str().starts_with("\r\033[K0 s\r\033[K")) << counted.str();
  EXPECT_NE(counted.str().find("1/3 a, 0 s"), std::string::npos) << counted.str();
}

using MessageFiles = CliFiles;

/// Who mistypes a name is told which one was probably meant, and which there are.
TEST_F(MessageFiles, say_what_was_probably_meant) {
  const std::string out = path("case.st");
  const std::pair<std::vector<std::string>, const char*> table[] = {
      {{"chekc", "a", "b"}, "assay: there is no verb chekc (did you mean check?); there are list, report, check"},
      {{"help", "chek"}, "assay: there is no verb chek (did you mean check?)"},
      {{"audit", "deltanet", "k.py"}, "assay: audit is a verb of the Python package: pip install ."},
      {{"report", "--dtype", "bf16"}, "assay: there is no --dtype: --precision says what queries, keys and values"},
      {{"check", "a", "b", "--rtol=1e-3"}, "assay: there is no --rtol: limits come from the precision and the data"},
      {{"case", "gdn", "--shape", "1,2,1,4", "-o", out},
       "assay: mechanism: there is no gdn (did you mean gated_deltanet?); there are softmax_attention"},
      {{"case", "deltnet", "--shape", "1,2,1,4", "-o", out}, "there is no deltnet (did you mean deltanet?)"},
      {{"case", "deltanet", "--shape", "1,64,2", "-o", out},
       "assay: shape '1,64,2': expected four or five numbers, B,T,H,d or B,T,H,K,V"},
      {{"case", "deltanet", "--shape", "1,2,1,4", "--param", "scal=2", "-o", out},
       "assay: --param: deltanet has no scal (did you mean scale?); it has alignment, sequence_start, scale"},
      {{"case", "deltanet", "--shape", "1,2,1,4", "--style", "norml", "-o", out},
       "--style: there is no norml (did you mean normal?); there are normal, unit_keys"},
      {{"case", "deltanet", "--shape", "1,2,1,4", "--precision", "bf61", "-o", out},
       "--precision: there is no bf61 (did you mean bf16?); there are fp64"},
      {{"report", "--contract", "flaa"}, "--contract: there is no flaa (did you mean fla?); there are fp64"},
      {{"case", "softmax_attention", "--shape", "1,2,1,4", "--param", "scale=-1", "-o", out},
       "params.scale: expected a number > 0 (bandwidth is 1 / scale), got -1"},
  };
  for (const auto& [args, sentence] : table) {
    const Ran ran = run_assay(args);
    EXPECT_EQ(ran.code, exit_usage) << sentence;
    EXPECT_NE(ran.err.find(sentence), std::string::npos) << ran.err;
  }
  EXPECT_EQ(names(), std::vector<std::string>{});
  EXPECT_EQ(run_assay({"help", "check"}).out, run_assay({"check", "--help"}).out);
  EXPECT_EQ(run_assay({"help"}).out, run_assay({"--help"}).out);
  EXPECT_EQ(run_assay({}).err, run_assay({"--help"}).out);
  EXPECT_EQ(run_assay({}).code, exit_usage);
}

TEST_F(MessageFiles, no_bytes_go_to_a_terminal) {
  std::ostringstream out, err;
  Console terminal{out, err, true, true};
  EXPECT_EQ(run({"case", "deltanet", "--shape", "1,2,1,4"}, terminal), exit_usage);
  EXPECT_EQ(out.str(), "");
  EXPECT_EQ(err.str(),
            "assay: case: standard output is a terminal, and a case is no text; -o FILE says where it goes\n");
  EXPECT_EQ(run({"case", "deltanet", "--shape", "1,2,1,4", "-o", path("case.safetensors")}, terminal), exit_passed);
  EXPECT_EQ(run({"oracle", path("case.safetensors")}, terminal), exit_usage);
  EXPECT_EQ(out.str(), "");
}

/// A case that only the oracle takes says so when it is made, and again when it is to be judged.
TEST_F(MessageFiles, a_case_too_wide_for_the_kernels_says_so) {
  const std::string in = path("case.safetensors");
  const Ran made = run_assay({"case", "deltanet", "--shape", "1,2,1,256", "-o", in});
  EXPECT_EQ(made.code, exit_passed);
  EXPECT_NE(made.err.find("note: no kernel of this build takes this case"), std::string::npos) << made.err;
  const std::string out = path("out.safetensors");
  ASSERT_EQ(run_assay({"oracle", in, "-o", out}).code, exit_passed);
  const Ran by_model = run_assay({"check", in, out});
  EXPECT_EQ(by_model.code, exit_passed) << by_model.err << by_model.out;
  EXPECT_NE(by_model.out.find("PASS  7 tensors by the model"), std::string::npos) << by_model.out;
  const Ran by_contract = run_assay({"check", in, out, "--contract", "bf16"});
  EXPECT_EQ(by_contract.code, exit_usage);
  EXPECT_NE(
      by_contract.err.find("got 256; so no contract can be asked; without --contract, --form and --tile the model"),
      std::string::npos)
      << by_contract.err;
  EXPECT_EQ(run_assay({"case", "deltanet", "--shape", "1,2,1,128", "-o", in}).err, "");
  EXPECT_NE(
      run_assay({"check", in, write("out.py", "print('not an answer')")}).err.find("out.py: not a safetensors file"),
      std::string::npos);
}

}  // namespace
}  // namespace assay
