#pragma once
// The launches of kernels/core/decayed_sums.hpp on the CPU executor, shared by the rooms whose arithmetic it is.
#include <array>
#include <utility>

#include "kernels/core/decayed_sums.hpp"
#include "kernels/core/recurrence.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

/// Inputs in the executor's scalar, and what a forward pass keeps for a backward one. `decay` has no rows if there are
/// no decays; `scale` has one number for each token of each head. `Divided`: o holds sums that a denominator will
/// divide.
template <class T, int C, int D, bool Decays, bool Divided = false>
struct DecayedSums {
  const RecurrenceShape& shape;
  Policy policy;
  HostArray<T> q, k, v, decay, scale, initial_state;
  bool logs = true;  ///< `decay` holds logs
  HostArray<T> o, final_state, states;
  HostArray<T> dq, dk, dlog_decay;  ///< the parts of every head, one after another
  HostArray<T> dv, dinitial_state;

  static constexpr int stages = 2;
  int chunks() const { return imax(1, ceil_div(shape.len, C)); }
  int blocks() const { return ceil_div(v.cols, D); }

  /// With the arrays that all rooms read as they are.
  DecayedSums(const RecurrenceShape& s, const Problem& problem, const Policy& p)
      : shape(s),
        policy(p),
        q(s.input<T>(problem.inputs, "q", s.shared_heads, s.len, s.key_dim)),
        k(s.input<T>(problem.inputs, "k", s.shared_heads, s.len, s.key_dim)),
        v(s.input<T>(problem.inputs, "v", s.heads, s.len, s.value_dim)),
        decay(s.output<T>(s.heads, Decays ? s.len : 0, 1)),
        scale(s.output<T>(s.heads, s.len, 1)),
        initial_state(s.input<T>(problem.inputs, "initial_state", s.heads, s.key_dim, s.value_dim)) {
    std::fill(scale.data.begin(), scale.data.end(), s.scale<T>(problem, p));
  }

  void forward() {
    o = shape.output<T>(shape.heads, shape.len, v.cols);
    final_state = shape.output<T>(shape.heads, shape.key_dim, v.cols);
    states = pass<false>(k, v, initial_state, final_state);
    host_launch<ChunkOutputs<B, C, D, D, Decays, Divided>, T>(
        launch_policy(policy, 2),
        {q.in(), k.in(), v.in(), states.in(), decays(), scale.row_in(), o.out(), shape.group, shape.shared_heads,
         blocks()},
        shape.heads * chunks() * blocks(), by_chunk());
  }
  /// Room for the parts of every head, `more` of which another pass writes.
  void make_parts(int more = 0) {
    const int parts = shape.heads * (blocks() + more);
    dq = shape.output<T>(parts, shape.len, shape.key_dim), dk = dq;
    dlog_decay = shape.output<T>(parts, Decays ? shape.len : 0, 1);
  }
  /// Parts are written to `whole`, after `first` others of each head.
  template <class Whole>
  void backward(const HostArray<T>& o_cotangent, const HostArray<T>& final_cotangent, Whole& whole, int first = 0) {
    dv = shape.output<T>(shape.heads, shape.len, v.cols);
    dinitial_state = shape.output<T>(shape.heads, shape.key_dim, v.cols);
    const HostArray<T> adjoints = pass<true>(q, o_cotangent, final_cotangent, dinitial_state);
    host_launch<ChunkGradients<B, C, D, D, Decays>, T>(
        launch_policy(policy, 5),
        {q.in(), k.in(), v.in(), states.in(), adjoints.in(), o_cotangent.in(), decays(), scale.row_in(), whole.dq.out(),
         whole.dk.out(), dv.out(), whole.dlog_decay.row_out(), shape.group, blocks(), whole.dq.heads / shape.heads,
         first},
        shape.heads * chunks() * blocks(), by_chunk());
  }
  /// Gradients of q, k, v and the initial state, the parts of blocks and groups summed.
  Arrays gradients() const {
    const Policy last = launch_policy(policy, 6);
    const int parts = dq.heads / shape.heads;
    return {{"q", sum_parts(last, "part", "out", dq, parts, q).array()},
            {"k", sum_parts(last, "part", "out", dk, parts, k).array()},
            {"v", dv.array()},
            {"initial_state", dinitial_state.array()}};
  }
  HostArray<T> log_decay_gradient() const {
    return sum_parts(launch_policy(policy, 7), "dlog_decay", "dlog_decay", dlog_decay, dq.heads / shape.heads, decay);
  }

  auto decays() const { return decay.row_in(logs); }
  /// Blocks of a head: its chunks, and the value columns of each.
  auto by_chunk() const {
    const int blocks_of_head = chunks() * blocks();
    return [=](int i) { return std::pair(i / blocks_of_head, i % blocks_of_head); };
  }

 private:
  using B = HostBlock<T>;

  /// The states before all chunks (backward: the cotangents of the states after them); the last goes to `end`.
  template <bool Backward>
  HostArray<T> pass(const HostArray<T>& left, const HostArray<T>& right, const HostArray<T>& start, HostArray<T>& end) {
    auto updates = shape.output<T>(shape.heads, chunks() * D, v.cols), all = updates;
    host_launch<ChunkUpdates<B, C, D, D, Decays, Backward>, T>(
        launch_policy(policy, Backward ? 3 : 0),
        {left.in(), right.in(), decays(), scale.row_in(), updates.out(), shape.group, shape.shared_heads, blocks()},
        shape.heads * chunks() * blocks(), by_chunk());
    const int n = blocks();
    host_launch<StatePass<B, C, D, D, stages, Decays, Backward>, T>(
        launch_policy(policy, Backward ? 4 : 1), {start.in(), updates.in(), decays(), all.out(), end.out(), shape.len},
        shape.heads * n, [n](int i) { return std::pair(i / n, i % n); });
    return all;
  }
};

/// The faults of these programs,
inline constexpr std::array sum_mutants{
    Mutant{"scores_exclude_self", "j < i instead of j <= i in Q K^T", "catalogue"},
    Mutant{"initial_state_ignored", "the first chunk starts from zero", "FLA naive delta_rule chunk"},
    Mutant{"state_not_carried", "every chunk starts from the initial state", "MDN common-mode reference"},
    Mutant{"scale_forgotten", "o not scaled", "TE#2300 class"},
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
