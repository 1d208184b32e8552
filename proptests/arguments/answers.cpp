// Published cases with arguments: status, row and 40 digits of every tensor, by an implementation that shares nothing
// with ours. Errors planted in every part, one at a time, are seen by them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "arguments/programs/library.hpp"
#include "language/program/mutants.hpp"
#include "proptests/core/places.hpp"
#include "proptests/core/published_cases.hpp"

namespace assay::arguments {
namespace {

const PublishedCases& published() {
  static const PublishedCases all = published_cases(source_dir() + "/proptests/arguments/cases.json");
  return all;
}

TEST(ArgumentAnswers, AgreeWithPublishedCases) {
  const auto& [cases, records] = published();
  int refused = 0, compared = 0;
  ASSERT_EQ(cases.size(), 222u);
  for (std::size_t i = 0; i < cases.size(); ++i)
    refused += expect_published(cases[i], records[i], compared)["status"] == "OK" ? 0 : 1;
  EXPECT_EQ(refused, 77);
  EXPECT_EQ(compared, 936);
}

/// Whether the answer is another one than the case expects.
bool sees(const Case& c, const Json& expected) {
  // Numbers in doubles are enough to see an error in a formula.
  const Json record = result_record(c, answer_case(c, {.digits = 17, .tier = Tier::fp64}));
  if (record["status"] != expected["status"]) return true;
  for (const char* part : {"outputs", "gradients"}) {
    if (!expected.contains(part)) continue;
    for (const auto& [name, tensor] : expected[part].items())
      if (!record[part].contains(name) || distance(record[part][name], tensor) > from_decimal<Mp100>("1e-9"))
        return true;
  }
  return false;
}

TEST(ArgumentMutants, AreSeenByPublishedCases) {
  const auto& [cases, records] = published();
  std::map<std::string, std::vector<std::size_t>> users;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (records[i]["expect"]["status"] != "OK") continue;
    const PlantedPart none;
    if (sees(cases[i], records[i]["expect"])) continue;  // a sink of 80 cancels all digits of doubles
    for (const std::string& name : none.asked) users[name].push_back(i);
  }
  int planted = 0;
  std::vector<std::string> alive;
  // No cases repeat the parts of parallax and lla that are softmax_attention's: laws hold them against it.
  users.erase("parallax"), users.erase("lla");
  EXPECT_GE(users.size(), 15u);
  for (const auto& [name, own] : users)
    for (const language::Mutant& mutant : language::mutants_of(part(name))) {
      const PlantedPart plant(name, mutant.program);
      const auto seen = [&, &cases = cases, &records = records](std::size_t i) {
        return sees(cases[i], records[i]["expect"]);
      };
      ++planted;
      if (std::none_of(own.begin(), own.end(), seen)) alive.push_back(name + ": " + mutant.what);
    }
  std::string list;
  for (const std::string& one : alive) list += '\n' + one;
  // Ties at thresholds, and branches that no case takes: fixtures/frozen/by_hand.json sees them.
  EXPECT_LE(alive.size(), 12u) << planted << " planted; not seen:" << list;
  EXPECT_GE(planted, 250);
  EXPECT_EQ(list.find("softmax_attention"), std::string::npos) << list;
}

}  // namespace
}  // namespace assay::arguments
