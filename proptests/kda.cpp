#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/mutants.hpp"
#include "proptests/laws/delta_laws.hpp"
#include "proptests/laws/laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(kda)

namespace assay::laws {
namespace {

std::string equal_channels_are_gated_deltanet(const Room& room, const Problem& problem) {
  return equal_channels_are("gated_deltanet", room, problem);
}

/// Without write strength nothing is written: gated linear attention on values that are zero.
std::string zero_strength_only_decays(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem);
  for (Mp100& x : p.inputs.at("beta").data) x = 0;
  ExactProblem silent = p;
  silent.inputs.erase("beta");
  for (Mp100& x : silent.inputs.at("v").data) x = 0;
  return same(answer(room, p).outputs, answer("gla", silent).outputs, {"o", "final_state"});
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(kda, is_one_chunk)
ASSAY_REFERENCE_OBEYS(kda, closed_gates_are_one_chunk)
ASSAY_REFERENCE_OBEYS(kda, closed_gates_have_gradient_zero)
ASSAY_REFERENCE_OBEYS(kda, value_columns_are_independent)
ASSAY_REFERENCE_OBEYS(kda, gate_gradients_telescope)
ASSAY_REFERENCE_OBEYS(kda, equal_channels_are_gated_deltanet)
ASSAY_REFERENCE_OBEYS(kda, zero_strength_only_decays)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(kda, is_one_chunk, backward_is_the_adjoint)
ASSAY_REFUSES_BAD_INPUTS(kda)

namespace assay {
namespace {

ASSAY_PROPERTY(kda_chunkwise, equal_channels_are_one_gate) { laws::expect_equal_channels_are("gated_deltanet", "kda"); }

TEST(kda_bad_inputs, kinds_of_inputs) {
  EXPECT_EQ(bad_inputs::kinds_of_inputs(listed_room("kda")),
            "log gates: log_decay; optional: initial_state; shared: q k");
}

TEST(kda_bad_inputs, any_strength_is_legal) { EXPECT_EQ(bad_inputs::any_strength_is_legal(listed_room("kda")), ""); }

}  // namespace
}  // namespace assay
