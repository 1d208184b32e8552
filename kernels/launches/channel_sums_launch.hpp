#pragma once
// The launches of kernels/programs/channel_sums.hpp on the CPU executor, compiled once for the rooms whose arithmetic
// it is.
#include <array>

#include "kernels/launches/recurrence.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

/// What is written where it is not the values themselves: errors. Their gradients, and the strengths.
template <class T>
struct WrittenErrors {
  const HostArray<T>&u, &gradients, &beta;
};

/// Inputs in the executor's scalar, and what a forward pass keeps for a backward one. Launches 1 and 4, the passes over
/// the states, are the room's own.
template <class T>
struct ChannelSums {
  const RecurrenceShape& shape;
  Policy policy;
  ChunkSize size;
  int chunks, blocks;  ///< of a head: its chunks, and the value columns of each
  HostArray<T> q, k, v, log_decay, scale, initial_state;
  HostArray<T> o, final_state, states, totals;
  HostArray<T> updates, du, adjoints;
  HostArray<T> dq, dk, dlog_decay, dbeta;  ///< the parts of every head, one after another
  HostArray<T> dv, dinitial_state;

  ChannelSums(const RecurrenceShape& s, const Problem& problem, const Policy& p, int tile);

  Policy launch(int number) const { return launch_policy(policy, number); }
  HeadBlocks by_chunk() const { return {chunks * blocks}; }
  HeadBlocks by_block() const { return {blocks}; }
  int items() const { return shape.heads * chunks * blocks; }

  /// What the values add to the state in every chunk, and the total decays.
  void write();
  /// o, when the states and what is written are known.
  void read(const HostArray<T>& u);
  /// What the cotangents of o give those of the states and of what is written.
  void read_backward(const HostArray<T>& o_cotangent);
  /// Gradients, when the adjoints are known too.
  void differentiate(const HostArray<T>& o_cotangent, const WrittenErrors<T>* errors = nullptr);

  Arrays outputs() const;
  /// Gradients of what both rooms read, the parts of blocks and groups summed.
  Arrays gradients() const;
};
extern template struct ChannelSums<double>;
extern template struct ChannelSums<long double>;

/// The faults of these programs.
inline constexpr std::array channel_mutants{
    Mutant{"decay_index_of_scores", "the decay from write j to output i stops at i - 1", "fla class"},
    Mutant{"tail_decay", "the last, ragged chunk decays the state by one gate too few", "fla#1142"},
    Mutant{"scores_exclude_self", "j < i instead of j <= i in Q K^T", "catalogue"},
    Mutant{"initial_state_ignored", "the first chunk starts from zero", "FLA naive delta_rule chunk"},
    Mutant{"state_not_carried", "every chunk starts from the initial state", "MDN common-mode reference"},
    Mutant{"scale_forgotten", "o not scaled", "TE#2300 class"},
    Mutant{"head_modulo", "value head h reads query and key head h mod H instead of h div group", "fla#1029"},
    Mutant{"state_in_bf16", "the state accumulates in bf16", "triton#7216 class"},
    Mutant{"final_cotangent_dropped", "backward starts from a zero adjoint state", "FALCON Alg 6 line 20"},
    Mutant{"adjoint_not_decayed", "backward carries the adjoint state to the chunk before without its decay",
           "fla class"},
    Mutant{"dq_not_decayed", "dq's term of the state without the decay up to its token", "fla class"},
    Mutant{"dlog_decay_without_state", "dlog_decay without the term of the carried state <S, G>", "fla#1142"},
    Mutant{"one_head_of_group", "dq and dk of the first value head of the group only", "GQA"},
};

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
