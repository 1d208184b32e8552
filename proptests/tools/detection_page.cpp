// docs/detection.md is measured in a quarter of an hour, so no test writes it again; it must speak of today's mutants.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

#include "kernels/core/kernel_room.hpp"
#include "oracles/core/rivals.hpp"

namespace assay {
namespace {

/// Mutants by kernel, as they are headed and listed in the page.
TEST(DetectionPage, lists_the_mutants_of_today) {
  std::ifstream page(ASSAY_SOURCE_DIR "/docs/detection.md");
  ASSERT_TRUE(page.good());
  std::set<std::tuple<std::string, std::string, std::string>> listed, expected;
  std::string line, room, form;
  bool inside = false;
  while (std::getline(page, line)) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "###") words >> room >> form;
    if (first == "```") inside = !room.empty() && !inside;
    if (inside && first != "```" && first != "mutant") listed.emplace(room, form, first);
  }
  for (const KernelRoom* kernels : mutant_rooms())
    for (const KernelForm& f : kernels->forms)
      for (const Mutant& m : f.mutants)
        if (f.unstable.empty()) expected.emplace(kernels->name, f.name, m.name);
  EXPECT_EQ(listed, expected) << "build/assay mutants --docs writes docs/detection.md; its first line is the command";
}

TEST(DetectionPage, names_every_rule) {
  std::ifstream file(ASSAY_SOURCE_DIR "/docs/detection.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const Rival& rival : rivals()) {
    std::string rule;
    for (const char c : rival.rule) rule += c == '|' ? "\\|" : std::string(1, c);
    EXPECT_NE(page.find("`" + rule + "`"), std::string::npos) << rival.name;
  }
}

}  // namespace
}  // namespace assay
