// assay check --sample: which parts are chosen, and how often a fault is missed. The verdicts on them are in
// proptests/transcripts/sample.md.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "files/sampled_parts.hpp"

namespace assay {
namespace {

/// As often as the report says.
TEST(Sample, misses_as_often_as_it_says) {
  SampledParts parts{4, 5};
  for (const int count : {1, 2, 5, 20}) {
    for (const int faulty : {1, 7}) {
      int missed = 0;
      constexpr int seeds = 4000;
      for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        parts.choose(count, seed);
        std::set<int> chosen;
        for (const auto& part : parts.chosen) chosen.insert(part.sequence * 5 + part.group);
        ASSERT_EQ(chosen.size(), static_cast<std::size_t>(count));
        ASSERT_TRUE(count == 1 || chosen.contains(19));
        missed += *chosen.begin() >= faulty ? 1 : 0;
      }
      const double p = parts.miss(faulty), spread = std::sqrt(p * (1 - p) / seeds);
      EXPECT_NEAR(missed / double{seeds}, p, 5 * spread) << count << ' ' << faulty;
    }
  }
}

/// Which rows are judged does not hang on which part is: of 4 blocks and 4 parts all pairs are met.
TEST(Sample, chooses_rows_apart_from_parts) {
  SampledParts parts{2, 2};
  parts.tokens = 40;
  std::set<std::pair<int, int>> pairs;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    parts.choose(1, seed);
    parts.choose_rows(10);
    pairs.emplace(parts.chosen.front().sequence * 2 + parts.chosen.front().group, parts.first_row);
  }
  EXPECT_EQ(pairs.size(), 16U);
}

}  // namespace
}  // namespace assay
