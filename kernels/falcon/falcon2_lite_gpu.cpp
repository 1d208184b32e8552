// FALCON-2-lite on the device: launches and instances.
#include "kernels/gpu/cuda_device.hpp"
#include "kernels/gpu/gated_delta.hpp"
#include "kernels/plans/falcon_rule.hpp"
#include "kernels/plans/renormalized.hpp"

namespace assay::tile {
namespace {

template <Format F>
using ChunkPolicy = StaticPolicy<falcon2_lite_sites, F>;
template <Format F>
using RenormalizedPolicy = StaticPolicy<renormalized_sites, F>;

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    using P = ChunkPolicy<F>;
    return falcon_rule_plan<DeltaTiles<P, D>>(CudaDevice<P>(shape, times), shape, problem);
  });
}

template <Format F, int D>
struct Tiles {
  using Executor = MmaBlock<RenormalizedPolicy<F>, chunk_of<F>().length / 16>;
  static constexpr int tokens = chunk_of<F>().length, dim = D, values = chunk_of<F>().pass_values;
};

Answer run_renormalized(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    return renormalized_plan<Tiles<F, D>>(CudaDevice<RenormalizedPolicy<F>>(shape, times), shape, problem);
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, gated_delta_tile, run_chunkwise},
                             {"renormalized", recurrence_obstacle, gated_delta_tile, run_renormalized}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom falcon2_lite = {"falcon2_lite", tile::forms};
}
