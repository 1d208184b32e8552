// records/detection.md is measured in a quarter of an hour, so no test writes it again; it must speak of today's
// held-out mutants. proptests/transcripts/records.md does so of the others and of rules, counts, and measures two
// rooms.
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <tuple>

#include "files/input_file.hpp"
#include "judge/held_out/rooms.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/core/places.hpp"

namespace assay {
namespace {

TEST(DetectionPage, lists_the_held_out_mutants_of_today) {
  const std::string page = read_text(source_dir() + "/records/detection.md");
  const std::size_t from = page.find("\n## Held out\n");
  ASSERT_NE(from, std::string::npos);
  std::istringstream lines(page.substr(from, page.find("\n## ", from + 1) - from));
  std::set<std::tuple<std::string, std::string, std::string>> listed, expected;
  bool in_block = false;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string room, form, mutant;
    words >> room >> form >> mutant;
    if (line == "```")
      in_block = !in_block;
    else if (in_block && room != "mechanism")
      listed.emplace(room, form, mutant);
  }
  for (const KernelRoom* kernels : held_out_rooms())
    for (const KernelForm& f : kernels->forms)
      for (const Mutant& m : f.mutants) expected.emplace(kernels->name, f.name, m.name);
  EXPECT_EQ(listed, expected)
      << "build/assay-lab mutants --docs writes records/detection.md; its first line is the command";
}

}  // namespace
}  // namespace assay
