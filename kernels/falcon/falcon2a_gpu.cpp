// FALCON-2A on the device: launches and instances.
#include "kernels/gpu/decayed_sums.hpp"
#include "kernels/plans/falcon2a.hpp"

namespace assay::tile {
namespace {

template <Format F>
using SumPolicy = StaticPolicy<falcon2a_sites, F>;

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    using Tiles = SumTiles<SumPolicy<F>, D>;
    const CudaDevice<SumPolicy<F>> device(shape, times);
    return normalizes(problem) ? falcon2a_plan<Tiles, true>(device, shape, problem)
                               : falcon2a_plan<Tiles, false>(device, shape, problem);
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, sum_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom falcon2a = {"falcon2a", tile::forms};
}
