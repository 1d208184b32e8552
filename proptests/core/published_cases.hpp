#pragma once
// Cases with the digits that another implementation gives, and how far our answers are from them.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "files/case_file.hpp"
#include "files/input_file.hpp"
#include "oracles/scalars/scalar.hpp"

namespace assay {

/// Cases, and the records they are read from, which say what is expected.
struct PublishedCases {
  std::vector<Case> cases;
  Json records;
};
inline PublishedCases published_cases(const std::string& path) {
  std::ifstream file(path);
  return {load_cases(path), Json::parse(file)["cases"]};
}

/// The largest difference of the numbers of two nested lists, and the largest of the second; false where they have not
/// the same shape, or something that is no number is not the same.
inline bool compare(const Json& got, const Json& expected, Mp100& off, Mp100& largest) {
  if (expected.is_array())
    return got.is_array() && std::equal(got.begin(), got.end(), expected.begin(), expected.end(),
                                        [&](const Json& a, const Json& b) { return compare(a, b, off, largest); });
  const auto is_finite = [](const Json& x) {
    return x.is_string() && !x.get<std::string>().ends_with("inf") && x.get<std::string>() != "nan";
  };
  if (!is_finite(got) || !is_finite(expected)) return got == expected;
  const auto a = from_decimal<Mp100>(got.get<std::string>()), b = from_decimal<Mp100>(expected.get<std::string>());
  off = std::max<Mp100>(off, abs(a - b)), largest = std::max<Mp100>(largest, abs(b));
  return true;
}
/// Distance from `expected` relative to its largest number; 1 where shapes differ, or what is no number.
inline Mp100 distance(const Json& got, const Json& expected) {
  Mp100 off = 0, largest = 0;
  if (!compare(got, expected, off, largest)) return 1;
  return largest > 0 ? Mp100(off / largest) : off;
}

/// Expects what the record says of the case: status, row, and 38 of 40 digits of every tensor, with a bound. `compared`
/// counts tensors; our own record.
inline Json expect_published(const Case& c, const Json& record, int& compared) {
  const std::string id = record["id"];
  const Json& expected = record["expect"];
  Json got = result_record(c, answer_case(c, {}));
  EXPECT_EQ(got["status"], expected["status"]) << id << ": " << got.value("message", "");
  if (expected.contains("row")) {
    EXPECT_EQ(got.value("row", -1), expected["row"]) << id;
  }
  for (const std::string part : {"outputs", "gradients"}) {
    if (!expected.contains(part)) continue;
    for (const auto& [name, tensor] : expected[part].items()) {
      const std::string key = (part == "gradients" ? "d_" : "") + name;
      EXPECT_LE(distance(got[part].value(name, Json()), tensor), from_decimal<Mp100>("1e-38")) << id << ' ' << key;
      const bool is_of_rows = name.starts_with("rows.") || name.starts_with("diagnostics.");
      EXPECT_TRUE(is_of_rows || got.value("bounds", Json::object()).contains(key)) << id << ": no bound of " << key;
      ++compared;
    }
  }
  return got;
}

}  // namespace assay
