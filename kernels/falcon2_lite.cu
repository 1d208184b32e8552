// FALCON-2-lite on the device: launches and instances.
#include "kernels/cuda/falcon_rule.cuh"
#include "kernels/falcon2_lite.hpp"

namespace assay::tile {
namespace {

template <Format F>
struct ChunkPolicy : StaticPolicy<falcon2_lite_sites, F> {};
template <Format F>
struct RenormalizedPolicy : StaticPolicy<renormalized_sites, F> {};

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    using P = ChunkPolicy<F>;
    return problem.cotangents.empty() ? falcon_rule<P, F, D, false>(shape, problem, times)
                                      : falcon_rule<P, F, D, true>(shape, problem, times);
  });
}

/// Outputs alone.
template <Format F, int D>
Answer renormalized(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times) {
  using P = RenormalizedPolicy<F>;
  constexpr int C = chunk_of<F>().length, DV = chunk_of<F>().pass_values, stages = 2;
  using B = MmaBlock<P, C / 16>;
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const DeviceFalconRows<P> rows(shape, problem);
  const auto q = upload<P, "Q">(problem.inputs, "q", shared, len, K);
  const auto x = rows.template features_array<P>(problem);
  const auto v = upload<P, "V">(problem.inputs, "v", heads, len, V);
  const auto beta = upload<P, "beta">(problem.inputs, "beta", heads, len, 1);
  const auto initial_state = upload<P, "S0">(problem.inputs, "initial_state", heads, K, V);
  auto eta = result<P, "eta">(heads, len, 1), gamma = result<P, "gamma">(heads, len, 1);
  auto o = result<P, "out">(heads, len, V), final_state = result<P, "final">(heads, K, V);
  const double forward = run_timed(times, [&] {
    launch<FalconGain<B, C, D>, B, 1>(
        {in<B>(x), row_in<B>(beta), row_in<B>(rows.lambda), row_in<B>(rows.active), row_out<B>(eta), row_out<B>(gamma),
         rows.eps, rows.floor, rows.options.coupling, shape.group},
        BlockGrid{heads, imax(1, ceil_div(len, C))});
    launch<RenormalizedForward<B, C, D, DV, stages>, B, 1>(
        {in<B>(q), in<B>(x), in<B>(v), row_in<B>(eta), row_in<B>(gamma, false), in<B>(initial_state), out<B>(o),
         out<B>(final_state), len, shape.group},
        BlockGrid{heads, ceil_div(V, DV)});
  });
  if (times != nullptr) times->forward = forward;
  return {{{"o", download(o, array_shape(shape, heads, len, V))},
           {"final_state", download(final_state, array_shape(shape, heads, K, V))}},
          {}};
}

Answer run_renormalized(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim,
                       [&]<Format F, int D>() { return renormalized<F, D>(shape, problem, times); });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, gated_delta_tile, run_chunkwise},
                             {"renormalized", recurrence_obstacle, gated_delta_tile, run_renormalized}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom falcon2_lite = {"falcon2_lite", tile::forms};
}
