// Comba on the device: launches and instances.
#include "kernels/delta/comba.hpp"
#include "kernels/gpu/gated_delta.hpp"
#include "kernels/plans/gated_delta.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) {
  return gated_delta_plan<Tiles, DeltaRule::predicts>(on..., 1);
};

constexpr GpuForm forms[] = {
    {"chunkwise", recurrence_obstacle, gated_delta_tile, run_plan<comba_sites, DeltaTiles, plan>, true}};
constexpr WideGpuForm wide = {1, run_wide<comba_sites, WideTiles, plan>};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom comba = {"comba", tile::forms, &tile::wide};
}
