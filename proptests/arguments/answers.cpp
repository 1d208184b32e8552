// Published cases with arguments: status, row and 40 digits of every tensor, by an implementation that shares nothing
// with ours.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "proptests/arguments/records.hpp"
#include "proptests/core/places.hpp"

namespace assay::arguments {
namespace {

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Distance from `expected` relative to its largest number; 1 where shapes, nulls or infinities differ.
Mp100 distance(const Json& got, const Json& expected) {
  using std::isfinite, std::isnan;
  const Values a = values(got), b = values(expected);
  if (a.size() != b.size()) return 1;
  Mp100 largest = 0, off = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (isfinite(a[i]) != isfinite(b[i]) || (!isfinite(a[i]) && isnan(a[i]) != isnan(b[i]))) return 1;
    if (!isfinite(a[i])) continue;
    largest = std::max<Mp100>(largest, abs(b[i])), off = std::max<Mp100>(off, abs(a[i] - b[i]));
  }
  return largest > 0 ? Mp100(off / largest) : off;
}

TEST(ArgumentAnswers, AgreeWithPublishedCases) {
  const std::string path = source_dir() + "/proptests/arguments/cases.json";
  const std::vector<Case> cases = load_cases(path);
  const Json expectations = Json::parse(text_of_file(path))["cases"];
  int refused = 0, compared = 0;
  ASSERT_EQ(cases.size(), 222u);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string id = expectations[i]["id"];
    const Json &expected = expectations[i]["expect"], record = result_record(cases[i], answer_any(cases[i], {}));
    ASSERT_EQ(record["status"], expected["status"]) << id << ": " << record.value("message", "");
    if (expected.contains("row")) {
      EXPECT_EQ(record["row"], expected["row"]) << id;
    }
    if (expected["status"] != "OK") ++refused;
    for (const char* part : {"outputs", "gradients"}) {
      if (!expected.contains(part)) continue;
      for (const auto& [name, tensor] : expected[part].items()) {
        ASSERT_TRUE(record[part].contains(name)) << id << ' ' << name;
        EXPECT_LE(distance(record[part][name], tensor), from_decimal<Mp100>("1e-38")) << id << ' ' << name;
        const std::string bound = (part[0] == 'g' ? "d_" : "") + name;
        EXPECT_TRUE(record["bounds"].contains(bound)) << id << ": no bound of " << bound;
        ++compared;
      }
    }
  }
  EXPECT_EQ(refused, 77);
  EXPECT_GT(compared, 800);
}

}  // namespace
}  // namespace assay::arguments
