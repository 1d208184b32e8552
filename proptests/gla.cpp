#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/mutants.hpp"
#include "proptests/laws/delta_laws.hpp"
#include "proptests/laws/laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(gla)

namespace assay::laws {
namespace {

std::string equal_channels_are_mamba2(const Room& room, const Problem& problem) {
  return equal_channels_are("mamba2", room, problem);
}

/// Without decay it is linear attention (I14).
std::string open_gates_are_linear_attention(const Room& room, const Problem& problem) {
  ExactProblem p = exact(problem);
  for (Mp100& x : p.inputs.at("log_decay").data) x = 0;
  ExactProblem plain = p;
  plain.inputs.erase("log_decay");
  ExactAnswer got = answer(room, p);
  got.gradients.erase("log_decay");
  return same(got, answer("linear_attention", plain));
}

}  // namespace
}  // namespace assay::laws

ASSAY_REFERENCE_OBEYS(gla, is_one_chunk)
ASSAY_REFERENCE_OBEYS(gla, closed_gates_are_one_chunk)
ASSAY_REFERENCE_OBEYS(gla, closed_gates_have_gradient_zero)
ASSAY_REFERENCE_OBEYS(gla, value_columns_are_independent)
ASSAY_REFERENCE_OBEYS(gla, channels_may_be_rescaled)
ASSAY_REFERENCE_OBEYS(gla, gate_gradients_telescope)
ASSAY_REFERENCE_OBEYS(gla, equal_channels_are_mamba2)
ASSAY_REFERENCE_OBEYS(gla, open_gates_are_linear_attention)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(gla, is_one_chunk, backward_is_the_adjoint)
ASSAY_REFUSES_BAD_INPUTS(gla)

namespace assay {
namespace {

ASSAY_PROPERTY(gla_chunkwise, equal_channels_are_one_gate) { laws::expect_equal_channels_are("mamba2", "gla"); }

TEST(gla_bad_inputs, kinds_of_inputs) {
  EXPECT_EQ(bad_inputs::kinds_of_inputs(listed_room("gla")),
            "log gates: log_decay; optional: initial_state; shared: q k");
}

}  // namespace
}  // namespace assay
