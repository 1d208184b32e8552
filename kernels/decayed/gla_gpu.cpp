// Gated linear attention on the device: launches and instances.
#include "kernels/decayed/gla.hpp"
#include "kernels/gpu/channel_sums.hpp"
#include "kernels/gpu/wide_recurrences.hpp"
#include "kernels/plans/gla.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) { return gla_plan<Tiles>(on...); };

constexpr GpuForm forms[] = {
    {"chunkwise", recurrence_obstacle, channel_tile, run_plan<gla_sites, ChannelTiles, plan>, true}};
constexpr WideGpuForm wide = {1, run_wide<gla_sites, WideTiles, plan>};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom gla = {"gla", tile::forms, &tile::wide};
}
