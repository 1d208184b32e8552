// RetNet on the device: launches and instances.
#include "kernels/decayed/retnet.hpp"
#include "kernels/gpu/decayed_sums.hpp"
#include "kernels/gpu/wide_recurrences.hpp"
#include "kernels/plans/retnet.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) { return retnet_plan<Tiles>(on...); };

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, sum_tile, run_plan<retnet_sites, SumTiles, plan>}};
constexpr WideGpuForm wide = {1, run_wide<retnet_sites, WideTiles, plan>};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom retnet = {"retnet", tile::forms, &tile::wide};
}
