// DeltaNet on the device: launches and instances.
#include "kernels/delta/deltanet.hpp"
#include "kernels/gpu/gated_delta.hpp"
#include "kernels/plans/deltanet.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) { return deltanet_plan<Tiles>(on...); };

/// With the inverse by doubling all but the systems are the same kernels.
template <class P, int D>
struct NeumannTiles : DeltaTiles<P, D> {
  using Executor = MmaBlock<StaticPolicy<deltanet_neumann_sites, P::precision>, DeltaTiles<P, D>::tokens / 16>;
  static constexpr bool doubling = true;
};

constexpr GpuForm forms[] = {
    {"chunkwise", recurrence_obstacle, gated_delta_tile, run_plan<deltanet_sites, DeltaTiles, plan>, true},
    {"neumann", recurrence_obstacle, gated_delta_tile, run_plan<deltanet_sites, NeumannTiles, plan>, true}};
constexpr WideGpuForm wide = {1, run_wide<deltanet_sites, WideTiles, plan>};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom deltanet = {"deltanet", tile::forms, &tile::wide};
}
