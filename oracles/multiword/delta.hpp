#pragma once
// The first-order family (delta-family.md 3.1 and 3.2) in two, three or four words with a proven bound on every
// output:
//
//   R_t = D_t S_{t-1},  D_t = exp(log_decay_t)
//   e_t = v_t - R_t^T k_t (decayed)  |  v_t - S_{t-1}^T k_t (undecayed)  |  v_t (none)
//   S_t = R_t + beta_t k_t e_t^T,   o_t = scale S_t^T q_t
//
//   linear_attention, mamba2, gla: none     deltanet, kda: decayed     gated_deltanet: decayed or undecayed
#include "oracles/multiword/certified.hpp"
#include "oracles/multiword/delta_problem.hpp"

namespace assay::words {

struct DeltaAnswer {
  Certified o;            ///< [T, V], a bound per element
  Certified final_state;  ///< [K, V], one bound per column
};

/// The gradients of <o, cotangent> + <final state, cotangent>, and the answer itself.
struct DeltaGradients {
  DeltaAnswer answer;
  Certified q, k, v;        ///< [T, K], [T, K], [T, V]; k: of both its parts, where it predicts
  Certified beta;           ///< [T, 1]
  Certified log_decay;      ///< [T, 1] or [T, K] as given; nothing without decay
  Certified initial_state;  ///< [K, V], one bound per column
};

/// Throws InputError if a span has the wrong length or an extent or magnitude is out of range.
DeltaAnswer delta_forward(const DeltaProblem& problem, const Effort& effort);
/// The same answer with the gradients. States are kept every sqrt(T) steps, and those between computed again.
DeltaGradients delta_backward(const DeltaProblem& problem, const DeltaCotangent& cotangent, const Effort& effort);

}  // namespace assay::words
