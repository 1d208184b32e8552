#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/mutants.hpp"
#include "proptests/laws/delta_laws.hpp"
#include "proptests/laws/laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(comba)

namespace assay::laws {
namespace {

/// p = k is gated DeltaNet with the error of the undecayed state, whose dk is the sum of dk and dp (I5).
std::string own_keys_are_the_undecayed_error(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem), gated = p;
  p.inputs.at("p") = p.inputs.at("k");
  gated.inputs.erase("p");
  gated.params["error"] = "undecayed";
  ExactAnswer got = answer(room, p);
  got.gradients.at("k") = sum(got.gradients.at("k"), got.gradients.at("p"));
  got.gradients.erase("p");
  return same(got, answer("gated_deltanet", gated));
}

/// p = alpha k is gated DeltaNet with the error of the decayed state (I16); p carries a gradient to k and to the gate.
std::string decayed_keys_are_the_decayed_error(const Room& room, const Problem& problem) {
  ExactProblem p = ungrouped(exact(problem)), gated = p;
  const ExactArray alpha = mapped(p.inputs.at("log_decay"), [](const Mp100& g) { return Mp100(exp(g)); });
  p.inputs.at("p") = scaled_rows(p.inputs.at("k"), alpha);
  gated.inputs.erase("p");
  ExactAnswer got = answer(room, p);
  const ExactArray dp = got.gradients.at("p");
  got.gradients.at("k") = sum(got.gradients.at("k"), scaled_rows(dp, alpha));
  got.gradients.at("log_decay") = sum(got.gradients.at("log_decay"), row_products(p.inputs.at("p"), dp));
  got.gradients.erase("p");
  return same(got, answer("gated_deltanet", gated));
}

/// p = 0 predicts nothing: Mamba-2 on values beta v (I15).
std::string no_prediction_is_mamba2(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem), plain = p;
  for (Mp100& x : p.inputs.at("p").data) x = 0;
  plain.inputs.erase("p");
  plain.inputs.erase("beta");
  plain.inputs.at("v") = scaled_rows(p.inputs.at("v"), p.inputs.at("beta"));
  const ExactAnswer got = answer(room, p), want = answer("mamba2", plain);
  if (std::string s = same(got.outputs, want.outputs, {"o", "final_state"}); !s.empty()) return s;
  return same(got.gradients, want.gradients, {"q", "k", "log_decay", "initial_state"});
}

std::string written_keys_scale_like_the_strength(const Room& room, const Problem& problem) {
  return written_keys_scale_like("beta", room, problem);
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(comba, is_one_chunk)
ASSAY_REFERENCE_OBEYS(comba, closed_gates_are_one_chunk)
ASSAY_REFERENCE_OBEYS(comba, closed_gates_have_gradient_zero)
ASSAY_REFERENCE_OBEYS(comba, keys_may_be_rotated)
ASSAY_REFERENCE_OBEYS(comba, value_columns_are_independent)
ASSAY_REFERENCE_OBEYS(comba, channels_may_be_rescaled)
ASSAY_REFERENCE_OBEYS(comba, gate_gradients_telescope)
ASSAY_REFERENCE_OBEYS(comba, written_keys_scale_like_the_strength)
ASSAY_REFERENCE_OBEYS(comba, own_keys_are_the_undecayed_error)
ASSAY_REFERENCE_OBEYS(comba, decayed_keys_are_the_decayed_error)
ASSAY_REFERENCE_OBEYS(comba, no_prediction_is_mamba2)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(comba, is_one_chunk, backward_is_the_adjoint)
ASSAY_REFUSES_BAD_INPUTS(comba)

namespace assay {
namespace {

TEST(comba_bad_inputs, kinds_of_inputs) {
  EXPECT_EQ(bad_inputs::kinds_of_inputs(listed_room("comba")),
            "log gates: log_decay; optional: initial_state; shared: q k p");
}

TEST(comba_bad_inputs, any_strength_is_legal) {
  EXPECT_EQ(bad_inputs::any_strength_is_legal(listed_room("comba")), "");
}

}  // namespace
}  // namespace assay
