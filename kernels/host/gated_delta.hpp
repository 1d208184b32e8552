#pragma once
// The launches of kernels/plans/gated_delta.hpp on the CPU, compiled once for the rooms whose arithmetic it is, and the
// faults of its programs.
#include <array>

#include "kernels/host/host_device.hpp"
#include "kernels/plans/gated_delta.hpp"

namespace assay::tile {

#define ASSAY_GATED_DELTA(EXTERN, T, C, D)                                                             \
  EXTERN template struct GatedDeltaPlan<HostTiles<T, C, D>, DeltaRule::decays, HostDevice<T>>;         \
  EXTERN template struct GatedDeltaPlan<HostTiles<T, C, D>, DeltaRule::predicts, HostDevice<T>>;       \
  EXTERN template struct GatedDeltaGradientPlan<HostTiles<T, C, D>, DeltaRule::decays, HostDevice<T>>; \
  EXTERN template struct GatedDeltaGradientPlan<HostTiles<T, C, D>, DeltaRule::predicts, HostDevice<T>>
ASSAY_EACH_SCALAR(ASSAY_GATED_DELTA, extern);

/// The faults of these programs, first those of decays.
inline constexpr std::size_t decay_mutants = 7;
inline constexpr std::array gated_delta_mutants{
    Mutant{"decay_index_of_scores", "the decay from write j to output i stops at i - 1", "fla class"},
    Mutant{"decay_index_of_read", "the error is taken on the state on the other side of its decay", "fla class"},
    Mutant{"tail_decay", "the last, ragged chunk decays the state by one gate too few", "fla#1142"},
    Mutant{"adjoint_not_decayed", "backward carries the adjoint state to the chunk before without its decay",
           "fla class"},
    Mutant{"dlog_decay_without_state", "dlog_decay without the term of the carried state <S, G>", "fla#1142"},
    Mutant{"dlog_decay_without_errors", "dlog_decay without the term of the triangular system", "fla#1140"},
    Mutant{"dlog_decay_index", "dlog_decay_r misses the read of row r itself", "fla class"},
    Mutant{"beta_of_column", "the triangular system scaled by the beta of the column instead of the row", "catalogue"},
    Mutant{"scores_exclude_self", "j < i instead of j <= i in Q K^T", "catalogue"},
    Mutant{"initial_state_ignored", "the first chunk starts from zero", "FLA naive delta_rule chunk"},
    Mutant{"state_not_carried", "every chunk starts from the initial state", "MDN common-mode reference"},
    Mutant{"tail_dropped", "the last, ragged chunk does not reach the state", "aotriton#237"},
    Mutant{"scale_twice", "o scaled by twice the scale", "TE#2300 class"},
    Mutant{"head_modulo", "value head h reads query and key head h mod H instead of h div group", "fla#1029"},
    Mutant{"state_in_bf16", "the state accumulates in bf16", "triton#7216 class"},
    Mutant{"inverse_in_bf16", "the triangular inverse substitutes in bf16", "megagdn-pto#74, aiter#4952"},
    Mutant{"final_cotangent_dropped", "backward starts from a zero adjoint state", "FALCON Alg 6 line 20"},
    Mutant{"adjoint_not_carried", "backward: every chunk starts from the final state's cotangent", "fla class"},
    Mutant{"dbeta_of_value", "dbeta takes v instead of v minus what the state reads", "fla#1142 class"},
    Mutant{"dk_without_read", "dk without the term of the read K S", "fla#1140 class"},
    Mutant{"dq_scale_twice", "dq's term of the state with twice the scale", "GQA"},
    Mutant{"solve_gradient_sign", "the gradient of the triangular system added with the wrong sign",
           "FALCON Alg 8 line 5"},
    Mutant{"one_head_of_group", "dq and dk of the first value head of the group only", "GQA"},
};

}  // namespace assay::tile
