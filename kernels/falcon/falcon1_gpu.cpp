// FALCON-1 on the device: launches and instances.
#include "kernels/falcon/falcon1.hpp"
#include "kernels/gpu/gated_delta.hpp"
#include "kernels/plans/falcon_rule.hpp"

namespace assay::tile {
namespace {

template <Format F>
using ChunkPolicy = StaticPolicy<falcon1_sites, F>;

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    using P = ChunkPolicy<F>;
    return falcon_rule_plan<DeltaTiles<P, D>>(CudaDevice<P>(shape, times), shape, problem);
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, gated_delta_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom falcon1 = {"falcon1", tile::forms};
}
