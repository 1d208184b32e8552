// --why, as its users see it: shares of every tensor, a known fault by its name, and unknown ones.
#include "tools/why.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "proptests/tools/cli.hpp"

namespace assay {
namespace {

class Why : public CliFiles {
 protected:
  void SetUp() override {
    CliFiles::SetUp();
    ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "1,70,2/1,8,6", "--no-cotangents", "-o", path("case.st")}).code,
              exit_passed);
    planted_kernels = mutant_rooms;
  }
  void TearDown() override {
    planted_kernels = nullptr;
    unsetenv("ASSAY_BUG");
    CliFiles::TearDown();
  }
  Ran why(const char* bug, const std::vector<std::string>& more = {}) const {
    setenv("ASSAY_BUG", bug, 1);
    std::vector<std::string> args = {"check", path("case.st"), "--plugin", ASSAY_PLUGIN_WRONG, "--why"};
    args.insert(args.end(), more.begin(), more.end());
    return run_assay(args);
  }
};

TEST_F(Why, names_a_planted_fault) {
  const Ran ran = why("unscaled");
  EXPECT_EQ(ran.code, exit_failed) << ran.err;
  EXPECT_NE(ran.out.find("\nwhy: scale_forgotten: o not scaled; explains 100% of the squared error"), std::string::npos)
      << ran.out;
  const Json page = Json::parse(why("unscaled", {"--format", "json"}).out);
  EXPECT_TRUE(page["why"]["known"].get<bool>());
  EXPECT_EQ(page["why"]["explanations"][0]["name"], "scale_forgotten");
  EXPECT_EQ(page["why"]["explanations"][0]["kind"], "fault");
  // A program without signatures knows sites only, and none of them does that.
  planted_kernels = nullptr;
  const Ran without = why("unscaled");
  EXPECT_NE(without.out.find("\nwhy: unknown: neither a site that rounds more coarsely, an unstable form nor, in more "
                             "than 16 dimensions or without assay-mutants, a planted fault"),
            std::string::npos)
      << without.out;
}

TEST_F(Why, says_what_it_does_not_know) {
  const Ran ran = why("second_chunk");
  EXPECT_EQ(ran.code, exit_failed) << ran.err;
  EXPECT_NE(ran.out.find("\nwhy: unknown: neither a site that rounds more coarsely, an unstable form nor a planted "
                         "fault explains it"),
            std::string::npos)
      << ran.out;
}

TEST_F(Why, tells_shares_of_what_passes) {
  const Ran ran = why("none");
  EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("why   deltanet chunkwise bf16 o: "), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("\nwhy: "), std::string::npos) << ran.out;
  const Ran report = run_assay({"report", "--mechanism", "linear_attention", "--precision", "bf16", "--shape",
                                "1,40,2/1,8,6", "--why", "--format", "json"});
  EXPECT_EQ(report.code, exit_passed) << report.err;
  const Json page = Json::parse(report.out);
  EXPECT_NE(page["command"].get<std::string>().find(" --why"), std::string::npos);
  for (const Json& row : page["rows"]) {
    const auto words = row["why"].get<std::string>();
    EXPECT_TRUE(words.find(" sites, together ") != std::string::npos || words.starts_with("nothing is rounded"))
        << words;
  }
}

}  // namespace
}  // namespace assay
