#include "proptests/core/mutants.hpp"
#include "proptests/laws/delta_laws.hpp"
#include "proptests/laws/falcon_laws.hpp"
#include "proptests/laws/laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(falcon1)

ASSAY_REFERENCE_OBEYS(falcon1, is_unrolled)
ASSAY_REFERENCE_OBEYS(falcon1, is_falcon3_of_one_pair)
ASSAY_REFERENCE_OBEYS(falcon1, without_ridge_it_is_deltanet)
ASSAY_REFERENCE_OBEYS(falcon1, the_last_write_is_recalled)
ASSAY_REFERENCE_OBEYS(falcon1, a_detached_ridge_is_frozen)
ASSAY_REFERENCE_OBEYS(falcon1, features_may_be_rescaled)
ASSAY_REFERENCE_OBEYS(falcon1, keys_may_be_rotated)
ASSAY_REFERENCE_OBEYS(falcon1, value_columns_are_independent)
ASSAY_REFERENCE_OBEYS(falcon1, a_huge_ridge_only_decays)
ASSAY_DEGENERATE_ROWS_OBEY(falcon1, is_unrolled, backward_is_the_adjoint, linear_in_values, segments_concatenate)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(falcon1, backward_is_the_adjoint, is_unrolled)

namespace assay::laws {
namespace {

using bad_inputs::changed;
using bad_inputs::good_case;
using bad_inputs::result_of;

TEST(falcon1_refusals, values_and_shapes) {
  const Room& room = listed_room("falcon1");
  EXPECT_EQ(bad_inputs::numbers_must_be_finite(room), "");
  EXPECT_EQ(bad_inputs::shapes_must_fit(room), "");
  EXPECT_EQ(bad_inputs::empty_extents(room), "");
  EXPECT_EQ(bad_inputs::heads_must_divide(room), "");
}

TEST(falcon1_refusals, domains) {
  const char *gain = "beta[1]: expected a number between 0 and 2, both excluded",
             *floor = "decay_floor: expected a number between 0 and 1, both excluded";
  const Json k = Json::parse(R"(["1", "2"])");
  expect_refusals(
      good_case(listed_room("falcon1")),
      {{"/inputs/beta/1", "0", Status::domain, 1, gain},
       {"/inputs/beta/1", "2", Status::domain, 1, gain},
       {"/inputs/beta/1", "-0.5", Status::domain, 1, gain},
       {"/inputs/beta/0", "2.5", Status::domain, 0, "beta[0]: expected a number between 0 and 2, both excluded"},
       {"/inputs/lambda/2", "-1e-30", Status::domain, 2, "lambda[2]: expected a number >= 0"},
       {"/params/eps", "-1e-30", Status::domain, -1, "eps: expected a number >= 0"},
       {"/params/decay_floor", "0", Status::domain, -1, floor},
       {"/params/decay_floor", "1", Status::domain, -1, floor},
       {"/params/decay_floor", "nan", Status::nonfinite, -1, "params.decay_floor: not a finite number"},
       {"/params/ridge_coupling", "raw", Status::domain, -1, "params.ridge_coupling: unknown value 'raw'"},
       {"/params/alignment", "shifted", Status::domain, -1, "params.alignment: unknown value 'shifted'"},
       {"/params/window", 2, Status::domain, -1, "params.window: unknown to falcon1"},
       {"/params/scale", "1", Status::domain, -1, "params.scale: unknown to falcon1"},
       {"/params/sequence_start", false, Status::domain, -1,
        "k_carry: a next_latent continuation (sequence_start false) needs it"},
       {"/inputs/k_carry", k, Status::domain, -1,
        "k_carry: only a next_latent continuation (sequence_start false) takes it"}});
}

TEST(falcon1_refusals, the_first_offending_row_is_named) {
  Json record = changed(good_case(listed_room("falcon1")), "/inputs/beta/2", "0");
  record["inputs"]["lambda"][1] = "-1";
  EXPECT_EQ(bad_inputs::refusal(record, Status::domain, 1, "lambda[1]: expected a number >= 0"), "");
}

TEST(falcon1_refusals, what_is_legal) {
  const Json good = good_case(listed_room("falcon1"));
  // gamma = 1 - eta lambda may be negative where no floor asks otherwise.
  for (const auto& [place, value] :
       {std::pair{"/inputs/lambda/1", "1e6"}, {"/inputs/lambda/1", "0"}, {"/params/eps", "0"}})
    EXPECT_EQ(result_of(changed(good, place, value)).message, "") << place;
  EXPECT_EQ(
      result_of(changed(changed(good, "/params/alignment", "same_step"), "/params/sequence_start", false)).message, "");
}

/// One key and one value channel, one token that writes: S_0 = 2, x = 1, v = 3, D = 2, eta = beta / 2, alpha = 1/2.
Json one_step(const char* floor, const char* lambda = "1", const char* beta = "1") {
  Json record = Json::parse(R"({"id": "a", "mechanism": "falcon1", "params": {"alignment": "same_step"},
    "inputs": {"q": [["1"]], "k": [["1"]], "v": [["3"]], "initial_state": [["2"]]}, "cotangents": {"o": [["1"]]}})");
  record["inputs"]["beta"] = Json::array({beta});
  record["inputs"]["lambda"] = Json::array({lambda});
  if (floor != nullptr) record["params"]["decay_floor"] = floor;
  return record;
}

/// With G = e = r = 1: dbeta = deta / D, dlambda = dridge + dD, dk = eta (G r - S_0 e) + 2 dD x, by hand.
void expect_step(const Json& record, double o, double d_beta, double d_lambda, double d_k) {
  const CaseResult r = result_of(record);
  ASSERT_EQ(r.message, "");
  EXPECT_EQ(doubles(r.answer.outputs, "o")[0], o);
  EXPECT_EQ(doubles(r.answer.gradients, "beta")[0], d_beta);
  EXPECT_EQ(doubles(r.answer.gradients, "lambda")[0], d_lambda);
  EXPECT_EQ(doubles(r.answer.gradients, "k")[0], d_k);
}

TEST(falcon1_reference, a_clamped_decay_and_a_tie_pass_no_gradient) {
  expect_step(one_step(nullptr), 1.5, -0.5, -0.75, 0);  // alpha's way: deta = 1 - 2, dridge = -1, dD = 1/4
  expect_step(one_step("0.25"), 1.5, -0.5, -0.75, 0);   // not reached
  expect_step(one_step("0.5"), 1.5, 0.5, -0.25, -1);    // the tie: deta = 1, dridge = 0, dD = -1/4
  expect_step(one_step("0.75"), 2, 0.5, -0.25, -1);     // gamma = 3/4: S_1 = 3/2 + 1/2
}

TEST(falcon1_reference, no_energy_and_no_ridge_is_a_no_op) {
  Json record = changed(one_step(nullptr, "0"), "/inputs/k/0/0", "0");
  expect_step(record, 2, 0, 0, 0);
  EXPECT_EQ(doubles(result_of(record).answer.gradients, "v")[0], 0);
  // With a ridge, alpha = lambda / (lambda + eps) = 1/2 still decays: deta = -2, dridge = -1, dD = 1/2, and dk = eta v.
  record["inputs"]["lambda"][0] = "1", record["params"]["eps"] = "1";
  expect_step(record, 1, -1, -0.5, 1.5);
}

TEST(falcon1_reference, a_huge_ridge_turns_the_state_round) {
  // D = 4, eta = 3/8, alpha = 9/8: S_1 = -2/8 + 3/8.
  EXPECT_EQ(doubles(result_of(one_step(nullptr, "3", "1.5")).answer.outputs, "o")[0], 0.125);
}

TEST(falcon1_reference, the_start_row_only_reads) {
  Json record = good_case(listed_room("falcon1"), {.T = 1});
  const CaseResult r = result_of(record);
  ASSERT_EQ(r.message, "");
  EXPECT_EQ(doubles(r.answer.outputs, "final_state"), (std::vector{0.25, 0.5, 0.75, 0.25}));
  for (const char* name : {"k", "v", "beta", "lambda"})
    for (const double x : doubles(r.answer.gradients, name)) EXPECT_EQ(x, 0) << name;
  // dq = S_0 do.
  EXPECT_EQ(doubles(r.answer.gradients, "q"), (std::vector{0.25 * 0.25 + 0.5 * 0.5, 0.75 * 0.25 + 0.25 * 0.5}));
}

}  // namespace
}  // namespace assay::laws
