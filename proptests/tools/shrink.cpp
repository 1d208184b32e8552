// assay check --shrink: what fails gets small, within its runs, and stays what fails.
#include "judge/court/shrink.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>

#include "files/case_file.hpp"
#include "files/safetensors.hpp"
#include "judge/court/seeded_case.hpp"
#include "judge/trial/kill_table.hpp"
#include "proptests/core/one_in.hpp"
#include "proptests/core/places.hpp"
#include "proptests/tools/cli.hpp"

namespace assay {
namespace {

class Shrink : public CliFiles {
 protected:
  void make(const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"case", "deltanet",     "--shape", "2,150,4/2,32,24", "--no-cotangents",
                                     "-o",   path("case.st")};
    args.insert(args.end(), more.begin(), more.end());
    ASSERT_EQ(run_assay(args).code, exit_passed);
  }
  Ran shrink(const char* bug, const std::vector<std::string>& more = {}) const {
    setenv("ASSAY_BUG", bug, 1);
    std::vector<std::string> args = {"check", path("case.st"), "--plugin", plugin_built("wrong"), "--shrink"};
    args.insert(args.end(), more.begin(), more.end());
    Ran ran = run_assay(args);
    unsetenv("ASSAY_BUG");
    return ran;
  }
};

TEST_F(Shrink, finds_the_first_case_that_shows_it) {
  make({"--style", "long_memory", "--param", "scale=0.5"});
  const Ran ran = shrink("second_chunk", {"--format", "json", "--shrink-output", path("small.st")});
  EXPECT_EQ(ran.code, exit_failed) << ran.err;
  const Json smallest = Json::parse(ran.out)["smallest"];
  const auto command = smallest["command"].get<std::string>();
  EXPECT_TRUE(command.starts_with("build/assay case --mechanism deltanet --shape 1,65,1,4,")) << command;
  EXPECT_TRUE(command.ends_with(" --precision bf16 --style normal --seed 0 --no-cotangents -o " + path("small.st")))
      << command;
  ASSERT_EQ(smallest["failing"].size(), 1U);
  EXPECT_EQ(smallest["failing"][0]["tensor"], "o");
  EXPECT_NE(smallest["failing"][0]["reason"].get<std::string>().find("[0][64][0][0] is "), std::string::npos);
  EXPECT_FALSE(smallest["stopped"].get<bool>());
  // The file is that case, and it fails.
  const SeededCase small = read_seeded_case(path("small.st"), "--shrink");
  EXPECT_EQ(text_of(small.spec.shape), smallest["shape"].get<std::string>());
  setenv("ASSAY_BUG", "second_chunk", 1);
  EXPECT_EQ(run_assay({"check", path("small.st"), "--plugin", plugin_built("wrong")}).code, exit_failed);
  unsetenv("ASSAY_BUG");
}

TEST_F(Shrink, says_what_it_has_found) {
  make();
  const Ran ran = shrink("last_token");
  EXPECT_EQ(ran.code, exit_failed) << ran.err;
  const std::size_t at = ran.out.find("smallest failing case, after ");
  ASSERT_NE(at, std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find(" runs:\nFAIL  o: [0][0][0]", at), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("      build/assay case --mechanism deltanet --shape 1,1,1,4,1 ", at), std::string::npos)
      << ran.out;
}

TEST_F(Shrink, ends_at_its_limit) {
  make();
  const Ran ran = shrink("second_chunk", {"--shrink-runs", "2", "--format", "json"});
  EXPECT_EQ(ran.code, exit_failed) << ran.err;
  const Json smallest = Json::parse(ran.out)["smallest"];
  EXPECT_TRUE(smallest["stopped"].get<bool>());
  EXPECT_EQ(smallest["runs"], 2);
  EXPECT_FALSE(smallest["failing"].empty());
  EXPECT_NE(shrink("second_chunk", {"--shrink-runs", "2"}).out.find("after 2 runs, all that --shrink-runs allows:"),
            std::string::npos);
}

TEST_F(Shrink, leaves_what_passes_and_refuses_what_it_cannot_make) {
  make();
  const Ran healthy = shrink("none");
  EXPECT_EQ(healthy.code, exit_passed) << healthy.out << healthy.err;
  EXPECT_NE(healthy.out.find("nothing fails"), std::string::npos);
  Safetensors file = read_safetensors(path("case.st"));
  file.tensors.at("q").bytes[3] ^= 1;
  write_safetensors(path("case.st"), file);
  const Ran other = shrink("none");
  EXPECT_EQ(other.code, exit_usage);
  EXPECT_NE(other.err.find("a case that `assay case` has made: its tensors are others"), std::string::npos)
      << other.err;
  const Ran answer = run_assay({"check", path("case.st"), path("case.st"), "--shrink"});
  EXPECT_EQ(answer.code, exit_usage);
  EXPECT_NE(answer.err.find("--shrink: expected --kernel, --kernel-loop or --plugin"), std::string::npos) << answer.err;
}

/// A fault of two heads, and of one with other numbers.
TEST(ShrinkSearch, tries_one_head_of_other_seeds) {
  const CaseSpec failing{"deltanet", {2, 109, 4, 2, 16, 12, 0}, Format::bf16, Style::normal, 11, {}};
  const auto shrunk = [&](const std::function<bool(const CaseSpec&)>& fails) {
    return shrink(failing, true, fails, usual_shrink_runs);
  };
  const Shrunk lucky = shrunk([](const CaseSpec& spec) { return spec.shape.own() > 1 || spec.seed == 13; });
  EXPECT_EQ(lucky.spec.shape, (Shape{1, 1, 1, 0, 1, 1, 0}));
  EXPECT_EQ(lucky.spec.seed, 13U);
  const Shrunk never = shrunk([](const CaseSpec& spec) { return spec.shape.heads > 1; });
  EXPECT_EQ(never.spec.shape.own(), 2);
  EXPECT_EQ(never.spec.seed, 11U);
}

/// Every ASSAY_EVERY-th of all planted faults of all rooms.
TEST(ShrinkFaults, most_get_small) {
  const auto rows = measure_shrinking({.mechanisms = {}, .precisions = {}, .power = {}}, one_in(97),
                                      [](std::size_t, std::string_view) {});
  int small = 0, shown = 0;
  std::vector<int> runs;
  for (const ShrinkRow& row : rows) {
    runs.push_back(row.runs);
    small += row.small ? 1 : 0, shown += row.shows_in_one_head ? 1 : 0;
    if (!row.small)
      std::cout << row.room << ' ' << row.form << ' ' << row.mutant << ": " << row.smallest.repro() << '\n';
  }
  std::cout << small << " of " << rows.size() << " faults, of " << shown
            << " that one head shows, come down to one head, two chunks and 16 dimensions\n";
  std::sort(runs.begin(), runs.end());
  std::cout << "runs: " << runs[runs.size() / 2] << " in the median, " << runs.back() << " at most\n";
  EXPECT_LT(runs.back(), usual_shrink_runs);
  EXPECT_GE(shown, 3);
  EXPECT_GE(10 * small, 9 * shown);
}

}  // namespace
}  // namespace assay
