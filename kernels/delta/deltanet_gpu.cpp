// DeltaNet on the device: launches and instances.
#include "kernels/gpu/wide_recurrences.hpp"
#include "kernels/plans/deltanet.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) { return deltanet_plan<Tiles>(on...); };

/// A chunk and the value columns of a block: in the forward pass, which takes short steps if it leaves the outputs of
/// all chunks to blocks of their own, in those (0: outputs on its way, where they alone fill the device), and in the
/// backward pass. `tile` is the CPU's with the same chunk. Value columns do not touch each other in the outputs. In the
/// gradients of what they share, each block rounds its own part, so bits agree with the CPU's only where one block
/// holds all values.
struct Chunk {
  int tile, length, forward_values, output_values, backward_values;
};
template <Format F, int D>
constexpr Chunk chunk_of() {
  if (F == Format::fp64) return {1, 32, 16, 16, 16};
  if (F == Format::tf32) return {1, 32, 16, 64, 64};
  return D == 64 ? Chunk{0, 64, 16, 64, 64} : Chunk{0, 64, 64, 0, 32};
}
int chunkwise_tile(const Problem& problem, Format precision) {
  return with_instance(precision, RecurrenceShape(problem).key_dim,
                       [&]<Format F, int D>() { return chunk_of<F, D>().tile; });
}

template <class P, int D>
struct Tiles {
  static constexpr Chunk chunk = chunk_of<P::precision, D>();
  using Executor = MmaBlock<P, chunk.length / 16>;
  using Systems = Executor;
  static constexpr int tokens = chunk.length, dim = D, forward_values = chunk.forward_values;
  static constexpr int output_values = chunk.output_values, backward_values = chunk.backward_values;
  static constexpr int forward_stages = output_values == 0 ? 2 : 3, backward_stages = 2;
  static constexpr bool doubling = false;
};
/// With the inverse by doubling all but the systems are the same kernels.
template <class P, int D>
struct NeumannTiles : Tiles<P, D> {
  using Systems = MmaBlock<StaticPolicy<deltanet_neumann_sites, P::precision>, Tiles<P, D>::tokens / 16>;
  static constexpr bool doubling = true;
};
template <class P, int D>
struct WideDeltaTiles : WideDeviceTiles<P, 16> {
  using Systems = typename WideDeviceTiles<P, 16>::Executor;
  static constexpr int forward_values = 16, output_values = 32, backward_values = 16, forward_stages = 2,
                       backward_stages = 2;
  static constexpr bool doubling = false;
};

constexpr GpuForm forms[] = {
    {"chunkwise", recurrence_obstacle, chunkwise_tile, run_plan<deltanet_sites, Tiles, plan>, true},
    {"neumann", recurrence_obstacle, chunkwise_tile, run_plan<deltanet_sites, NeumannTiles, plan>, true}};
constexpr WideGpuForm wide = {1, run_wide<deltanet_sites, WideDeltaTiles, plan>};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom deltanet = {"deltanet", tile::forms, &tile::wide};
}
