// FALCON-2-lite on the device: launches and instances.
#include "kernels/cuda/falcon_rule.cuh"
#include "kernels/falcon2_lite.hpp"

namespace assay::tile {
namespace {

template <Format F>
struct ChunkPolicy : StaticPolicy<falcon2_lite_sites, F> {};

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    using P = ChunkPolicy<F>;
    return problem.cotangents.empty() ? falcon_rule<P, F, D, false>(shape, problem, times)
                                      : falcon_rule<P, F, D, true>(shape, problem, times);
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, gated_delta_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom falcon2_lite = {"falcon2_lite", tile::forms};
}
