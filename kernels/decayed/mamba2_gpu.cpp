// Mamba-2 on the device: launches and instances.
#include "kernels/decayed/mamba2.hpp"
#include "kernels/gpu/decayed_sums.hpp"
#include "kernels/gpu/wide_recurrences.hpp"
#include "kernels/plans/mamba2.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) { return mamba2_plan<Tiles>(on...); };

constexpr GpuForm forms[] = {
    {"chunkwise", recurrence_obstacle, sum_tile, run_plan<mamba2_sites, SumTiles, plan>, true}};
constexpr WideGpuForm wide = {1, run_wide<mamba2_sites, WideTiles, plan>};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom mamba2 = {"mamba2", tile::forms, &tile::wide};
}
