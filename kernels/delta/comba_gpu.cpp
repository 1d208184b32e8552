// Comba on the device: launches and instances.
#include "kernels/delta/comba.hpp"
#include "kernels/gpu/gated_delta.hpp"
#include "kernels/plans/gated_delta.hpp"

namespace assay::tile {
namespace {

template <Format F>
using ChunkPolicy = StaticPolicy<comba_sites, F>;

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    using P = ChunkPolicy<F>;
    return gated_delta_plan<DeltaTiles<P, D>, true>(CudaDevice<P>(shape, times), shape, problem, 1);
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, gated_delta_tile, run_chunkwise, true}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom comba = {"comba", tile::forms};
}
