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

}  // namespace
}  // namespace assay
