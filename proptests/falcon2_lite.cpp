#include "proptests/core/falcon_laws.hpp"
#include "proptests/core/laws.hpp"
#include "proptests/core/mutants.hpp"

ASSAY_OBEYS(falcon2_lite, chunkwise, stays_within_budget)
ASSAY_OBEYS(falcon2_lite, chunkwise, exact_policy_is_the_oracle)
ASSAY_OBEYS(falcon2_lite, chunkwise, tile_shape_changes_nothing)
ASSAY_OBEYS(falcon2_lite, chunkwise, same_bits_twice)
ASSAY_OBEYS(falcon2_lite, chunkwise, every_element_is_written)
ASSAY_OBEYS(falcon2_lite, chunkwise, the_future_changes_no_bit)
ASSAY_OBEYS(falcon2_lite, chunkwise, heads_are_independent)
ASSAY_OBEYS(falcon2_lite, chunkwise, backward_is_the_adjoint)
ASSAY_OBEYS(falcon2_lite, chunkwise, linear_in_values)
ASSAY_OBEYS(falcon2_lite, chunkwise, reads_are_linear_in_the_query)
ASSAY_OBEYS(falcon2_lite, chunkwise, segments_concatenate)
ASSAY_KILLS_ITS_MUTANTS(falcon2_lite)

namespace assay::laws {
namespace {

std::string is_falcon1(const Room& room, const Problem& problem) {
  const ExactProblem p = exact(problem);
  return same(answer(room, p), answer("falcon1", p));
}

TEST(falcon2_lite_refusals, domains) {
  const Room& room = *find_room("falcon2_lite");
  EXPECT_EQ(bad_inputs::numbers_must_be_finite(room), "");
  EXPECT_EQ(bad_inputs::shapes_must_fit(room), "");
  EXPECT_EQ(bad_inputs::empty_extents(room), "");
  EXPECT_EQ(bad_inputs::heads_must_divide(room), "");
  expect_refusals(
      bad_inputs::good_case(room),
      {{"/inputs/beta/1", "2", Status::domain, 1, "beta[1]: expected a number between 0 and 2, both excluded"},
       {"/inputs/lambda/2", "-1", Status::domain, 2, "lambda[2]: expected a number >= 0"},
       {"/params/decay_floor", "1", Status::domain, -1,
        "decay_floor: expected a number between 0 and 1, both excluded"},
       {"/params/scale", "1", Status::domain, -1, "params.scale: unknown to falcon2_lite"}});
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(falcon2_lite, backward_is_the_adjoint)
ASSAY_REFERENCE_OBEYS(falcon2_lite, heads_are_independent)
ASSAY_REFERENCE_OBEYS(falcon2_lite, linear_in_values)
ASSAY_REFERENCE_OBEYS(falcon2_lite, reads_are_linear_in_the_query)
ASSAY_REFERENCE_OBEYS(falcon2_lite, the_future_is_unseen)
ASSAY_REFERENCE_OBEYS(falcon2_lite, segments_concatenate)
ASSAY_REFERENCE_OBEYS(falcon2_lite, is_unrolled)
ASSAY_REFERENCE_OBEYS(falcon2_lite, is_falcon1)
ASSAY_REFERENCE_OBEYS(falcon2_lite, is_falcon3_of_one_pair)
ASSAY_REFERENCE_OBEYS(falcon2_lite, a_detached_ridge_is_frozen)
ASSAY_REFERENCE_OBEYS(falcon2_lite, a_huge_ridge_only_decays)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(falcon2_lite, backward_is_the_adjoint, is_unrolled)
