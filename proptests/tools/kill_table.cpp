// assay-lab mutants: the kill table of a room, healthy runs, formats and flags. Errors in formulas, which count.
#include "judge/trial/kill_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "judge/held_out/rooms.hpp"
#include "judge/programs/formula.hpp"
#include "language/room.hpp"
#include "proptests/language/programs.hpp"
#include "proptests/tools/cli.hpp"
#include "tools/pages/confidence.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

using KillTables = CliFiles;

const std::vector<std::string> one_room = {"mutants", "--mechanism", "value_averaging"};
const std::vector<std::string> without_held_out = {"mutants", "--mechanism", "value_averaging", "--held-out", "no"};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(KillTables, every_mutant_of_a_room_is_killed_and_the_healthy_kernel_is_not) {
  const Ran ran = run_assay(with(without_held_out, {"--format", "json"}));
  EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
  const Json json = Json::parse(ran.out);
  std::set<std::string> listed, expected;
  for (const Mutant& m : find_kernels(kernel_rooms(), "value_averaging")->forms[0].mutants) expected.emplace(m.name);
  for (const Json& mutant : json["mutants"]) {
    listed.insert(mutant["mutant"]);
    EXPECT_TRUE(mutant["killed"]) << mutant;
    EXPECT_FALSE(mutant["layers"].empty()) << mutant;
    EXPECT_NE(mutant["conviction"], "");
    EXPECT_GE(mutant["cases"], mutant["shown"]);
  }
  EXPECT_EQ(listed, expected);
  ASSERT_EQ(json["rules"].size(), rule_count());
  EXPECT_EQ(json["rules"][0]["name"], "assay");
  EXPECT_EQ(json["rules"][0]["false_alarms"], 0);
  // What a rule is said to kill is what the mutants say of it.
  for (std::size_t r = 0; r < rivals().size(); ++r) {
    const auto count = std::count_if(json["mutants"].begin(), json["mutants"].end(), [&](const Json& mutant) {
      const auto& by = mutant["killed_by"];
      return std::find(by.begin(), by.end(), rivals()[r].name) != by.end();
    });
    EXPECT_EQ(json["rules"][r + 1]["killed"], count) << rivals()[r].name;
  }
}

TEST_F(KillTables, numbers_of_few_bits_show_every_mutant_exactly) {
  // What is lost to bf16, closed gates and ragged tiles among them; decays of every channel.
  const Json json =
      Json::parse(run_assay({"mutants", "--mechanism", "kda", "--held-out", "no", "--format", "json"}).out);
  for (const Json& mutant : json["mutants"]) {
    const Json& layers = mutant["layers"];
    EXPECT_NE(std::find(layers.begin(), layers.end(), "exact"), layers.end()) << mutant;
  }
  EXPECT_EQ(json["rules"][0]["false_alarms"], 0);
  // The model, a rule of its own, finds most of them.
  const Json& model = json["rules"][model_rule()];
  EXPECT_EQ(model["name"], "assay, model");
  EXPECT_EQ(model["false_alarms"], 0);
  EXPECT_GT(2 * model["killed"].get<int>(), json["rules"][0]["killed"].get<int>());
  EXPECT_LE(model["killed"], json["rules"][0]["killed"]);
}

TEST_F(KillTables, a_rule_that_rejects_the_healthy_kernel_kills_nothing) {
  MutantOptions options{.mechanisms = {"value_averaging"}, .precisions = {Format::bf16}, .trials = 1, .power = {}};
  const KillTable table = make_kill_table(options, [](std::size_t, std::string_view) {});
  ASSERT_EQ(table.healthy_runs, 1);
  int rejecting = 0;
  for (std::size_t rule = 0; rule < table.alarms.size(); ++rule) {
    if (table.alarms[rule] == 0) continue;
    EXPECT_EQ(table.killed(rule), 0);
    ++rejecting;
  }
  EXPECT_GT(rejecting, 0);  // 1e-7 of the squares is below what bf16 rounds
}

TEST_F(KillTables, threads_change_nothing) {
  const std::vector<std::string> words =
      with(without_held_out, {"--trials", "3", "--healthy", "40", "--format", "json", "--power", "state_in_bf16"});
  const Ran one = run_assay(with(words, {"--threads", "1"})), three = run_assay(with(words, {"--threads", "3"}));
  EXPECT_EQ(one.out, three.out);
  EXPECT_GE(Json::parse(one.out)["power"].size(), 1U);
}

TEST_F(KillTables, healthy_runs_are_counted_and_bounded) {
  const Ran ran = run_assay(with(without_held_out, {"--trials", "1", "--healthy", "50", "--format", "json"}));
  const Json fresh = Json::parse(ran.out)["fresh"];
  EXPECT_EQ(fresh["runs"].get<int>() + fresh["unanswered"].get<int>(), 50);
  EXPECT_EQ(fresh["alarms"].size(), 0);
  EXPECT_GE(fresh["tensors"], fresh["runs"]);
  EXPECT_LE(fresh["widened"], fresh["runs"]);
  EXPECT_LE(fresh["widened_sums"], fresh["runs"]);
  EXPECT_DOUBLE_EQ(fresh["upper_bound_95"], upper_bound_95(0, fresh["runs"]));
}

TEST_F(KillTables, smallest_cases_and_short_power_are_told) {
  const std::vector<std::string> words =
      with(without_held_out, {"--trials", "1", "--shrink", "--power", "state_in_bf16", "--power-tokens", "64"});
  const Json json = Json::parse(run_assay(with(words, {"--format", "json"})).out);
  EXPECT_GE(json["smallest"].size(), 5U);
  for (const Json& row : json["smallest"])
    EXPECT_TRUE((row["shows_in_one_head"] && row["one_group"]) || !row["small"]) << row;
  for (const Json& row : json["power"]) EXPECT_EQ(row["seq_len"], 64);
  const std::string table = run_assay(words).out;
  EXPECT_NE(table.find("\nsmallest failing cases\n"), std::string::npos) << table;
  EXPECT_NE(table.find(" --shrink --power state_in_bf16 --power-tokens 64 --held-out no --seed 11\n"),
            std::string::npos)
      << table;
}

TEST_F(KillTables, healthy_runs_alone_are_the_same_runs) {
  const std::vector<std::string> words =
      with(without_held_out, {"--trials", "1", "--healthy", "50", "--format", "json"});
  const Json both = Json::parse(run_assay(words).out);
  const Ran ran = run_assay(with(words, {"--healthy-only"}));
  const Json alone = Json::parse(ran.out);
  EXPECT_EQ(ran.code, exit_passed);
  EXPECT_EQ(alone["fresh"], both["fresh"]);
  EXPECT_EQ(alone["false_alarm_rate"], 1e-6);
  EXPECT_TRUE(alone["mutants"].empty());
  EXPECT_TRUE(alone["rules"].empty());
  const std::string text = run_assay(with(without_held_out, {"--healthy", "5", "--healthy-only"})).out;
  EXPECT_NE(text.find("5 healthy runs"), std::string::npos) << text;
  EXPECT_NE(text.find("declared rate of false alarms: 1e-06 a run"), std::string::npos) << text;
}

TEST_F(KillTables, healthy_runs_that_time_has_cut_off_are_the_first_ones) {
  const auto json = [](const std::vector<std::string>& more) {
    const Ran ran =
        run_assay(with(with(without_held_out, {"--healthy-only", "--format", "json", "--threads", "3"}), more));
    EXPECT_EQ(ran.code, exit_passed) << ran.err;
    return Json::parse(ran.out);
  };
  const Json cut = json({"--healthy", "100000000", "--seconds", "0.5"});
  EXPECT_EQ(cut["fresh"]["asked"], 100000000);
  const int drawn = cut["fresh"]["drawn"];
  ASSERT_GT(drawn, 0);
  ASSERT_LT(drawn, 100000000);
  Json first = json({"--healthy", std::to_string(drawn)});
  EXPECT_EQ(cut["command"], first["command"]);
  first["fresh"]["asked"] = 100000000;
  EXPECT_EQ(cut["fresh"], first["fresh"]);
  EXPECT_DOUBLE_EQ(cut["fresh"]["upper_bound_95"], upper_bound_95(0, cut["fresh"]["runs"]));
  const std::string text =
      run_assay(with(without_held_out, {"--healthy", "100000", "--healthy-only", "--seconds", "1e-9"})).out;
  EXPECT_NE(text.find("time was up after "), std::string::npos) << text;
}

TEST(ClopperPearson, is_that_of_the_binomial) {
  EXPECT_NEAR(upper_bound_95(0, 60), 1 - std::pow(0.05, 1.0 / 60), 1e-12);
  EXPECT_NEAR(lower_bound_95(60, 60), std::pow(0.05, 1.0 / 60), 1e-12);
  EXPECT_EQ(upper_bound_95(7, 7), 1);
  EXPECT_EQ(upper_bound_95(0, 0), 1);
  EXPECT_EQ(lower_bound_95(0, 9), 0);
  EXPECT_NEAR(upper_bound_95(0, 3'000'000'000), 1e-9, 2e-12);  // the rule of three
  EXPECT_NEAR(upper_bound_95(1, 10), 0.3941633, 1e-6);         // P(X <= 1 | p) = 0.05
}

TEST_F(KillTables, formats_have_a_line_for_every_mutant) {
  const auto mutants = find_kernels(kernel_rooms(), "value_averaging")->forms[0].mutants.size();
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  const Ran csv = run_assay(with(without_held_out, {"--trials", "1", "--format", "csv"}));
  EXPECT_EQ(lines(csv.out), static_cast<std::ptrdiff_t>(mutants) + 1);
  for (const std::string format : {"table", "markdown"}) {
    const Ran ran = run_assay(with(without_held_out, {"--trials", "1", "--format", format}));
    for (const Mutant& m : find_kernels(kernel_rooms(), "value_averaging")->forms[0].mutants)
      EXPECT_NE(ran.out.find(m.name), std::string::npos) << format << m.name;
    EXPECT_NE(ran.out.find(
                  "reproduce: build/assay-lab mutants --mechanism value_averaging --trials 1 --held-out no --seed 11"),
              std::string::npos);
  }
}

TEST_F(KillTables, survivors_are_listed_with_the_reason_and_the_exit_code_is_1) {
  // In bf16 a delta rule's state in bf16 loses no more than its operands do.
  const Ran ran =
      run_assay({"mutants", "--mechanism", "deltanet", "--precision", "bf16", "--trials", "1", "-o", path("table")});
  const std::string table = read("table");
  EXPECT_EQ(ran.code, exit_failed);
  const auto survivors = table.find("\nnot killed\n");
  ASSERT_NE(survivors, std::string::npos);
  EXPECT_NE(table.find("state_in_bf16    differs in 1 of 1 cases, by 0.", survivors), std::string::npos) << table;
}

TEST_F(KillTables, held_out_mutants_have_totals_of_their_own) {
  const auto table = [](const std::string& which) {
    return Json::parse(run_assay(with(one_room, {"--held-out", which, "--trials", "1", "--format", "json"})).out);
  };
  const Json too = table("too"), only = table("only"), no = table("no");
  EXPECT_EQ(only["mutants"].size(), find_kernels(held_out_rooms(), "value_averaging")->forms[0].mutants.size());
  EXPECT_EQ(too["mutants"].size(), only["mutants"].size() + no["mutants"].size());
  for (const Json& mutant : too["mutants"]) {
    const Json& alone = mutant["held_out"] ? only["mutants"] : no["mutants"];
    EXPECT_NE(std::find(alone.begin(), alone.end(), mutant), alone.end()) << mutant;
  }
  EXPECT_EQ(too["rules"], no["rules"]);
  EXPECT_EQ(too["rules_on_held_out"], only["rules_on_held_out"]);
  EXPECT_FALSE(no.contains("rules_on_held_out"));
  EXPECT_EQ(only["rules"][0]["killed"], 0);
  EXPECT_GT(only["rules_on_held_out"][0]["killed"], 0);
}

TEST_F(KillTables, held_out_survivors_are_listed_and_fail_nothing) {
  // bf16 values are fp16 values: caches in fp16 lose nothing.
  const Ran ran = run_assay(with(one_room, {"--held-out", "only", "--precision", "bf16", "--trials", "1"}));
  EXPECT_EQ(ran.code, exit_passed) << ran.out;
  const auto survivors = ran.out.find("\nnot killed\n");
  ASSERT_NE(survivors, std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("v_in_fp16", survivors), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("\nheld out: 7 mutants"), std::string::npos) << ran.out;
}

/// One token: o = (q . k) v / sqrt(4) = 2.
TEST(FormulaErrors, count_whichever_way_they_move_a_number) {
  Problem problem;
  problem.mechanism = language::path_of("mamba2");
  problem.inputs = {{"q", Array({1, 4}, {1, 1, 1, 1})},
                    {"k", Array({1, 4}, {1, 1, 1, 1})},
                    {"v", Array({1, 1}, {1})},
                    {"log_decay", Array({1}, {-1})}};
  const std::vector<WrongFormula> wrong = wrong_formulas(*language::find_mechanism(problem.mechanism), false);
  std::vector<std::size_t> all(wrong.size());
  std::iota(all.begin(), all.end(), 0);
  Expected o{.shape = {1, 1}, .layout = {1, 1, 1}, .value = {{2, 0}}, .bound = {0}, .sigma = {0.01}, .reach = {7}};
  o.rms_limit = 2;
  const std::vector<Fate> fates = fates_of(wrong, all, problem, {{"o", &o}}, Format::bf16, 1);
  std::map<std::string, Fate> of;
  for (const std::size_t i : all) of[wrong[i].what] = fates[i];
  EXPECT_EQ(of.at("0.10 mul: only operand 2 is left"), Fate::revealed) << "the scale forgotten: 4";
  EXPECT_EQ(of.at("0.7 add: wrong sign"), Fate::revealed) << "-2";
  EXPECT_EQ(of.at("0.0 exp left out"), Fate::no_change) << "of a state that is zero";
}

TEST_F(KillTables, bad_flags_are_one_sentence) {
  const auto refused = [](const std::vector<std::string>& more, const std::string& sentence) {
    const Ran ran = run_assay(with({"mutants"}, more));
    EXPECT_EQ(ran.code, exit_usage) << sentence;
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(ran.err.find(sentence), 0) << ran.err;
  };
  refused({"--mechanism", "nothing"}, "assay: --mechanism: there is no nothing; there are softmax_attention");
  refused({"--mechanism", "rmsnorm"}, "assay: --mechanism: none of these has kernels\n");
  refused({"--mechanism", "deltanet", "--power", "nothing"},
          "assay: --power: none of these kernels has a mutant nothing\n");
  refused({"--held-out", "some"}, "--held-out: there is no some; there are");
  refused({"--healthy-only"}, "assay: --healthy-only: it needs --healthy");
  refused({"--seconds", "5"}, "assay: --seconds: it limits the runs of --healthy\n");
  refused({"--precision", "fp7"}, "--precision: there is no fp7; there are");
  refused({"--trials", "-1"}, "--trials: Value -1 not in range");
}

}  // namespace
}  // namespace assay
