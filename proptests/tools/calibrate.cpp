// assay-lab calibrate: the command, its formats and flags; records/calibration.md speaks of today's rooms and variants.
#include "judge/trial/calibrate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "proptests/core/places.hpp"
#include "proptests/tools/cli.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;
using Calibrate = CliFiles;

std::vector<std::string> small(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"calibrate", "--mechanism", "value_averaging", "--precision", "bf16,fp32"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(Calibrate, a_room_is_calibrated) {
  const Ran ran = run_assay(small({"--format", "json"}));
  EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
  const Json json = Json::parse(ran.out);
  EXPECT_TRUE(json["passed"]);
  std::set<std::string> listed;
  std::uint64_t elements = 0;
  for (const Json& variant : json["variants"]) {
    listed.insert(variant["variant"]);
    EXPECT_TRUE(variant["passed"]) << variant;
    std::uint64_t of_precisions = 0;
    for (const Json& precision : variant["precisions"]) of_precisions += precision["elements"].get<std::uint64_t>();
    EXPECT_EQ(variant["all"]["elements"], of_precisions);
    if (variant["standard"] == "other" || variant["standard"] == "biased") continue;
    elements += of_precisions;
    EXPECT_EQ(variant["all"]["beyond_limit"], 0) << variant;
    if (variant["standard"] == "wider") continue;
    EXPECT_GE(variant["all"]["rms"], least_rms) << variant;
    EXPECT_LE(variant["all"]["rms"], most_rms) << variant;
  }
  EXPECT_EQ(json["all"]["elements"], elements);
  EXPECT_GT(elements, 100000U);
  EXPECT_GE(listed.size(), 8U);
}

TEST_F(Calibrate, the_verdict_is_that_of_the_numbers) {
  CalibrationRow row{.room = "deltanet", .form = "chunkwise", .variant = "tile 64"};
  Expected e{.shape = {4},
             .layout = {1, 4, 1},
             .value = std::vector<HiLo>(4),
             .bound = std::vector<double>(4),
             .sigma = std::vector<double>(4, 1),
             .reach = std::vector<double>(4, 7)};
  Gauge& g = row.by_precision[static_cast<std::size_t>(Format::bf16)];
  g.add(e, {1, -1, 1, -1});
  EXPECT_TRUE(row.passed());
  EXPECT_EQ(row.whole().elements, 4U);
  row.fit = Fit::wider;  // a kernel that rounds less may do with less
  for (int i = 0; i < 8; ++i) g.add(e, {0.1, 0.1, 0.1, 0.1});
  EXPECT_TRUE(row.passed());
  row.fit = Fit::same;
  EXPECT_FALSE(row.passed());
  g = {}, g.add(e, {1.5, -1.5, 1.5, -1.5});
  EXPECT_FALSE(row.passed());
  row.fit = Fit::wider;
  EXPECT_FALSE(row.passed());
  row.fit = Fit::biased;  // of which nothing is asked
  EXPECT_TRUE(row.passed());
  row.fit = Fit::same, g = {}, g.add(e, {1.9, 0.01, 0.01, 0.01});  // most limits say nothing
  EXPECT_GT(g.rms(), least_rms);
  EXPECT_FALSE(row.passed());
  g = {};
  for (int i = 0; i < 20; ++i) g.add(e, {1, -1, 1, -1});
  g.add(e, {1, -1, 1, 7.5});
  EXPECT_LT(g.rms(), most_rms);
  EXPECT_FALSE(row.passed());
}

TEST_F(Calibrate, threads_change_nothing_and_seeds_do) {
  const auto text_of = [](const std::string& threads, const std::string& seed) {
    return run_assay(small({"--style", "normal", "--threads", threads, "--seed", seed, "--format", "json"})).out;
  };
  const std::string one = text_of("1", "5");
  EXPECT_EQ(one, text_of("3", "5"));
  EXPECT_NE(Json::parse(one)["variants"], Json::parse(text_of("1", "6"))["variants"]);
}

TEST_F(Calibrate, what_is_cut_off_says_so_and_is_the_first_cases) {
  const std::vector<std::string> words = small({"--style", "normal", "--seeds", "3", "--format", "json"});
  const auto with = [&](const std::string& flag, const std::string& value) {
    std::vector<std::string> more = words;
    more.insert(more.end(), {flag, value});
    return Json::parse(run_assay(more).out);
  };
  const Json cut = with("--seconds", "1e-9"), first = with("--cases", cut["cases"].dump());
  EXPECT_EQ(cut, first);
  EXPECT_EQ(cut["cases_asked"], 6);
  EXPECT_GE(cut["cases"], 1);
  EXPECT_LT(cut["cases"], 6);
  EXPECT_NE(cut["command"].get<std::string>().find(" --cases " + cut["cases"].dump()), std::string::npos);
  // Two cases are both precisions of the first seed.
  const Json two = with("--cases", "2"),
             seed = Json::parse(run_assay(small({"--style", "normal", "--format", "json"})).out);
  EXPECT_EQ(two["variants"], seed["variants"]);
  EXPECT_EQ(with("--seconds", "1000"), Json::parse(run_assay(words).out));
  const std::string table = run_assay(small({"--style", "normal", "--cases", "1"})).out;
  EXPECT_NE(table.find("\n1 of 2 cases were run\n"), std::string::npos) << table;
}

TEST_F(Calibrate, runs_of_other_seeds_are_merged_to_one) {
  const auto run = [&](const std::string& seeds, const std::string& seed, const std::vector<std::string>& more) {
    std::vector<std::string> words = small({"--style", "normal", "--seeds", seeds, "--seed", seed});
    words.insert(words.end(), more.begin(), more.end());
    return run_assay(words).out;
  };
  const auto part = [&](const std::string& name, const std::string& seeds, const std::string& seed,
                        const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"--format", "json", "-o", path(name)};
    words.insert(words.end(), more.begin(), more.end());
    run(seeds, seed, words);
    return path(name);
  };
  const std::string a = part("a", "2", "7"), b = part("b", "1", "9");
  const auto merged = [](const std::string& x, const std::string& y) {
    return run_assay({"calibrate", "--merge", x, "--merge", y});
  };
  EXPECT_EQ(merged(a, b).out, run("3", "7", {}));
  EXPECT_EQ(merged(b, a).out, merged(a, b).out);
  EXPECT_EQ(merged(a, b).code, exit_passed);
  const std::string alone = run_assay({"calibrate", "--merge", a, "--format", "json"}).out;
  EXPECT_EQ(Json::parse(alone), Json::parse(std::ifstream(a)));

  const auto refusal = [&](const std::string& x, const std::string& y) {
    const Ran ran = merged(x, y);
    EXPECT_EQ(ran.code, exit_usage);
    EXPECT_EQ(ran.out, "");
    return ran.err;
  };
  const auto says = [](const std::string& text, const std::string& what) {
    return text.find(what) != std::string::npos ? "" : text;
  };
  EXPECT_EQ(says(refusal(a, a), "begins with seed 7 where 9 is next"), "");
  EXPECT_EQ(says(refusal(a, part("c", "1", "10")), "begins with seed 10 where 9 is next"), "");
  EXPECT_EQ(says(refusal(a, part("d", "1", "9", {"--variant", "tile 16"})), "other cases"), "");
  EXPECT_EQ(says(refusal(a, part("e", "1", "9", {"--cases", "1"})), "1 of 2 cases were run"), "");
  Json changed = Json::parse(std::ifstream(b));
  changed["variants"][0]["precisions"]["bf16"]["slack"]["0"] = 1;
  std::ofstream(path("f")) << changed;
  EXPECT_EQ(says(refusal(a, path("f")), "slack: counts"), "");
  EXPECT_EQ(run_assay({"calibrate", "--merge", a, "--seeds", "2"}).code, exit_usage);
}

TEST_F(Calibrate, formats_have_a_line_for_every_variant) {
  const auto lines = [](const std::string& format) {
    const std::string out =
        run_assay(small({"--style", "normal", "--variant", "tile 16", "--variant", "sums of 4", "--format", format}))
            .out;
    if (format == "json") return static_cast<int>(Json::parse(out)["variants"].size());
    std::istringstream stream(out);
    int count = 0;
    for (std::string line; std::getline(stream, line);)
      count += line.find("value_averaging") != std::string::npos && line.find("calibrate") == std::string::npos;
    return count;
  };
  for (const char* format : {"table", "markdown", "csv", "json"}) EXPECT_EQ(lines(format), 2) << format;
}

TEST_F(Calibrate, refuses_in_one_sentence_and_writes_nothing) {
  for (const auto& more : std::vector<std::vector<std::string>>{{"--mechanism", "no_such"},
                                                                {"--mechanism", "rls"},
                                                                {"--form", "no_such"},
                                                                {"--variant", "no such"},
                                                                {"--shape", "1,2,3"},
                                                                {"--style", "no_such"},
                                                                {"--precision", "exact"},
                                                                {"--seconds", "0"},
                                                                {"--seeds", "0"}}) {
    std::vector<std::string> words = {"calibrate", "-o", path("out")};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = run_assay(words);
    EXPECT_EQ(ran.code, exit_usage) << more[0] << ' ' << more[1];
    EXPECT_NE(ran.err, "");
    EXPECT_TRUE(names().empty());
  }
}

/// Measured in ten minutes, so no test writes it again.
TEST(CalibrationPage, lists_the_rooms_and_variants_of_today) {
  std::ifstream page(source_dir() + "/records/calibration.md");
  ASSERT_TRUE(page.good());
  std::set<std::tuple<std::string, std::string, std::string>> listed, expected;
  std::string line, room, form;
  while (std::getline(page, line)) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "###") words >> room >> form;
    if (first != "|" || room.empty()) continue;
    const std::string cell = line.substr(2, line.find(" |", 2) - 2);
    if (cell != "variant" && cell != "---") listed.emplace(room, form, cell);
  }
  for (const KernelRoom* kernels : kernel_rooms())
    for (const KernelForm& f : kernels->forms)
      if (f.unstable.empty())
        for (const std::string& name : variant_names(kernels->name, f)) expected.emplace(kernels->name, f.name, name);
  EXPECT_EQ(listed, expected)
      << "build/assay-lab calibrate --docs writes records/calibration.md; its first line is the command";
}

TEST(CalibrationPage, explains_every_variant_that_is_out) {
  std::ifstream file(source_dir() + "/records/calibration.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const std::size_t from = page.find("## What is not within it"), to = page.find("## Every variant");
  ASSERT_LT(from, to);
  const std::string reasons = page.substr(from, to - from);
  std::istringstream lines(page.substr(to));
  int seen = 0;
  for (std::string line; std::getline(lines, line);) {
    seen += line.starts_with("| ") ? 1 : 0;
    if (line.find("| OUT |") == std::string::npos) continue;
    const std::string variant = line.substr(2, line.find(" |", 2) - 2);
    EXPECT_NE(reasons.find("`" + variant + "`"), std::string::npos) << line;
  }
  EXPECT_GT(seen, 200);
}

}  // namespace
}  // namespace assay
