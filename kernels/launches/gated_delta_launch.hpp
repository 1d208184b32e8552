#pragma once
// The launches of kernels/programs/gated_delta.hpp on the CPU executor, compiled once for the rooms whose arithmetic it
// is.
#include <array>

#include "kernels/launches/recurrence.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

/// What a rule predicts with, and when: with a key of its own, or the one it writes; `lag` decays behind.
struct ErrorKind {
  bool predicts = false;
  int lag = 0;
};

/// Inputs in the executor's scalar, and what a forward pass keeps for a backward one.
template <class T>
struct GatedDelta {
  const RecurrenceShape& shape;
  Policy policy;
  ChunkSize size;
  ErrorKind kind;
  HostArray<T> q, k, v, p, beta, decay, initial_state;
  bool logs = true;  ///< `decay` holds logs
  T scale;
  HostArray<T> o, final_state, states, inverse, u;
  HostArray<T> to_row, to_error, to_end, totals;  ///< products of decays
  HostArray<T> dq, dk, dp, dbeta, dlog_decay;     ///< the parts of every head, one after another
  HostArray<T> dv, dinitial_state;

  int chunks() const { return imax(1, ceil_div(shape.len, size.tokens)); }
  int blocks() const { return ceil_div(shape.value_dim, size.dim); }

  /// With the arrays that all rooms read as they are, but for the decays and the write strengths.
  GatedDelta(const RecurrenceShape& s, const Problem& problem, const Policy& what, int tile, ErrorKind error);

  /// Blocks of a head: its chunks, and the value columns of each.
  HeadBlocks by_chunk() const { return {chunks() * blocks()}; }
  int items() const { return shape.heads * chunks() * blocks(); }

  void forward();
  /// `more`: parts of dk for each head that another program writes.
  void backward(const Problem& problem, int more = 0);
  Policy sums() const { return launch_policy(policy, 6); }
  Arrays outputs() const { return {{"o", o.array()}, {"final_state", final_state.array()}}; }
  /// Gradients of q, k, v, p and the initial state, the parts of blocks and groups summed.
  Arrays gradients() const;
  HostArray<T> beta_gradient() const { return sum_parts(sums(), "dbeta", "dbeta", dbeta, blocks(), beta); }
  HostArray<T> log_decay_gradient() const {
    return sum_parts(sums(), "dlog_decay", "dlog_decay", dlog_decay, blocks(), decay);
  }
};
extern template struct GatedDelta<double>;
extern template struct GatedDelta<long double>;

/// The answer of a rule whose gates are its inputs.
template <class T>
Answer gated_delta(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile,
                   ErrorKind error) {
  GatedDelta<T> rule(shape, problem, policy, tile, error);
  rule.beta = shape.vector_input<T>(problem.inputs, "beta", shape.heads, shape.len);
  rule.decay = shape.vector_input<T>(problem.inputs, "log_decay", shape.heads, shape.len);
  rule.forward();
  Answer answer{rule.outputs(), {}};
  if (problem.cotangents.empty()) return answer;
  rule.backward(problem);
  answer.gradients = rule.gradients();
  answer.gradients["beta"] = rule.beta_gradient().array();
  answer.gradients["log_decay"] = rule.log_decay_gradient().array();
  return answer;
}

/// The faults of these programs.
inline constexpr std::array gated_delta_mutants{
    Mutant{"decay_index_of_scores", "the decay from write j to output i stops at i - 1", "fla class"},
    Mutant{"decay_index_of_read", "the error is taken on the state on the other side of its decay", "fla class"},
    Mutant{"tail_decay", "the last, ragged chunk decays the state by one gate too few", "fla#1142"},
    Mutant{"beta_of_column", "the triangular system scaled by the beta of the column instead of the row", "catalogue"},
    Mutant{"scores_exclude_self", "j < i instead of j <= i in Q K^T", "catalogue"},
    Mutant{"initial_state_ignored", "the first chunk starts from zero", "FLA naive delta_rule chunk"},
    Mutant{"state_not_carried", "every chunk starts from the initial state", "MDN common-mode reference"},
    Mutant{"scale_twice", "o scaled by twice the scale", "TE#2300 class"},
    Mutant{"head_modulo", "value head h reads query and key head h mod H instead of h div group", "fla#1029"},
    Mutant{"state_in_bf16", "the state accumulates in bf16", "triton#7216 class"},
    Mutant{"inverse_in_bf16", "the triangular inverse substitutes in bf16", "megagdn-pto#74, aiter#4952"},
    Mutant{"final_cotangent_dropped", "backward starts from a zero adjoint state", "FALCON Alg 6 line 20"},
    Mutant{"adjoint_not_decayed", "backward carries the adjoint state to the chunk before without its decay",
           "fla class"},
    Mutant{"dlog_decay_without_state", "dlog_decay without the term of the carried state <S, G>", "fla#1142"},
    Mutant{"dlog_decay_without_errors", "dlog_decay without the term of the triangular system", "fla#1140"},
    Mutant{"dlog_decay_index", "dlog_decay_r misses the read of row r itself", "fla class"},
    Mutant{"dbeta_of_value", "dbeta takes v instead of v minus what the state reads", "fla#1142 class"},
    Mutant{"dk_without_read", "dk without the term of the read K S", "fla#1140 class"},
    Mutant{"dq_scale_twice", "dq's term of the state with twice the scale", "GQA"},
    Mutant{"one_head_of_group", "dq and dk of the first value head of the group only", "GQA"},
};

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
