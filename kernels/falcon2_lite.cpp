#include "kernels/falcon2_lite.hpp"

#include "kernels/core/falcon_launch.hpp"
#include "kernels/core/kernel_room.hpp"

namespace assay::tile {
namespace {

template <class T>
Answer renormalized(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile) {
  using B = HostBlock<T>;
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const bool with_gradients = !problem.cotangents.empty();
  const ChunkSize size = chunk_size(shape, tile);
  const int chunks = imax(1, ceil_div(len, size.tokens)), blocks = ceil_div(V, size.dim), parts = heads * blocks;
  FalconRows<T> rows(shape, problem, policy);
  const auto q = shape.input<T>(problem.inputs, "q", shared, len, K),
             x = rows.features(shape.input<T>(problem.inputs, "k", shared, len, K)),
             v = shape.input<T>(problem.inputs, "v", heads, len, V),
             initial_state = shape.input<T>(problem.inputs, "initial_state", heads, K, V);
  const auto beta = shape.vector_input<T>(problem.inputs, "beta", heads, len);
  auto eta = beta, gamma = beta;
  auto o = shape.output<T>(heads, len, V), final_state = shape.output<T>(heads, K, V);
  auto states = shape.output<T>(heads, with_gradients ? chunks * size.dim : 0, V);
  const RenormalizedInputs<B> inputs{q.in(), x.in(), v.in(), eta.row_in(), gamma.row_in(false), len, shape.group};
  const HeadBlocks by_chunk{chunks}, by_block{blocks};
  with_size(size, [&]<int C, int D>() {
    host_launch<FalconGain<B, C, D>, T>(
        launch_policy(policy, 0),
        {x.in(), beta.row_in(), rows.lambda.row_in(), rows.active.row_in(), eta.row_out(), gamma.row_out(), rows.eps,
         rows.floor, rows.options.coupling, shape.group},
        heads * chunks, by_chunk);
    host_launch<RenormalizedForward<B, C, D, D, 2>, T>(
        launch_policy(policy, 1), {inputs, initial_state.in(), o.out(), final_state.out(), states.out()}, parts,
        by_block);
  });
  Answer answer{{{"o", o.array()}, {"final_state", final_state.array()}}, {}};
  if (!with_gradients) return answer;

  require_open(gamma);
  const int key_parts = blocks + 1;  // the last of the gains
  const auto o_cotangent = shape.input<T>(problem.cotangents, "o", heads, len, V),
             final_cotangent = shape.input<T>(problem.cotangents, "final_state", heads, K, V);
  auto dq = shape.output<T>(parts, len, K), dx = shape.output<T>(heads * key_parts, len, K);
  auto deta_parts = shape.output<T>(parts, len, 1), dlog_parts = deta_parts;
  auto dv = shape.output<T>(heads, len, V), dinitial_state = shape.output<T>(heads, K, V);
  auto dbeta = shape.output<T>(heads, len, 1), dlambda = dbeta;
  dbeta.shape = dlambda.shape = beta.shape;
  const Policy sums = launch_policy(policy, 4);
  with_size(size, [&]<int C, int D>() {
    host_launch<RenormalizedBackward<B, C, D, D, 2>, T>(
        launch_policy(policy, 2),
        {inputs, states.in(), o_cotangent.in(), final_cotangent.in(), dq.out(), dx.out(), dv.out(),
         dinitial_state.out(), deta_parts.row_out(), dlog_parts.row_out(), blocks, key_parts},
        parts, by_block);
    const auto deta = sum_parts(sums, "dbeta", "dbeta", deta_parts, blocks, eta),
               dlog_gamma = sum_parts(sums, "dlog_decay", "dlog_decay", dlog_parts, blocks, gamma);
    host_launch<FalconGainBackward<B, C, D>, T>(
        launch_policy(policy, 3),
        {x.in(), beta.row_in(), rows.lambda.row_in(), rows.active.row_in(), deta.row_in(), dlog_gamma.row_in(),
         dbeta.row_out(), dlambda.row_out(), dx.out(), rows.eps, rows.floor, rows.options.coupling, shape.group,
         key_parts},
        heads * chunks, by_chunk);
  });
  answer.gradients = {{"q", sum_parts(sums, "part", "out", dq, blocks, q).array()},
                      {"k", sum_parts(sums, "part", "out", dx, key_parts, x).array()},
                      {"v", dv.array()},
                      {"beta", dbeta.array()},
                      {"lambda", dlambda.array()},
                      {"initial_state", dinitial_state.array()}};
  rows.of_keys(problem, x, answer.gradients);
  return answer;
}

Answer run_renormalized(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  return with_scalar(policy, [&]<class T>() { return renormalized<T>(shape, problem, policy, tile); });
}

std::string renormalized_obstacle(const Problem& problem) {
  const std::string obstacle = key_dim_obstacle(problem);
  if (!obstacle.empty() || problem.params.contains("decay_floor")) return obstacle;
  return "without a decay_floor a decay may be 0, and nothing is renormalised by that";
}

/// Of its own programs: those that it shares answer as the other form's.
constexpr Mutant renormalized_mutants[] = {
    {"step_not_renormalized", "the rule without decays takes eta, not eta / gamma", "FALCON Alg 10 line 4"},
    {"values_over_own_decay", "values are divided by the products that include their own token's decay",
     "FALCON Alg 10 line 12"},
    {"scores_exclude_self", "j < i instead of j <= i in Q X^T", "catalogue"},
    {"state_left_renormalized", "the state leaves its chunk without the chunk's decay", "FALCON Alg 10 line 15"},
    {"final_cotangent_dropped", "backward starts from a zero adjoint state", "FALCON Alg 11 line 1"},
    {"adjoint_not_renormalized", "backward takes the state's cotangent into a chunk without the chunk's decay",
     "FALCON Alg 11 line 12"},
    {"inverse_not_transposed", "backward applies the inverse, not its transpose", "catalogue"},
    {"dstep_without_errors", "the step's gradient without what earlier writes of its chunk predict", "fla#1140 class"},
    {"dv_left_renormalized", "dv is that of the divided values", "FALCON Alg 11 line 19"},
    {"deta_left_renormalized", "the gradient of eta is that of eta / gamma", "FALCON Alg 11 line 25"},
    {"decay_of_reads_dropped", "the gradient of the products without the outputs that they multiply",
     "FALCON Alg 11 line 9"},
    {"decay_of_values_dropped", "the gradient of the products without the values that they divide",
     "FALCON Alg 11 line 20"},
    {"decay_of_state_dropped", "the gradient of the products without the state that leaves the chunk",
     "FALCON Alg 11 line 13"},
    {"decay_of_step_dropped", "the gradient of a decay without what eta / gamma takes", "FALCON Alg 11 line 26"},
};

constexpr KernelForm forms[] = {
    {"chunkwise", "WY form with running products of the decays: one triangular system per chunk of tokens",
     falcon2_lite_sites, chunk_tiles, falcon_mutants, true, key_dim_obstacle, falcon_rule},
    {.name = "renormalized",
     .summary = "the published one: the rule without decays on values divided by running products of a chunk's",
     .sites = renormalized_sites,
     .tiles = chunk_tiles,
     .mutants = renormalized_mutants,
     .has_gradients = true,
     .obstacle = renormalized_obstacle,
     .run = run_renormalized,
     .unstable = "what it divides by vanishes: a chunk of 64 overflows fp32 where decays average less than 0.245; "
                 "FALCON Algorithms 10 and 11"},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom falcon2_lite = {"falcon2_lite", forms};
}

}  // namespace assay::tile
