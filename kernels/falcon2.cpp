#include "kernels/falcon2.hpp"

#include "kernels/core/falcon_launch.hpp"
#include "kernels/core/host_value_columns.hpp"
#include "kernels/core/kernel_room.hpp"

namespace assay::tile {
namespace {

template <class T>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile) {
  using B = HostBlock<T>;
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const bool with_gradients = !problem.cotangents.empty();
  const ChunkSize size = chunk_size(shape, tile);
  const int chunks = imax(1, ceil_div(len, size.tokens)), blocks = ceil_div(V, size.dim), parts = heads * blocks;
  FalconRows<T> rows(shape, problem, policy);
  const auto q = shape.input<T>(problem.inputs, "q", shared, len, K),
             x = rows.features(shape.input<T>(problem.inputs, "k", shared, len, K)),
             v = shape.input<T>(problem.inputs, "v", heads, len, V),
             beta = shape.input<T>(problem.inputs, "beta", heads, len, V),
             initial_state = shape.input<T>(problem.inputs, "initial_state", heads, K, V);
  auto eta = shape.output<T>(heads, len, V), gamma = eta, o = eta;
  auto final_state = shape.output<T>(heads, K, V);
  auto states = shape.output<T>(heads, chunks * size.dim, V), errors = eta;
  const auto inputs = [&]<int C, int D>() {
    return typename ChannelRule<B, C, D, D>::Inputs{q.in(), x.in(), v.in(),      eta.in(), gamma.in(),
                                                    len,    V,      shape.group, shared,   blocks};
  };
  const HeadBlocks by_block{blocks}, by_chunk{chunks * blocks};
  with_size(size, [&]<int C, int D>() {
    host_launch<ChannelGain<B, C, D, D>, T>(
        launch_policy(policy, 0),
        {x.in(), beta.in(), rows.lambda.row_in(), rows.active.row_in(), eta.out(), gamma.out(), rows.eps, rows.floor,
         rows.options.coupling, shape.group, blocks},
        parts * chunks, by_chunk);
    const auto in = inputs.template operator()<C, D>();
    host_launch<ChannelDeltaStates<B, C, D, D, 2>, T>(
        launch_policy(policy, 1), {in, initial_state.in(), errors.out(), states.out(), final_state.out()}, parts,
        by_block);
    host_launch<ChannelDeltaOutputs<B, C, D, D>, T>(launch_policy(policy, 2), {in, states.in(), errors.in(), o.out()},
                                                    parts * chunks, by_chunk);
  });
  Answer answer{{{"o", o.array()}, {"final_state", final_state.array()}}, {}};
  if (!with_gradients) return answer;

  const auto o_cotangent = shape.input<T>(problem.cotangents, "o", heads, len, V),
             final_cotangent = shape.input<T>(problem.cotangents, "final_state", heads, K, V);
  auto dq = shape.output<T>(parts, len, K), dx = shape.output<T>(parts + heads, len, K);
  auto dv = shape.output<T>(heads, len, V), deta = dv, dgamma = dv, dbeta = dv, reads = dv, cotangents = dv;
  auto adjoints = shape.output<T>(heads, chunks * size.dim, V);
  auto dlambda = shape.output<T>(heads, len, 1), dinitial_state = shape.output<T>(heads, K, V);
  dlambda.shape.pop_back();
  with_size(size, [&]<int C, int D>() {
    const auto in = inputs.template operator()<C, D>();
    host_launch<ChannelDeltaReads<B, C, D, D>, T>(launch_policy(policy, 3), {in, o_cotangent.in(), reads.out()},
                                                  parts * chunks, by_chunk);
    host_launch<ChannelDeltaAdjoints<B, C, D, D, 2>, T>(launch_policy(policy, 4),
                                                        {in, o_cotangent.in(), final_cotangent.in(), reads.in(),
                                                         cotangents.out(), adjoints.out(), dinitial_state.out()},
                                                        parts, by_block);
    host_launch<ChannelDeltaGradients<B, C, D, D>, T>(
        launch_policy(policy, 5),
        {in, states.in(), errors.in(), adjoints.in(), cotangents.in(), o_cotangent.in(), dq.out(), dx.out(), dv.out(),
         deta.out(), dgamma.out(), blocks + 1},
        parts * chunks, by_chunk);
    host_launch<ChannelGainBackward<B, C, D, D, 2>, T>(
        launch_policy(policy, 6),
        {x.in(), beta.in(), deta.in(), dgamma.in(), rows.lambda.row_in(), rows.active.row_in(), dbeta.out(), dx.out(),
         dlambda.row_out(), rows.eps, rows.floor, rows.options.coupling, shape.group, blocks, blocks + 1},
        heads * chunks, HeadBlocks{chunks});
  });
  const Policy sums = launch_policy(policy, 7);
  answer.gradients = {{"q", sum_parts(sums, "part", "out", dq, blocks, q).array()},
                      {"k", sum_parts(sums, "part", "out", dx, blocks + 1, x).array()},
                      {"v", dv.array()},
                      {"beta", dbeta.array()},
                      {"lambda", dlambda.array()},
                      {"initial_state", dinitial_state.array()}};
  rows.of_keys(problem, x, answer.gradients);
  return answer;
}

Answer run_chunkwise(const Problem& problem, const Policy& policy, int tile) {
  const RecurrenceShape shape(problem);
  const auto run = [&]<class T>() { return chunkwise<T>(shape, problem, with_narrow_state(policy), tile); };
  return with_scalar(policy, run);
}

constexpr auto mutants = joined(
    gain_mutants,
    std::array{
        Mutant{"error_of_decayed_state", "the error is taken on the state on the other side of its decay", "fla class"},
        Mutant{"tail_decay", "the last, ragged chunk decays the state by one gate too few", "fla#1142"},
        Mutant{"scores_exclude_self", "j < i instead of j <= i in Q K^T", "catalogue"},
        Mutant{"initial_state_ignored", "the first chunk starts from zero", "FLA naive delta_rule chunk"},
        Mutant{"state_not_carried", "every chunk starts from the initial state", "MDN common-mode reference"},
        Mutant{"head_modulo", "value head h reads query and key head h mod H instead of h div group", "fla#1029"},
        Mutant{"state_in_bf16", "the state accumulates in bf16", "triton#7216 class"},
        Mutant{"final_cotangent_dropped", "backward starts from a zero adjoint state", "FALCON Alg 6 line 20"},
        Mutant{"adjoint_not_decayed", "backward carries the adjoint state to the chunk before without its decay",
               "fla class"},
        Mutant{"deta_without_writes", "deta takes an error that sees no earlier write of its chunk", "fla#1142 class"},
        Mutant{"dgamma_without_errors", "dgamma without the term of the triangular systems", "fla#1140"},
        Mutant{"energy_gradient_halved", "the gradient of |x|^2 is x", "catalogue"},
        Mutant{"one_head_of_group", "dq and dk of the first value head of the group only", "GQA"}});

constexpr KernelForm forms[] = {
    {"chunkwise",
     "running products of the decays of every value channel: a triangular system per channel and chunk of tokens",
     falcon2_sites, chunk_tiles, mutants, true, key_dim_obstacle, run_chunkwise},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom falcon2 = {"falcon2", forms};
}

}  // namespace assay::tile
