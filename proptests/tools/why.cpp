// Causes as users see them: conventions by name, where they hold, and silence; shares of our own kernels; steps that
// grow.
#include "judge/court/why.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <vector>

#include "judge/court/growing_steps.hpp"
#include "proptests/core/places.hpp"
#include "proptests/tools/cli.hpp"

namespace assay {
namespace {

class Why : public CliFiles {
 protected:
  void SetUp() override {
    CliFiles::SetUp();
    ASSERT_EQ(run_assay({"case", "deltanet", "--shape", "1,70,2/1,8,6", "--no-cotangents", "-o", path("case.st")}).code,
              exit_passed);
  }
  void TearDown() override {
    unsetenv("ASSAY_BUG");
    CliFiles::TearDown();
  }
  Ran check(const char* bug, const std::vector<std::string>& more = {}) const {
    setenv("ASSAY_BUG", bug, 1);
    std::vector<std::string> args = {"check", path("case.st"), "--plugin", plugin_built("wrong")};
    args.insert(args.end(), more.begin(), more.end());
    return run_assay(args);
  }
};

/// Without --why: what fails says where it begins and what it looks like.
TEST_F(Why, names_a_convention) {
  const Ran ran = check("unscaled");
  EXPECT_EQ(ran.code, exit_failed) << ran.err;
  const std::string begins = "FAIL  o is wrong from token 0 on, in all heads\n",
                    looks = "looks like the scale missing (1 for 0.3536) (99.99%); multiply q by the scale, once\n";
  // The verdict, its cause and the command are the last lines.
  EXPECT_NE(ran.out.find(" beyond their limits\n" + begins + looks + "reproduce: "), std::string::npos) << ran.out;
  EXPECT_LE(std::count(ran.out.begin(), ran.out.end(), '\n'), 24) << ran.out;
  const std::string whole = check("unscaled", {"--rows", "--legend"}).out;
  for (const char* part : {"\ncolumns   rel.error: ", "  max error  at ", "--tensor o\n", "\ndetects  bf16: "}) {
    EXPECT_EQ(ran.out.find(part), std::string::npos) << part;
    EXPECT_NE(whole.find(part), std::string::npos) << part << whole;
  }
  EXPECT_EQ(ran.out.find("why"), std::string::npos) << ran.out;
  EXPECT_NE(check("unscaled", {"--format", "html"}).out.find("<pre>FAIL  o is wrong "), std::string::npos);
  EXPECT_NE(check("unscaled", {"--format", "markdown"}).out.find("```\n" + begins + looks), std::string::npos);
  EXPECT_EQ(check("unscaled", {"--format", "github"}).err, begins + looks);

  const Json page = Json::parse(check("unscaled", {"--format", "json"}).out);
  EXPECT_EQ(page["first_wrong"]["tensor"], "o");
  EXPECT_EQ(page["first_wrong"]["followers"], Json::array());
  ASSERT_EQ(page["looks_like"].size(), 1U);
  EXPECT_EQ(page["looks_like"][0]["tensors"], Json::array({"o"}));
  EXPECT_EQ(page["looks_like"][0]["mend"], "multiply q by the scale, once");
  EXPECT_GT(page["looks_like"][0]["share"].get<double>(), 0.9999);
  // What is known already is not looked for again.
  EXPECT_EQ(check("unscaled", {"--why"}).out, ran.out);
}

TEST_F(Why, names_what_holds_in_a_part) {
  const Ran ran = check("second_chunk");
  EXPECT_NE(ran.out.find(
                "\nFAIL  o is wrong from token 64 on, in all heads\nlooks like 1.5 times the right values from token "
                "64 on (99.99%); multiply by 0.6667\n"),
            std::string::npos)
      << ran.out;
}

TEST_F(Why, says_what_it_does_not_know) {
  const Ran ran = check("coarse", {"--why", "--why-limit", "600"});
  EXPECT_EQ(ran.code, exit_failed) << ran.err;
  EXPECT_EQ(ran.out.find("looks like"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("\nwhy: unknown: no convention, contract, coarser site or known fault explains it\n"),
            std::string::npos)
      << ran.out;
  EXPECT_NE(
      check("coarse", {"--why", "--why-limit", "1e-9"}).out.find("\nwhy: unknown so far: --why-limit gives it more"),
      std::string::npos);
  const Json page = Json::parse(check("coarse", {"--why", "--why-limit", "600", "--format", "json"}).out);
  EXPECT_FALSE(page["why"]["known"].get<bool>());
  for (const Json& explanation : page["why"]["explanations"]) EXPECT_GE(explanation["explained"].get<double>(), 0.2);
}

TEST_F(Why, says_nothing_of_what_passes) {
  const Ran ran = check("none", {"--why"});
  EXPECT_EQ(ran.code, exit_passed) << ran.out << ran.err;
  EXPECT_EQ(ran.out.find("why   "), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("\nwhy: no tensor fails\n"), std::string::npos) << ran.out;
  const Json page = Json::parse(check("none", {"--format", "json"}).out);
  EXPECT_TRUE(page["first_wrong"].is_null() && page["looks_like"].empty());
}

TEST_F(Why, tells_shares_of_our_own_kernels) {
  const Ran report = run_assay({"report", "--mechanism", "linear_attention", "--precision", "bf16", "--shape",
                                "1,40,2/1,8,6", "--why", "--format", "json"});
  EXPECT_EQ(report.code, exit_passed) << report.err;
  const Json page = Json::parse(report.out);
  EXPECT_NE(page["command"].get<std::string>().find(" --why"), std::string::npos);
  int differ = 0;
  const std::regex share(": ([0-9.e+-]+)%");
  for (const Json& row : page["rows"]) {
    const auto words = row["why"].get<std::string>();
    std::vector<double> shares;
    for (std::sregex_iterator at(words.begin(), words.end(), share), end; at != end; ++at)
      shares.push_back(std::stod((*at)[1]));
    EXPECT_TRUE(std::is_sorted(shares.rbegin(), shares.rend())) << words;
    differ += !shares.empty() && shares.back() < shares.front() ? 1 : 0;
    EXPECT_TRUE(words.find(" sites, together ") != std::string::npos || words.starts_with("nothing is rounded"))
        << words;
  }
  EXPECT_GT(differ, 0) << "every site has a share of its own";
}

/// A step of 2 exactly reflects, and is stable.
TEST(GrowingSteps, are_those_beyond_2) {
  Problem problem;
  problem.mechanism = "deltanet";
  problem.inputs = {{"k", Array({1, 2, 2}, {1, 0, 0, 1})}, {"beta", Array({1, 2}, {2, 2})}};
  EXPECT_EQ(growing_steps_of(problem), "");
  problem.inputs.at("beta").data[1] = 2.5;
  const std::string said = growing_steps_of(problem);
  EXPECT_NE(said.find(": it is 2.5 at token 1, and beyond 2 at 1 of 2 steps; "), std::string::npos) << said;
}

}  // namespace
}  // namespace assay
