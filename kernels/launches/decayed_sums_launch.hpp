#pragma once
// The launches of kernels/programs/decayed_sums.hpp on the CPU executor, compiled once for the rooms whose arithmetic
// it is.
#include <array>

#include "kernels/launches/recurrence.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

/// Parts of the gradients of what heads and blocks share, the parts of every head one after another.
template <class T>
struct GradientParts {
  HostArray<T> dq, dk, dlog_decay;
};

/// Whether there are decays, and whether o holds sums that a denominator will divide.
struct SumKind {
  bool decays = false, divided = false;
};

/// A pass over the chunks of every head: the states before all of them from what each adds (backward: the cotangents of
/// the states after them), and the last one to `end`. Totals have no rows if there are no decays.
template <class T>
HostArray<T> pass_states(const Policy& policy, ChunkSize size, bool backward, int len, const HostArray<T>& start,
                         const HostArray<T>& updates, const HostArray<T>& totals, HostArray<T>& end);

/// Inputs in the executor's scalar, and what a forward pass keeps for a backward one. `decay` has no rows if there are
/// no decays; `scale` has one number for each token of each head.
template <class T>
struct DecayedSums {
  const RecurrenceShape& shape;
  Policy policy;
  ChunkSize size;
  SumKind kind;
  HostArray<T> q, k, v, decay, scale, initial_state;
  bool logs = true;  ///< `decay` holds logs
  HostArray<T> o, final_state, states, totals;
  GradientParts<T> parts;
  HostArray<T> dv, dinitial_state;

  int chunks() const { return imax(1, ceil_div(shape.len, size.tokens)); }
  int blocks() const { return ceil_div(v.cols, size.dim); }

  /// With the arrays that all rooms read as they are.
  DecayedSums(const RecurrenceShape& s, const Problem& problem, const Policy& p, int tile, SumKind what);

  void forward();
  /// Room for the parts of every head, `more` of which another pass writes.
  void make_parts(int more = 0);
  /// Parts are written to `whole`, after `first` others of each head.
  void backward(const HostArray<T>& o_cotangent, const HostArray<T>& final_cotangent, GradientParts<T>& whole,
                int first = 0);
  /// Gradients of q, k, v and the initial state, the parts of blocks and groups summed.
  Arrays gradients() const;
  HostArray<T> log_decay_gradient() const;
  /// Blocks of a head: its chunks, and the value columns of each.
  HeadBlocks by_chunk() const { return {chunks() * blocks()}; }

 private:
  HostArray<T> pass(bool backward, const HostArray<T>& left, const HostArray<T>& right, const HostArray<T>& start,
                    HostArray<T>& end);
};
extern template struct DecayedSums<double>;
extern template struct DecayedSums<long double>;

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

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
