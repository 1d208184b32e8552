// RetNet on the device: launches and instances.
#include "kernels/decayed/retnet.hpp"
#include "kernels/gpu/decayed_sums.hpp"
#include "kernels/plans/retnet.hpp"

namespace assay::tile {
namespace {

template <Format F>
using SumPolicy = StaticPolicy<retnet_sites, F>;

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    return retnet_plan<SumTiles<SumPolicy<F>, D>>(CudaDevice<SumPolicy<F>>(shape, times), shape, problem);
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, sum_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom retnet = {"retnet", tile::forms};
}
