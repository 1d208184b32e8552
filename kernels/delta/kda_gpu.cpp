// Kimi Delta Attention on the device: launches and instances.
#include "kernels/delta/kda.hpp"
#include "kernels/gpu/channel_sums.hpp"
#include "kernels/plans/kda.hpp"

namespace assay::tile {
namespace {

template <Format F>
using ChannelPolicy = StaticPolicy<kda_sites, F>;

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    using P = ChannelPolicy<F>;
    return kda_plan<ChannelTiles<P, D>>(CudaDevice<P>(shape, times), shape, problem);
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, channel_tile, run_chunkwise, true}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom kda = {"kda", tile::forms};
}
