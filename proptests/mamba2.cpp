#include "proptests/core/bad_inputs.hpp"
#include "proptests/core/mutants.hpp"
#include "proptests/laws/delta_laws.hpp"
#include "proptests/laws/laws.hpp"

ASSAY_KILLS_ITS_MUTANTS(mamba2)

namespace assay::laws {
namespace {

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

ASSAY_REFERENCE_OBEYS(mamba2, is_one_chunk)
ASSAY_REFERENCE_OBEYS(mamba2, closed_gates_are_one_chunk)
ASSAY_REFERENCE_OBEYS(mamba2, closed_gates_have_gradient_zero)
ASSAY_REFERENCE_OBEYS(mamba2, keys_may_be_rotated)
ASSAY_REFERENCE_OBEYS(mamba2, value_columns_are_independent)
ASSAY_REFERENCE_OBEYS(mamba2, channels_may_be_rescaled)
ASSAY_REFERENCE_OBEYS(mamba2, gate_gradients_telescope)
ASSAY_REFERENCE_OBEYS(mamba2, open_gates_are_linear_attention)
ASSAY_REFERENCE_KILLS_ITS_FAULTS(mamba2, is_one_chunk, backward_is_the_adjoint)
ASSAY_REFUSES_BAD_INPUTS(mamba2)

namespace assay {
namespace {

TEST(mamba2_bad_inputs, kinds_of_inputs) {
  EXPECT_EQ(bad_inputs::kinds_of_inputs(listed_room("mamba2")),
            "log gates: log_decay; optional: initial_state; shared: q k");
}

}  // namespace
}  // namespace assay
