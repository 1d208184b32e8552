#include "proptests/core/delta_laws.hpp"
#include "proptests/core/falcon_laws.hpp"

namespace assay::laws {
namespace {

std::string a_constant_stream_is_falcon1(const Room& room, const Problem& problem) {
  return a_constant_stream_needs_no_window(room, problem, "falcon1");
}

/// Section 5: with beta = 1 and eps = lambda = 0 a window of one pair is recalled.
std::string one_pair_is_recalled(const Room& room, const Problem& problem) {
  Problem p = problem;
  p.params["window"] = 1L;
  for (const char* name : {"tail_k", "tail_v"}) p.inputs.erase(name);
  for (const char* name : {"final_tail_k", "final_tail_v"}) p.cotangents.erase(name);
  return the_last_write_is_recalled(room, p);
}

TEST(falcon3_refusals, domains) {
  const Room& room = *find_room("falcon3");
  expect_window_refusals(room);
  expect_refusals(
      windowed_case(room),
      {{"/inputs/beta/1", "2", Status::domain, 1, "beta[1]: expected a number between 0 and 2, both excluded"},
       {"/inputs/lambda/2", "-1", Status::domain, 2, "lambda[2]: expected a number >= 0"},
       {"/params/eps", "-1", Status::domain, -1, "eps: expected a number >= 0"},
       {"/params/decay_floor", "0", Status::domain, -1,
        "decay_floor: expected a number between 0 and 1, both excluded"},
       {"/params/ridge_coupling", "coupled", Status::domain, -1, "params.ridge_coupling: unknown value 'coupled'"}});
}

TEST(falcon3_reference, short_segments) { expect_short_segments(*find_room("falcon3")); }

TEST(falcon3_reference, a_window_wider_than_the_sequence_is_no_window) {
  const Room& room = *find_room("falcon3");
  Json wide = windowed_case(room), all = wide;
  wide["params"]["window"] = 1000;
  all["params"].erase("window");
  const CaseResult a = bad_inputs::result_of(wide), b = bad_inputs::result_of(all);
  ASSERT_EQ(a.message, "");
  EXPECT_EQ(a.answer.outputs, b.answer.outputs);
  EXPECT_EQ(a.answer.gradients, b.answer.gradients);
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(falcon3, backward_is_the_adjoint)
ASSAY_REFERENCE_OBEYS(falcon3, heads_are_independent)
ASSAY_REFERENCE_OBEYS(falcon3, linear_in_values)
ASSAY_REFERENCE_OBEYS(falcon3, reads_are_linear_in_the_query)
ASSAY_REFERENCE_OBEYS(falcon3, the_future_is_unseen)
ASSAY_REFERENCE_OBEYS(falcon3, segments_concatenate)
ASSAY_REFERENCE_OBEYS(falcon3, is_unrolled)
ASSAY_REFERENCE_OBEYS(falcon3, tail_is_the_newest_pairs)
ASSAY_REFERENCE_OBEYS(falcon3, a_constant_stream_is_falcon1)
ASSAY_REFERENCE_OBEYS(falcon3, one_pair_is_recalled)
ASSAY_REFERENCE_OBEYS(falcon3, a_detached_ridge_is_frozen)
ASSAY_REFERENCE_OBEYS(falcon3, features_may_be_rescaled)
ASSAY_REFERENCE_OBEYS(falcon3, keys_may_be_rotated)
ASSAY_REFERENCE_OBEYS(falcon3, value_columns_are_independent)
ASSAY_REFERENCE_OBEYS(falcon3, a_huge_ridge_only_decays)
ASSAY_DEGENERATE_ROWS_OBEY(falcon3, is_unrolled, backward_is_the_adjoint, linear_in_values, segments_concatenate)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(falcon3, backward_is_the_adjoint, is_unrolled)
