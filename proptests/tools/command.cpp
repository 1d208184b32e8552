// The frame of the program where a transcript does not do (proptests/transcripts/usage.md): files that appear whole or
// not at all, what a terminal is told of long work, and verbs of the lab.
#include "tools/verbs/command.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "proptests/tools/cli.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

using Files = CliFiles;

#ifndef __SANITIZE_ADDRESS__  // which ends the process at once
TEST(Run, WhatNoMemoryHoldsIsTwo) {
  std::ostringstream out, err;
  Console console{out, err, false};
  EXPECT_EQ(run({"case", "deltanet", "--shape", "1,100000000,100,128"}, console), exit_usage);
  EXPECT_EQ(err.str(), "assay: there is not enough memory for a problem of this size\n");
}
#endif

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

}  // namespace
}  // namespace assay
