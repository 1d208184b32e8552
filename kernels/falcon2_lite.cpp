#include "kernels/falcon2_lite.hpp"

#include "kernels/core/falcon_launch.hpp"
#include "kernels/core/kernel_room.hpp"

namespace assay::tile {
namespace {

template <class T>
Answer renormalized(const RecurrenceShape& shape, const Problem& problem, const Policy& policy, int tile) {
  using B = HostBlock<T>;
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const ChunkSize size = chunk_size(shape, tile);
  const int chunks = imax(1, ceil_div(len, size.tokens)), blocks = ceil_div(V, size.dim);
  FalconRows<T> rows(shape, problem, policy);
  const auto q = shape.input<T>(problem.inputs, "q", shared, len, K),
             x = rows.features(shape.input<T>(problem.inputs, "k", shared, len, K)),
             v = shape.input<T>(problem.inputs, "v", heads, len, V),
             initial_state = shape.input<T>(problem.inputs, "initial_state", heads, K, V);
  const auto beta = shape.vector_input<T>(problem.inputs, "beta", heads, len);
  auto eta = beta, gamma = beta;
  auto o = shape.output<T>(heads, len, V), final_state = shape.output<T>(heads, K, V);
  with_size(size, [&]<int C, int D>() {
    host_launch<FalconGain<B, C, D>, T>(
        launch_policy(policy, 0),
        {x.in(), beta.row_in(), rows.lambda.row_in(), rows.active.row_in(), eta.row_out(), gamma.row_out(), rows.eps,
         rows.floor, rows.options.coupling, shape.group},
        heads * chunks, HeadBlocks{chunks});
    host_launch<RenormalizedForward<B, C, D, D, 2>, T>(
        launch_policy(policy, 1),
        {q.in(), x.in(), v.in(), eta.row_in(), gamma.row_in(false), initial_state.in(), o.out(), final_state.out(), len,
         shape.group},
        heads * blocks, HeadBlocks{blocks});
  });
  return {{{"o", o.array()}, {"final_state", final_state.array()}}, {}};
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

constexpr KernelForm forms[] = {
    {"chunkwise", "WY form with running products of the decays: one triangular system per chunk of tokens",
     falcon2_lite_sites, chunk_tiles, falcon_mutants, true, key_dim_obstacle, falcon_rule},
    {"renormalized",
     "the published one: the rule without decays on values divided by running products of a chunk's",
     renormalized_sites,
     chunk_tiles,
     {},
     false,
     renormalized_obstacle,
     run_renormalized,
     "what it divides by vanishes: a chunk of 64 overflows fp32 where decays average less than 0.245; FALCON Algorithm "
     "10"},
};

}  // namespace

namespace ASSAY_KERNEL_ROOMS {
extern const KernelRoom falcon2_lite = {"falcon2_lite", forms};
}

}  // namespace assay::tile
