#include "kernels/gated_deltanet.hpp"

#include "kernels/core/kernel_room.hpp"
#include "kernels/core/recurrence.hpp"

namespace assay::tile {
namespace {

constexpr int stages = 2;

template <class T, int C, int D>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, const Policy& policy) {
  using B = HostBlock<T>;
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const int chunks = imax(1, ceil_div(len, C)), blocks = ceil_div(V, D);
  const auto coordinate = [=](int i) { return std::pair(i / blocks, i % blocks); };
  int lag = 0;
  OptionReader read(problem.params);
  read("error", lag, {{"decayed", 0}, {"undecayed", 1}});
  const bool with_gradients = !problem.cotangents.empty();

  const auto q = shape.input<T>(problem.inputs, "q", shared, len, K);
  const auto k = shape.input<T>(problem.inputs, "k", shared, len, K);
  const auto v = shape.input<T>(problem.inputs, "v", heads, len, V);
  const auto beta = shape.vector_input<T>(problem.inputs, "beta", heads, len);
  const auto log_decay = shape.vector_input<T>(problem.inputs, "log_decay", heads, len);
  const auto initial_state = shape.input<T>(problem.inputs, "initial_state", heads, K, V);
  const T scale = shape.scale<T>(problem, policy);
  auto o = shape.output<T>(heads, len, V), final_state = shape.output<T>(heads, K, V);
  auto states = shape.output<T>(heads, with_gradients ? chunks * D : 0, V);
  host_launch<GatedDeltaNetForward<B, C, D, D, stages>, T>(
      launch_policy(policy, 0),
      {q.in(), k.in(), v.in(), beta.row_in(), log_decay.row_in(), initial_state.in(), o.out(), final_state.out(),
       states.out(), scale, len, lag, shape.group, shared},
      heads * blocks, coordinate);
  Answer answer{{{"o", o.array()}, {"final_state", final_state.array()}}, {}};
  if (!with_gradients) return answer;

  const auto o_cotangent = shape.input<T>(problem.cotangents, "o", heads, len, V);
  const auto final_cotangent = shape.input<T>(problem.cotangents, "final_state", heads, K, V);
  auto dq = shape.output<T>(heads * blocks, len, K), dk = dq;
  auto dbeta = shape.output<T>(heads * blocks, len, 1), dlog_decay = dbeta;
  auto dv = shape.output<T>(heads, len, V), initial_gradient = shape.output<T>(heads, K, V);
  host_launch<GatedDeltaNetBackward<B, C, D, D, stages>, T>(
      launch_policy(policy, 1),
      {q.in(), k.in(), v.in(), beta.row_in(), log_decay.row_in(), states.in(), o_cotangent.in(), final_cotangent.in(),
       dq.out(), dk.out(), dv.out(), initial_gradient.out(), dbeta.row_out(), dlog_decay.row_out(), scale, len, lag,
       shape.group, blocks},
      heads * blocks, coordinate);
  const Policy sums = launch_policy(policy, 2);
  answer.gradients = {{"q", sum_parts(sums, "part", "out", dq, blocks, q).array()},
                      {"k", sum_parts(sums, "part", "out", dk, blocks, k).array()},
                      {"v", dv.array()},
                      {"beta", sum_parts(sums, "dbeta", "dbeta", dbeta, blocks, beta).array()},
                      {"log_decay", sum_parts(sums, "dlog_decay", "dlog_decay", dlog_decay, blocks, log_decay).array()},
                      {"initial_state", initial_gradient.array()}};
  return answer;
}

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_chunk(shape, policy, tile, [&]<class T, int C, int D>() {
    return chunkwise<T, C, D>(shape, problem, with_narrow_sites(policy));
  });
}

constexpr Mutant mutants[] = {
    {"decay_index_of_scores", "the decay from write j to output i stops at i - 1", "fla class"},
    {"decay_index_of_read", "the error is taken on the state on the other side of its decay", "fla class"},
    {"tail_decay", "the last, ragged chunk decays the state by one gate too few", "fla#1142"},
    {"beta_of_column", "the triangular system scaled by the beta of the column instead of the row", "catalogue"},
    {"scores_exclude_self", "j < i instead of j <= i in Q K^T", "catalogue"},
    {"initial_state_ignored", "the first chunk starts from zero", "FLA naive delta_rule chunk"},
    {"state_not_carried", "every chunk starts from the initial state", "MDN common-mode reference"},
    {"scale_forgotten", "o not scaled", "TE#2300 class"},
    {"head_modulo", "value head h reads query and key head h mod H instead of h div group", "fla#1029"},
    {"state_in_bf16", "the state accumulates in bf16", "triton#7216 class"},
    {"inverse_in_bf16", "the triangular inverse substitutes in bf16", "megagdn-pto#74, aiter#4952"},
    {"final_cotangent_dropped", "backward starts from a zero adjoint state", "FALCON Alg 6 line 20"},
    {"adjoint_not_decayed", "backward carries the adjoint state to the chunk before without its decay", "fla class"},
    {"dlog_decay_without_state", "dlog_decay without the term of the carried state <S, G>", "fla#1142"},
    {"dlog_decay_without_errors", "dlog_decay without the term of the triangular system", "fla#1140"},
    {"dlog_decay_index", "dlog_decay_r misses the read of row r itself", "fla class"},
    {"dbeta_of_value", "dbeta takes v instead of v minus what the state reads", "fla#1142 class"},
    {"dk_without_read", "dk without the term of the read K S", "fla#1140 class"},
    {"dq_unscaled", "dq's term of the state without the scale", "GQA"},
    {"one_head_of_group", "dq and dk of the first value head of the group only", "GQA"},
};

constexpr KernelForm forms[] = {
    {"chunkwise", "WY form with running products of the decays: one triangular system per chunk of tokens",
     gated_deltanet_sites, chunk_tiles, mutants, true, key_dim_obstacle, run_chunkwise},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom gated_deltanet = {"gated_deltanet", forms};
}

}  // namespace assay::tile
