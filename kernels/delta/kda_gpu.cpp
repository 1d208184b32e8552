// Kimi Delta Attention on the device: launches and instances.
#include "kernels/delta/kda.hpp"
#include "kernels/gpu/channel_sums.hpp"
#include "kernels/gpu/wide_recurrences.hpp"
#include "kernels/plans/kda.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) { return kda_plan<Tiles>(on...); };

constexpr GpuForm forms[] = {
    {"chunkwise", recurrence_obstacle, channel_tile, run_plan<kda_sites, ChannelTiles, plan>, true}};
constexpr WideGpuForm wide = {1, run_wide<kda_sites, WideTiles, plan>};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom kda = {"kda", tile::forms, &tile::wide};
}
