// FALCON-2 on the device: launches and instances.
#include "kernels/cuda/channel_block.cuh"
#include "kernels/gpu/cuda_device.hpp"
#include "kernels/gpu/decayed_sums.hpp"
#include "kernels/plans/falcon2.hpp"

namespace assay::tile {
namespace {

template <Format F>
using ChannelPolicy = StaticPolicy<falcon2_sites, F>;

/// A chunk and the value channels of a block that fit in shared memory beside a state, its cotangent and what every
/// channel has of its own; `tile` is the CPU's with the same chunk.
template <Format F>
constexpr SumChunk channel_chunk() {
  if (F == Format::fp64) return {2, 16, 16};
  if (F == Format::tf32) return {2, 16, 32};
  return {1, 32, 32};
}
int channel_tile(const Problem&, Format precision) {
  return precision == Format::fp64 || precision == Format::tf32 ? 2 : 1;
}

template <Format F, int D>
struct Tiles {
  using Executor = ChannelBlock<ChannelPolicy<F>, channel_chunk<F>().length / 16>;
  static constexpr int tokens = channel_chunk<F>().length, dim = D, values = channel_chunk<F>().values;
};

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    return falcon2_plan<Tiles<F, D>>(CudaDevice<ChannelPolicy<F>>(shape, times), shape, problem);
  });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, channel_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom falcon2 = {"falcon2", tile::forms};
}
