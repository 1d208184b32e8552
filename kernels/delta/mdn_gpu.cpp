// Momentum DeltaNet on the device: launches and instances.
#include "kernels/cuda/decay_scan.cuh"
#include "kernels/gpu/cuda_device.hpp"
#include "kernels/plans/mdn.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) { return mdn_plan<Tiles>(on...); };

/// A chunk and the value columns of a block, in a pass over the states and in what is done for all chunks at once, that
/// fit in shared memory beside two states and what is added to them. `tile` is the CPU's with the same chunk. Narrow
/// blocks of a pass fill the device and take short steps, and columns do not touch each other there.
struct MomentumChunk {
  int tile, length, pass_values, values;
};
template <Format F, int D>
constexpr MomentumChunk momentum_chunk() {
  if (F == Format::fp64) return {2, 16, 16, 16};
  if (F == Format::tf32) return {2, 16, 16, 32};
  return {1, 32, 16, D == 64 ? 64 : 32};
}
int momentum_tile(const Problem&, Format precision) {
  return precision == Format::fp64 || precision == Format::tf32 ? 2 : 1;
}

template <class P, int D, class Kind>
struct Tiles {
  static constexpr MomentumChunk chunk = momentum_chunk<P::precision, D>();
  using Executor = MmaBlock<P, chunk.length / 16>;
  /// Logs take the maximum of a row, which is in one warp.
  using Gradients = std::conditional_t<std::is_same_v<Kind, LinearMomentum>,
                                       MmaBlock<P, chunk.length / 16, chunk.length / 16>, Executor>;
  template <class Block>
  using Weights = typename Kind::template Weights<Block, chunk.length, D>;
  static constexpr int tokens = chunk.length, dim = D, values = chunk.values, pass_values = chunk.pass_values,
                       stages = 3, adjoint_stages = 2;
};
template <class P, int D>
using LinearTiles = Tiles<P, D, LinearMomentum>;
template <class P, int D>
using LogDomainTiles = Tiles<P, D, LogDomainMomentum>;

constexpr GpuForm forms[] = {
    {"chunkwise", recurrence_obstacle, momentum_tile, run_plan<mdn_sites_of_all_forms, LinearTiles, plan>, true},
    {"log_domain", recurrence_obstacle, momentum_tile, run_plan<mdn_sites_of_all_forms, LogDomainTiles, plan>, true}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom mdn = {"mdn", tile::forms};
}
