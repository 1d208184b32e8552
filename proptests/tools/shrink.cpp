// A failing case gets small, and still fails. assay check --shrink is in proptests/transcripts/plugin.md and
// kernel.md.
#include "judge/court/shrink.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <string_view>
#include <vector>

#include "judge/trial/kill_table.hpp"
#include "proptests/core/share.hpp"

namespace assay {
namespace {

/// A fault of two heads, and of one with other numbers.
TEST(ShrinkSearch, tries_one_head_of_other_seeds) {
  const CaseSpec failing{"deltanet", {2, 109, 4, 2, 16, 12, 0}, Format::bf16, Style::normal, 11, {}};
  const auto shrunk = [&](const std::function<bool(const CaseSpec&)>& fails) {
    return shrink(failing, true, fails, usual_shrink_runs);
  };
  const Shrunk lucky = shrunk([](const CaseSpec& spec) { return spec.shape.own() > 1 || spec.seed == 13; });
  EXPECT_EQ(lucky.spec.shape, (Shape{1, 1, 1, 0, 1, 1, 0}));
  EXPECT_EQ(lucky.spec.seed, 13U);
  const Shrunk never = shrunk([](const CaseSpec& spec) { return spec.shape.heads > 1; });
  EXPECT_EQ(never.spec.shape.own(), 2);
  EXPECT_EQ(never.spec.seed, 11U);
}

/// One in 97 of the planted faults of all rooms, or more.
TEST(ShrinkFaults, most_get_small) {
  std::vector<ShrinkRow> rows;
  Share share(97);
  const auto shown_in_one_head = [&] { return std::ranges::count_if(rows, &ShrinkRow::shows_in_one_head); };
  while (share.goes_on(shown_in_one_head() >= 3)) {
    const auto more = measure_shrinking(
        {.mechanisms = {}, .precisions = {}, .power = {}}, [&] { return share.takes(); },
        [](std::size_t, std::string_view) {});
    rows.insert(rows.end(), more.begin(), more.end());
  }
  int small = 0, shown = 0;
  std::vector<int> runs;
  for (const ShrinkRow& row : rows) {
    runs.push_back(row.runs);
    small += row.small ? 1 : 0, shown += row.shows_in_one_head ? 1 : 0;
    if (!row.small)
      std::cout << row.room << ' ' << row.form << ' ' << row.mutant << ": " << row.smallest.repro() << '\n';
  }
  std::cout << small << " of " << rows.size() << " faults, of " << shown
            << " that one head shows, come down to one head, two chunks and 16 dimensions\n";
  std::sort(runs.begin(), runs.end());
  std::cout << "runs: " << runs[runs.size() / 2] << " in the median, " << runs.back() << " at most\n";
  EXPECT_LT(runs.back(), usual_shrink_runs);
  EXPECT_GE(shown, 3);
  EXPECT_GE(10 * small, 9 * shown);
}

}  // namespace
}  // namespace assay
