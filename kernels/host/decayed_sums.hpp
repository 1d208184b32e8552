#pragma once
// The launches of kernels/plans/decayed_sums.hpp on the CPU, compiled once for the rooms whose arithmetic it is, and
// the faults of its programs.
#include <array>

#include "kernels/host/host_device.hpp"
#include "kernels/plans/decayed_sums.hpp"

namespace assay::tile {

#define ASSAY_DECAYED_SUMS(EXTERN, T, C, D)                                         \
  EXTERN template struct SumsPlan<HostTiles<T, C, D>, false, false, HostDevice<T>>; \
  EXTERN template struct SumsPlan<HostTiles<T, C, D>, false, true, HostDevice<T>>;  \
  EXTERN template struct SumsPlan<HostTiles<T, C, D>, true, false, HostDevice<T>>;  \
  EXTERN template struct SumsPlan<HostTiles<T, C, D>, true, true, HostDevice<T>>
ASSAY_EACH_SCALAR(ASSAY_DECAYED_SUMS, extern);

/// The faults of these programs,
inline constexpr std::array sum_mutants{
    Mutant{"scores_exclude_self", "j < i instead of j <= i in Q K^T", "catalogue"},
    Mutant{"initial_state_ignored", "the first chunk starts from zero", "FLA naive delta_rule chunk"},
    Mutant{"state_not_carried", "every chunk starts from the initial state", "MDN common-mode reference"},
    Mutant{"scale_twice", "o scaled by twice the scale", "TE#2300 class"},
    Mutant{"head_modulo", "value head h reads query and key head h mod H instead of h div group", "fla#1029"},
    Mutant{"state_in_bf16", "the state accumulates in bf16", "triton#7216 class"},
    Mutant{"final_cotangent_dropped", "backward starts from a zero adjoint state", "FALCON Alg 6 line 20"},
    Mutant{"dv_without_later_reads", "dv without the term of the reads in later chunks", "fla#1140 class"},
    Mutant{"one_head_of_group", "dq and dk of the first value head of the group only", "GQA"},
};
/// and of their decays.
inline constexpr std::array decay_mutants{
    Mutant{"decay_index_of_scores", "the decay from write j to output i stops at i - 1", "fla class"},
    Mutant{"tail_decay", "the last, ragged chunk decays the state by one gate too few", "fla#1142"},
    Mutant{"adjoint_not_decayed", "backward carries the adjoint state to the chunk before without its decay",
           "fla class"},
    Mutant{"dq_not_decayed", "dq's term of the state without the decay up to its token", "fla class"},
    Mutant{"dlog_decay_without_state", "dlog_decay without the term of the carried state <S, G>", "fla#1142"},
    Mutant{"dlog_decay_without_scores", "dlog_decay without the term of the scores", "fla#1140"},
    Mutant{"dlog_decay_index", "dlog_decay_r misses the read of row r itself", "fla class"},
};

}  // namespace assay::tile
