// Linear attention on the device: launches and instances.
#include "kernels/decayed/linear_attention.hpp"
#include "kernels/gpu/decayed_sums.hpp"
#include "kernels/plans/linear_attention.hpp"

namespace assay::tile {
namespace {

template <Format F>
using SumPolicy = StaticPolicy<linear_attention_sites, F>;

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    using Tiles = SumTiles<SumPolicy<F>, D>;
    const CudaDevice<SumPolicy<F>> device(shape, times);
    return normalization_of(problem) == Normalization::features
               ? linear_attention_plan<Tiles, true>(device, shape, problem)
               : linear_attention_plan<Tiles, false>(device, shape, problem);
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, sum_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom linear_attention = {"linear_attention", tile::forms};
}
