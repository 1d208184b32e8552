// Gated DeltaNet on the device: launches and instances.
#include "kernels/delta/gated_deltanet.hpp"
#include "kernels/gpu/gated_delta.hpp"
#include "kernels/plans/gated_delta.hpp"

namespace assay::tile {
namespace {

template <Format F>
using ChunkPolicy = StaticPolicy<gated_deltanet_sites, F>;

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  int lag = 0;
  OptionReader read(problem.params);
  read("error", lag, {{"decayed", 0}, {"undecayed", 1}});
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    using P = ChunkPolicy<F>;
    return gated_delta_plan<DeltaTiles<P, D>, false>(CudaDevice<P>(shape, times), shape, problem, lag);
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, gated_delta_tile, run_chunkwise, true}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom gated_deltanet = {"gated_deltanet", tile::forms};
}
