// fixtures/defects: three published defects, each rejected, localised and named; their healthy counterparts pass.
#include "tools/cases/defects.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "proptests/core/places.hpp"
#include "proptests/tools/cli.hpp"
#include "tools/cases/golden.hpp"

namespace assay {
namespace {

/// What is wrong with a published formula's answer, tensor by tensor, and what it is called.
struct Found {
  std::map<std::string, std::string> where;  ///< of the tensors that fail
  std::string why;
};

const std::map<std::string, Found> findings = {
    {"mdn_log_domain",
     {{{"final_momentum",
        "all heads, all key dimensions, all value dimensions; 252 of 256 elements beyond their limits"},
       {"final_state", "all heads, all key dimensions, all value dimensions; 247 of 256 elements beyond their limits"},
       {"o", "all heads, tokens 31..127 of 128, all value dimensions; 1392 of 2048 elements beyond their limits"}},
      "form log_domain: its weights cancel, and overflow, where mu decays faster than alpha; MDN (9)-(13)"}},
    {"lla_ridge_detached",
     {{{"d_bandwidth", "the number itself"},
       {"d_k", "all tokens, all key dimensions; 264 of 384 elements beyond their limits"},
       {"d_q", "the last 47 queries, 1..47 of 48, all key dimensions; 299 of 384 elements beyond their limits"}},
      "ridge_detached: backward: lambda's unit held constant under changes of the weights"}},
    {"deltanet_bf16_state",
     {{{"final_state",
        "all heads, all key dimensions (14 of 16), all value dimensions; 5 of 256 elements beyond their limits"},
       {"o",
        "all heads, tokens 65..230 of 256 (58 of 166), all value dimensions; 3 of 4096 elements beyond their limits"}},
      "state_in_bf16: the state accumulates in bf16"}},
};

class Defects : public ::testing::TestWithParam<std::string> {
 protected:
  static std::string path(const std::string& file) {
    return source_dir() + "/fixtures/defects/" + GetParam() + '/' + file;
  }
  static Json check(const std::string& answer, const std::vector<std::string>& more, int code) {
    std::vector<std::string> args = {"check", path("case.safetensors"), path(answer), "--format", "json"};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = run_assay(args);
    EXPECT_EQ(ran.code, code) << ran.err;
    return Json::parse(ran.out);
  }
};

TEST_P(Defects, are_what_is_committed) {
  for (const Defect& defect : published_defects()) {
    if (defect.name != GetParam()) continue;
    for (const auto& [name, file] : files_of(defect))
      EXPECT_EQ(differences(file, read_safetensors(path(name))), std::vector<std::string>()) << name;
  }
}

TEST_P(Defects, healthy_counterparts_pass) {
  for (const Json& row : check("healthy.safetensors", {}, exit_passed)["rows"])
    EXPECT_EQ(row["verdict"], "PASS") << row["tensor"];
}

TEST_P(Defects, are_rejected_localised_and_named) {
  const Found& found = findings.at(GetParam());
  const Json page = check("defective.safetensors", {"--contract", "bf16", "--why", "--why-limit", "600"}, exit_failed);
  for (const Json& row : page["rows"]) {
    const auto expected = found.where.find(row["tensor"].get<std::string>());
    EXPECT_EQ(row["verdict"], expected == found.where.end() ? "PASS" : "FAIL") << row["tensor"];
    if (expected != found.where.end()) {
      EXPECT_EQ(row["where"], expected->second) << row["tensor"];
    }
  }
  EXPECT_TRUE(page["why"]["known"].get<bool>());
  const auto what = page["why"]["explanations"][0]["what"].get<std::string>();
  EXPECT_TRUE(what.starts_with(found.why)) << what;
}

INSTANTIATE_TEST_SUITE_P(Published, Defects,
                         ::testing::Values("mdn_log_domain", "lla_ridge_detached", "deltanet_bf16_state"),
                         [](const auto& defect) { return defect.param; });

/// Both places at which the published point of MDN and LLA stands in the files themselves.
TEST(DefectFiles, are_at_the_published_point) {
  const auto number = [](const std::string& defect, const std::string& tensor) {
    const Safetensors file = read_safetensors(source_dir() + "/fixtures/defects/" + defect + "/case.safetensors");
    const Array array = load(tensor, file.tensors.at(tensor));
    for (const double x : array.data) EXPECT_EQ(x, array.data.front());
    return array.data.front();
  };
  EXPECT_EQ(number("mdn_log_domain", "log_alpha"), static_cast<double>(-0.05F));
  EXPECT_EQ(number("mdn_log_domain", "log_mu"), -0.5);
  EXPECT_EQ(number("lla_ridge_detached", "lambda"), 1);
}

}  // namespace
}  // namespace assay
