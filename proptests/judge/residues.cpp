#include "judge/sigma/residues.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "judge/sigma/expected.hpp"
#include "oracles/core/room.hpp"
#include "proptests/judge/cases.hpp"
#include "reference/core/rounding.hpp"

namespace assay {
namespace {

/// The sum of x, in the order given, and the product of its first two.
Answer sum_and_product(const Problem& problem, const Policy&, int) {
  const Array& x = problem.inputs.at("x");
  long double sum = 0;
  for (const double term : x.data) sum += term;
  return {{{"product", Array({}, {x.data[0] * x.data[1]})}, {"sum", Array({}, {static_cast<double>(sum)})}}, {}};
}

TEST(Residues, have_the_scale_of_the_terms) {
  KernelForm form = first_form("value_averaging");
  form.run = sum_and_product;
  for (const double scale : {0x1p-300, 1.0, 0x1p300}) {
    Problem p;
    p.inputs["x"] = Array({4}, {-3 * scale, scale, 4 * scale, -2 * scale});
    const double terms = std::sqrt(9.0 + 1 + 16 + 4) * scale * unit_roundoff(Format::fp64);
    EXPECT_NEAR(std::log2(residues(form, p, 0).at("sum").data[0] / terms), 0, 1) << scale;
    p.inputs["x"].data[0] = 0;  // no sum, and nothing to be left
    EXPECT_EQ(residues(form, p, 0).at("product").data[0], 0);
  }
}

/// One token after a tile of sixteen integers is merged with quotients of powers of two, and 17 tokens at once are not:
/// a moment that is zero stays zero in one shape alone, whose fp64 rounds nothing.
TEST(Residues, are_what_tile_shapes_may_differ_by) {
  const Problem problem = drawn({"affine_mesanet", {1, 17, 2, 1, 8, 16, 0}, Format::fp16, Style::integers, 0, {}});
  const KernelForm& form = first_form("affine_mesanet");
  const auto run = [&](int tile) {
    return form.run(problem, Policy::exact(form.sites), tile).outputs.at("final_scatter_vk");
  };
  const Array in_two = run(1), at_once = run(0), left = residues(form, problem, 1).at("final_scatter_vk");
  const Expectation expectation =
      expect(oracle_of(listed_room("affine_mesanet"), problem), {&form, Format::fp64, 1, 1}, problem, 4);
  const auto known =
      std::ranges::find_if(expectation.tensors, [](const auto& t) { return t.first == "final_scatter_vk"; });
  ASSERT_NE(known, expectation.tensors.end());
  int zeros = 0;
  for (std::size_t i = 0; i < left.data.size(); ++i) {
    if (in_two.data[i] != 0 || at_once.data[i] == 0) continue;
    ++zeros;
    EXPECT_LT(std::fabs(at_once.data[i]), known->second.reach[i] * known->second.sigma[i] + known->second.bound[i]);
    EXPECT_LT(std::fabs(at_once.data[i]), left.data[i]);
    EXPECT_LT(left.data[i], 0x1p-44);  // of integers below 2^5, and of 17 tokens
  }
  EXPECT_GT(zeros, 0);
}

}  // namespace
}  // namespace assay
