// records/detection.md is measured in a quarter of an hour, so no test writes it again; it must speak of today's
// mutants.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "judge/held_out/rooms.hpp"
#include "judge/trial/kill_table.hpp"
#include "judge/trial/rivals.hpp"
#include "kernels/core/kernel_room.hpp"
#include "proptests/core/places.hpp"

namespace assay {
namespace {

/// Mutants by kernel, as they are headed and listed in the page.
TEST(DetectionPage, lists_the_mutants_of_today) {
  std::ifstream page(source_dir() + "/records/detection.md");
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
  for (const KernelRoom* kernels : kernel_rooms())
    for (const KernelForm& f : kernels->forms)
      for (const Mutant& m : f.mutants)
        if (f.unstable.empty()) expected.emplace(kernels->name, f.name, m.name);
  EXPECT_EQ(listed, expected)
      << "build/assay-lab mutants --docs writes records/detection.md; its first line is the command";
}

/// A held-out mutant as the page lists it: `layer` is the sharpest part of the judge that kills it, or "-".
struct HeldOutLine {
  std::string room, form, mutant, shown, layer;
};

/// Those of the section "Held out"; `summary` is its line of totals.
std::vector<HeldOutLine> held_out_lines(std::string& summary) {
  std::ifstream page(source_dir() + "/records/detection.md");
  std::vector<HeldOutLine> lines;
  bool in_section = false, in_block = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) in_section = line == "## Held out";
    if (!in_section) continue;
    if (line.find(" of which show a bit: ") != std::string::npos) summary = line;
    if (line == "```") {
      in_block = !in_block;
      continue;
    }
    std::istringstream words(line);
    HeldOutLine read;
    words >> read.room >> read.form >> read.mutant >> read.shown >> read.layer;
    if (in_block && read.room != "mechanism") lines.push_back(std::move(read));
  }
  return lines;
}

TEST(DetectionPage, lists_the_held_out_mutants_of_today_and_counts_them) {
  std::string summary;
  const std::vector<HeldOutLine> lines = held_out_lines(summary);
  std::set<std::tuple<std::string, std::string, std::string>> listed, expected;
  for (const HeldOutLine& line : lines) listed.emplace(line.room, line.form, line.mutant);
  for (const KernelRoom* kernels : held_out_rooms())
    for (const KernelForm& f : kernels->forms)
      for (const Mutant& m : f.mutants) expected.emplace(kernels->name, f.name, m.name);
  EXPECT_EQ(listed, expected)
      << "build/assay-lab mutants --docs writes records/detection.md; its first line is the command";
  const auto count = [&](const auto& wanted) { return std::count_if(lines.begin(), lines.end(), wanted); };
  std::ostringstream totals;
  totals << lines.size() << " mutants, " << count([](const HeldOutLine& line) { return !line.shown.starts_with("0/"); })
         << " of which show a bit: " << count([](const HeldOutLine& line) { return line.layer != "-"; }) << " killed";
  EXPECT_EQ(summary.find(totals.str()), 0) << summary << '\n' << totals.str();
}

/// Two rooms' share of the kills that the page states, measured again.
TEST(DetectionPage, kills_the_held_out_mutants_that_it_says) {
  std::string summary;
  const std::vector<HeldOutLine> lines = held_out_lines(summary);
  const MutantOptions options{
      .mechanisms = {"value_averaging", "retnet"}, .precisions = {}, .power = {}, .held_out = HeldOut::only};
  const KillTable table = make_kill_table(options, [](std::size_t, std::string_view) {});
  EXPECT_FALSE(table.rows.empty());
  for (const MutantRow& row : table.rows) {
    const auto line = std::find_if(lines.begin(), lines.end(), [&](const HeldOutLine& l) {
      return l.room == row.room && l.form == row.form && l.mutant == row.mutant->name;
    });
    ASSERT_NE(line, lines.end()) << row.mutant->name;
    EXPECT_EQ(line->layer != "-", row.killed()) << row.room << ": " << row.mutant->name << ": " << row.conviction;
  }
}

TEST(DetectionPage, names_every_rule) {
  std::ifstream file(source_dir() + "/records/detection.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const Rival& rival : rivals()) {
    std::string rule;
    for (const char c : rival.rule) rule += c == '|' ? "\\|" : std::string(1, c);
    EXPECT_NE(page.find("`" + rule + "`"), std::string::npos) << rival.name;
  }
}

}  // namespace
}  // namespace assay
