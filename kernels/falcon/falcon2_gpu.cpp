// FALCON-2 on the device: launches and instances.
#include "kernels/cuda/channel_block.cuh"
#include "kernels/gpu/decayed_sums.hpp"
#include "kernels/plans/falcon2.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) { return falcon2_plan<Tiles>(on...); };

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
template <class P, int D>
struct Tiles {
  static constexpr SumChunk chunk = channel_chunk<P::precision>();
  using Executor = ChannelBlock<P, chunk.length / 16>;
  static constexpr int tokens = chunk.length, dim = D, values = chunk.values;
};

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, channel_tile, run_plan<falcon2_sites, Tiles, plan>}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom falcon2 = {"falcon2", tile::forms};
}
