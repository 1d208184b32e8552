#pragma once
// The first-order family (delta-family.md 3.1, forward) in two, three or four words with a proven bound on every
// output:
//
//   R_t = D_t S_{t-1},  D_t = exp(log_decay_t)
//   e_t = v_t - R_t^T p_t (decayed)  |  v_t - S_{t-1}^T p_t (undecayed)  |  v_t (none)
//   S_t = R_t + beta_t k_t e_t^T,   o_t = scale S_t^T q_t
//
//   linear_attention, retnet, mamba2, gla: none     deltanet, gated_deltanet, kda: decayed, p = k     comba: undecayed
#include <span>

#include "oracles/multiword/certified.hpp"
#include "oracles/multiword/number.hpp"

namespace assay::words {

/// One head; row-major; taken as exact. All magnitudes below 2^200, T <= 2^24, K <= 2^12.
struct DeltaProblem {
  std::size_t steps = 0, keys = 0, values = 0;
  std::span<const double> q, k, v;        ///< [T, K], [T, K], [T, V]
  std::span<const double> p;              ///< [T, K] prediction key; k if empty
  std::span<const double> beta;           ///< [T]; 1 if empty
  std::span<const double> log_decay;      ///< [T] or [T, K], <= 0, -inf allowed; no decay if empty
  std::span<const double> initial_state;  ///< [K, V]; 0 if empty
  DeltaError error = DeltaError::decayed;
  Factor scale = exactly(1);
};

struct DeltaAnswer {
  Certified o;            ///< [T, V], a bound per element
  Certified final_state;  ///< [K, V], one bound per column
};

/// Throws InputError if a span has the wrong length or an extent or magnitude is out of range.
DeltaAnswer delta_forward(const DeltaProblem& problem, const Effort& effort);

}  // namespace assay::words
