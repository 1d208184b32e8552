// Errors planted in every part, one at a time: published cases see them.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>

#include "arguments/programs/library.hpp"
#include "language/program/mutants.hpp"
#include "proptests/arguments/records.hpp"
#include "proptests/core/places.hpp"

namespace assay::arguments {
namespace {

/// Numbers in doubles are enough to see an error in a formula.
Json in_doubles(const Case& c) { return result_record(c, answer_any(c, {.digits = 17, .tier = Tier::fp64})); }

bool differs(const Json& got, const Json& expected) {
  using std::isfinite, std::isnan;
  const Values a = values(got), b = values(expected);
  if (a.size() != b.size()) return true;
  Mp100 largest = 1e-300, off = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (isnan(a[i]) != isnan(b[i]) || isfinite(a[i]) != isfinite(b[i])) return true;
    if (!isfinite(a[i])) continue;
    largest = std::max<Mp100>(largest, abs(b[i])), off = std::max<Mp100>(off, abs(a[i] - b[i]));
  }
  return off > largest * Mp100(1e-9);
}

/// Whether the answer is another one than the case expects.
bool sees(const Case& c, const Json& expected) {
  const Json record = in_doubles(c);
  if (record["status"] != expected["status"]) return true;
  for (const char* part : {"outputs", "gradients"}) {
    if (!expected.contains(part)) continue;
    for (const auto& [name, tensor] : expected[part].items())
      if (!record[part].contains(name) || differs(record[part][name], tensor)) return true;
  }
  return false;
}

TEST(ArgumentMutants, AreSeenByPublishedCases) {
  const std::string path = source_dir() + "/proptests/arguments/cases.json";
  const std::vector<Case> cases = load_cases(path);
  std::ifstream file(path);
  const Json expectations = Json::parse(std::string{std::istreambuf_iterator<char>(file), {}})["cases"];
  std::map<std::string, std::vector<std::size_t>> users;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (expectations[i]["expect"]["status"] != "OK") continue;
    const PlantedPart none;
    if (sees(cases[i], expectations[i]["expect"])) continue;  // a sink of 80 cancels all digits of doubles
    for (const std::string& name : none.asked) users[name].push_back(i);
  }
  int planted = 0;
  std::vector<std::string> alive;
  // What parallax and lla share with softmax_attention is not said again by cases: laws hold them against it.
  users.erase("parallax"), users.erase("lla");
  EXPECT_GE(users.size(), 15u);
  for (const auto& [name, own] : users)
    for (const language::Mutant& mutant : language::mutants_of(part(name))) {
      const PlantedPart plant(name, mutant.program);
      const auto seen = [&](std::size_t i) { return sees(cases[i], expectations[i]["expect"]); };
      ++planted;
      if (std::none_of(own.begin(), own.end(), seen)) alive.push_back(name + ": " + mutant.what);
    }
  std::string list;
  for (const std::string& one : alive) list += '\n' + one;
  // Ties at thresholds, and branches that no case takes: recurrence_laws.cpp and component_laws.cpp see them.
  EXPECT_LE(alive.size(), 12u) << planted << " planted; not seen:" << list;
  EXPECT_GE(planted, 250);
  EXPECT_EQ(list.find("softmax_attention"), std::string::npos) << list;
}

}  // namespace
}  // namespace assay::arguments
