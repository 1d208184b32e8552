// Mamba-2 on the device: launches and instances.
#include "kernels/decayed/mamba2.hpp"
#include "kernels/gpu/decayed_sums.hpp"
#include "kernels/plans/mamba2.hpp"

namespace assay::tile {
namespace {

template <Format F>
using SumPolicy = StaticPolicy<mamba2_sites, F>;

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    return mamba2_plan<SumTiles<SumPolicy<F>, D>>(CudaDevice<SumPolicy<F>>(shape, times), shape, problem);
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, sum_tile, run_chunkwise, true}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom mamba2 = {"mamba2", tile::forms};
}
