#pragma once
// The launches of kernels/core/gated_delta.hpp on the CPU executor, shared by the rooms whose arithmetic it is.
#include <array>
#include <utility>

#include "kernels/core/gated_delta.hpp"
#include "kernels/core/recurrence.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

/// The answer of a rule whose errors are taken `lag` decays behind.
template <class T, int C, int D, bool Predicts>
Answer gated_delta(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int lag) {
  constexpr int stages = 2;
  using B = HostBlock<T>;
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const int chunks = imax(1, ceil_div(len, C)), blocks = ceil_div(V, D);
  const HeadBlocks coordinate{blocks};
  const bool with_gradients = !problem.cotangents.empty();

  const auto q = shape.input<T>(problem.inputs, "q", shared, len, K);
  const auto k = shape.input<T>(problem.inputs, "k", shared, len, K);
  const auto v = shape.input<T>(problem.inputs, "v", heads, len, V);
  const auto p = shape.input<T>(problem.inputs, "p", shared, Predicts ? len : 0, K);
  const auto beta = shape.vector_input<T>(problem.inputs, "beta", heads, len);
  const auto log_decay = shape.vector_input<T>(problem.inputs, "log_decay", heads, len);
  const auto initial_state = shape.input<T>(problem.inputs, "initial_state", heads, K, V);
  const T scale = shape.scale<T>(problem, policy);
  auto o = shape.output<T>(heads, len, V), final_state = shape.output<T>(heads, K, V);
  auto states = shape.output<T>(heads, with_gradients ? chunks * D : 0, V);
  host_launch<GatedDeltaForward<B, C, D, D, stages, Predicts>, T>(
      launch_policy(policy, 0),
      {q.in(), k.in(), v.in(), p.in(), beta.row_in(), log_decay.row_in(), initial_state.in(), o.out(),
       final_state.out(), states.out(), scale, len, lag, shape.group, shared},
      heads * blocks, coordinate);
  Answer answer{{{"o", o.array()}, {"final_state", final_state.array()}}, {}};
  if (!with_gradients) return answer;

  const auto o_cotangent = shape.input<T>(problem.cotangents, "o", heads, len, V);
  const auto final_cotangent = shape.input<T>(problem.cotangents, "final_state", heads, K, V);
  auto dq = shape.output<T>(heads * blocks, len, K), dk = dq;
  auto dp = shape.output<T>(heads * blocks, Predicts ? len : 0, K);
  auto dbeta = shape.output<T>(heads * blocks, len, 1), dlog_decay = dbeta;
  auto dv = shape.output<T>(heads, len, V), initial_gradient = shape.output<T>(heads, K, V);
  host_launch<GatedDeltaBackward<B, C, D, D, stages, Predicts>, T>(launch_policy(policy, 1),
                                                                   {q.in(),
                                                                    k.in(),
                                                                    v.in(),
                                                                    p.in(),
                                                                    beta.row_in(),
                                                                    log_decay.row_in(),
                                                                    states.in(),
                                                                    o_cotangent.in(),
                                                                    final_cotangent.in(),
                                                                    dq.out(),
                                                                    dk.out(),
                                                                    dv.out(),
                                                                    dp.out(),
                                                                    initial_gradient.out(),
                                                                    dbeta.row_out(),
                                                                    dlog_decay.row_out(),
                                                                    scale,
                                                                    len,
                                                                    lag,
                                                                    shape.group,
                                                                    blocks},
                                                                   heads * blocks, coordinate);
  const Policy sums = launch_policy(policy, 2);
  answer.gradients = {{"q", sum_parts(sums, "part", "out", dq, blocks, q).array()},
                      {"k", sum_parts(sums, "part", "out", dk, blocks, k).array()},
                      {"v", dv.array()},
                      {"beta", sum_parts(sums, "dbeta", "dbeta", dbeta, blocks, beta).array()},
                      {"log_decay", sum_parts(sums, "dlog_decay", "dlog_decay", dlog_decay, blocks, log_decay).array()},
                      {"initial_state", initial_gradient.array()}};
  if (Predicts) answer.gradients["p"] = sum_parts(sums, "part", "out", dp, blocks, p).array();
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
    Mutant{"scale_forgotten", "o not scaled", "TE#2300 class"},
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
    Mutant{"dq_unscaled", "dq's term of the state without the scale", "GQA"},
    Mutant{"one_head_of_group", "dq and dk of the first value head of the group only", "GQA"},
};

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
