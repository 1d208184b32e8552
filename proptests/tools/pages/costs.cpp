// The costs of a check and their estimate. proptests/transcripts/check.md shows the estimate, lab.md the costs.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "files/input_file.hpp"
#include "proptests/core/places.hpp"
#include "tools/bench/bench_check.hpp"
#include "tools/cases/check_costs.hpp"

namespace assay {
namespace {

/// Costs of every room that is checked, in their order, with shares that make a whole.
TEST(Costs, are_known_of_every_room) {
  std::vector<const Room*> checked;
  std::copy_if(rooms().begin(), rooms().end(), std::back_inserter(checked),
               [](const Room* r) { return has_check_cost(*r); });
  ASSERT_EQ(check_costs().size(), checked.size());
  for (std::size_t i = 0; i < checked.size(); ++i) {
    const CheckCost& cost = check_costs()[i];
    EXPECT_EQ(cost.mechanism, checked[i]->name) << "assay-lab bench check --docs -o tools/cases/check_costs.cpp";
    EXPECT_GT(cost.linear + cost.quadratic, 0) << cost.mechanism;
    EXPECT_NEAR(cost.reading + cost.truth + cost.draws + cost.judging, 1, 0.03) << cost.mechanism;
  }
}

/// An estimate is about heads, tokens, dimensions and gradients, and within a factor of ten of what was measured just
/// now, on whatever machine and beside whatever load: `assay-lab bench check` says by how much it is off.
TEST(Costs, are_estimated) {
  const Shape shape{1, 256, 4, 0, 64, 64, 0};
  const auto seconds = [&](Shape other, bool gradients) {
    return check_estimate("gated_deltanet", other, gradients, 1000).value().of(1);
  };
  Shape longer = shape, wider = shape, narrower = shape, more = shape;
  longer.seq_len *= 2, wider.key_dim = wider.value_dim = 128, more.batch = 3;
  narrower.key_dim = narrower.value_dim = 32;
  EXPECT_GT(seconds(longer, true), 1.9 * seconds(shape, true));
  EXPECT_GT(seconds(wider, true), seconds(shape, true));
  EXPECT_LT(seconds(narrower, true), seconds(shape, true));
  EXPECT_GT(3 * seconds(narrower, true), seconds(shape, true));  // twice, as d is half: no higher power below 64
  EXPECT_DOUBLE_EQ(seconds(more, true), 3 * seconds(shape, true));
  EXPECT_LT(seconds(shape, false), seconds(shape, true));
  EXPECT_FALSE(check_estimate("nobody", shape, true, 1000).has_value());
  const double measured = measure_check(listed_room("gated_deltanet"), shape, true, 1).processor;
  const double estimate = machine_factor() * seconds(shape, true);
  EXPECT_GT(10 * estimate, measured);
  EXPECT_LT(estimate, 10 * measured);
}

/// The page shows what is said of that case.
TEST(Costs, are_on_the_page_of_check) {
  const Shape shape{2, 4096, 8, 0, 128, 128, 0};
  const std::size_t numbers = std::size_t{4} * 2 * 8 * 4096 * 128;  // q, k, v and d_o
  const Estimate cost = check_estimate("softmax_attention", shape, true, numbers).value();
  const std::string line = "assay: " + cost_sentence(cost, 16, 16, 2, true) + '\n';
  EXPECT_NE(read_text(source_dir() + "/docs/check.md").find(line), std::string::npos) << line;
}

}  // namespace
}  // namespace assay
