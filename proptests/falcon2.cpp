#include "judge/trial/fault_trials.hpp"
#include "proptests/core/mutants.hpp"
#include "proptests/laws/delta_laws.hpp"
#include "proptests/laws/falcon_laws.hpp"
#include "proptests/laws/laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(falcon2)

namespace assay::laws {
namespace {

ASSAY_PROPERTY(falcon2_chunkwise, tied_gains_are_falcon2_lite) {
  const Subject s = subject(kernel_rooms(), "falcon2", "chunkwise"),
                lite = subject(kernel_rooms(), "falcon2_lite", "chunkwise");
  const LawCase c = *law_cases(s.room, s.form);
  Problem p = s.problem(c), single = p;
  single.mechanism = "falcon2_lite";
  single.inputs.at("beta") = make_one_gate(p.inputs.at("beta"));
  const auto summed = [](Arrays arrays) {
    arrays.at("d_beta") = over_channels(arrays.at("d_beta"));
    return arrays;
  };
  expect_within(summed(flat(s.run(p, Format::exact, c.tile))), flat(lite.run(single, Format::exact, c.tile)),
                summed(allowance(s, p, Format::fp64, c.tile)), 2);
}

/// beta = 1 on a feature without energy and eps = 0: gamma = 1 - lambda / lambda. No gradient divides by it.
TEST(falcon2_chunkwise, a_decay_of_zero_has_its_gradient) {
  const Subject s = subject(kernel_rooms(), "falcon2", "chunkwise");
  Problem p =
      s.room.make({"falcon2", {1, 40, 2, 1, 8, 8, 0}, Format::fp64, Style::normal, 3, {{"alignment", "same_step"}}});
  p.params["eps"] = "0";
  const auto now_and_then = [](Array& a, double x) {
    const auto T = static_cast<std::size_t>(a.shape[1]), width = static_cast<std::size_t>(a.shape[2]);
    for (std::size_t i = 0; i < a.data.size(); ++i)
      if (i / width % T % 16 == 9) a.data[i] = x;
  };
  now_and_then(p.inputs.at("k"), 0), now_and_then(p.inputs.at("beta"), 1);
  for (double& x : p.inputs.at("lambda").data) x = 1;  // 1 / lambda is a double
  const int smallest = smallest_tile(s.form);
  const Expectation e = expect(oracle_of(s.room, p), {&s.form, Format::fp64, smallest, 1}, p, default_draws);
  for (std::size_t t = 0; t < e.tensors.size(); ++t)
    EXPECT_EQ(judge(e.tensors[t].second, e.emulated[t].second).verdict, Verdict::pass) << e.tensors[t].first;
}

/// Section 5: with the gains of the first channel in all, FALCON-1 with those; dbeta sums over channels.
std::string tied_gains_are_falcon1(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem);
  ExactArray& beta = p.inputs.at("beta");
  ExactProblem single = p;
  single.mechanism = "falcon1";
  const auto V = static_cast<std::size_t>(beta.shape[2]);
  single.inputs["beta"] = ExactArray({beta.shape[0], beta.shape[1]});
  for (std::size_t i = 0; i < beta.data.size(); ++i) beta.data[i] = beta.data[i / V * V];
  for (std::size_t i = 0; i < beta.data.size(); i += V) single.inputs["beta"].data[i / V] = beta.data[i];
  ExactAnswer got = answer(room, p);
  ExactArray d_beta({beta.shape[0], beta.shape[1]});
  for (std::size_t i = 0; i < beta.data.size(); ++i) d_beta.data[i / V] += got.gradients.at("beta").data[i];
  got.gradients["beta"] = d_beta;
  return same(got, answer("falcon1", single));
}

TEST(falcon2_refusals, domains) {
  const Room& room = listed_room("falcon2");
  EXPECT_EQ(bad_inputs::numbers_must_be_finite(room), "");
  EXPECT_EQ(bad_inputs::shapes_must_fit(room), "");
  EXPECT_EQ(bad_inputs::empty_extents(room), "");
  EXPECT_EQ(bad_inputs::heads_must_divide(room), "");
  const char* gain = "beta[1][1]: expected a number between 0 and 2, both excluded";
  expect_refusals(
      bad_inputs::good_case(room),
      {{"/inputs/beta/1/1", "0", Status::domain, 1, gain},
       {"/inputs/beta/1/1", "2", Status::domain, 1, gain},
       {"/inputs/beta", Json::parse(R"(["1", "1", "1"])"), Status::domain, -1, "beta: expected 2 axes, got shape [3]"},
       {"/inputs/lambda/2", "-1", Status::domain, 2, "lambda[2]: expected a number >= 0"},
       {"/params/eps", "-1", Status::domain, -1, "eps: expected a number >= 0"},
       {"/params/decay_floor", "1", Status::domain, -1,
        "decay_floor: expected a number between 0 and 1, both excluded"},
       {"/params/sequence_start", false, Status::domain, -1,
        "k_carry: a next_latent continuation (sequence_start false) needs it"}});
}

TEST(falcon2_reference, a_channel_at_its_floor_passes_no_decay_gradient) {
  // S_0 = 2, x = 1, v = 3, D = 2: alpha = beta / 2 is 1/4, at the floor's 1/2, and 3/4. The first channel alone moves
  // the ridge along its decay: dridge = -1/4, deta = 1 - 2; dD = -sum deta eta / D = (1/4 - 1/2 - 3/4) / 2.
  const CaseResult r = bad_inputs::result_of(Json::parse(R"({"id": "a", "mechanism": "falcon2",
    "params": {"alignment": "same_step", "decay_floor": "0.5"}, "inputs": {"q": [["1"]], "k": [["1"]],
    "v": [["3", "3", "3"]], "beta": [["0.5", "1", "1.5"]], "lambda": ["1"], "initial_state": [["2", "2", "2"]]},
    "cotangents": {"o": [["1", "1", "1"]]}})"));
  ASSERT_EQ(r.message, "");
  EXPECT_EQ(doubles(r.answer.outputs, "o"), (std::vector{1.75, 1.5, 1.75}));
  EXPECT_EQ(doubles(r.answer.gradients, "beta"), (std::vector{-0.5, 0.5, 0.5}));
  EXPECT_EQ(doubles(r.answer.gradients, "lambda"), std::vector{-0.5 - 0.5});
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(falcon2, is_unrolled)
ASSAY_REFERENCE_OBEYS(falcon2, tied_gains_are_falcon1)
ASSAY_REFERENCE_OBEYS(falcon2, value_columns_are_independent)
ASSAY_REFERENCE_OBEYS(falcon2, the_last_write_is_recalled)
ASSAY_REFERENCE_OBEYS(falcon2, a_detached_ridge_is_frozen)
ASSAY_REFERENCE_OBEYS(falcon2, features_may_be_rescaled)
ASSAY_REFERENCE_OBEYS(falcon2, keys_may_be_rotated)
ASSAY_REFERENCE_OBEYS(falcon2, a_huge_ridge_only_decays)
ASSAY_DEGENERATE_ROWS_OBEY(falcon2, is_unrolled, backward_is_the_adjoint, linear_in_values, segments_concatenate)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(falcon2, backward_is_the_adjoint, is_unrolled)
