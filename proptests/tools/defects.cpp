// fixtures/defects: three published defects are what is committed. docs/tutorial.md shows where they are and by what
// name, proptests/transcripts/check.md where LLA's is, and that their healthy counterparts pass.
#include "tools/cases/defects.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proptests/core/places.hpp"
#include "tools/cases/golden.hpp"

namespace assay {
namespace {

TEST(Defects, are_what_is_committed) {
  for (const Defect& defect : published_defects())
    for (const auto& [name, file] : files_of(defect)) {
      const std::string path = source_dir() + "/fixtures/defects/" + defect.name + '/' + name;
      EXPECT_EQ(differences(file, read_safetensors(path)), std::vector<std::string>()) << path;
    }
}

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
