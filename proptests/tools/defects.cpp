// fixtures/defects: three published defects are what is committed, and named. proptests/transcripts/check.md shows
// where each is, and that their healthy counterparts pass.
#include "tools/cases/defects.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "proptests/core/places.hpp"
#include "proptests/tools/cli.hpp"
#include "tools/cases/golden.hpp"

namespace assay {
namespace {

class Defects : public ::testing::TestWithParam<std::string> {
 protected:
  static std::string path(const std::string& file) {
    return source_dir() + "/fixtures/defects/" + GetParam() + '/' + file;
  }
};

TEST_P(Defects, are_what_is_committed) {
  for (const Defect& defect : published_defects()) {
    if (defect.name != GetParam()) continue;
    for (const auto& [name, file] : files_of(defect))
      EXPECT_EQ(differences(file, read_safetensors(path(name))), std::vector<std::string>()) << name;
  }
}

TEST_P(Defects, are_named) {
  const std::map<std::string, std::string> names = {
      {"mdn_log_domain", "form log_domain: its weights cancel, and overflow, where mu decays faster than alpha; "},
      {"lla_ridge_detached", "ridge_detached: backward: lambda's unit held constant under changes of the weights"},
      {"deltanet_bf16_state", "state_in_bf16: the state accumulates in bf16"}};
  const Ran ran = run_assay({"check", path("case.safetensors"), path("defective.safetensors"), "--contract", "bf16",
                             "--why", "--why-limit", "600", "--format", "json"});
  ASSERT_EQ(ran.code, exit_failed) << ran.err;
  const Json why = Json::parse(ran.out).at("why");
  EXPECT_TRUE(why["known"].get<bool>());
  const auto what = why["explanations"][0]["what"].get<std::string>();
  EXPECT_TRUE(what.starts_with(names.at(GetParam()))) << what;
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
