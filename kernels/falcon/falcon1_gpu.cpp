// FALCON-1 on the device: launches and instances.
#include "kernels/falcon/falcon1.hpp"
#include "kernels/gpu/gated_delta.hpp"
#include "kernels/plans/falcon_rule.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) { return falcon_rule_plan<Tiles>(on...); };

constexpr GpuForm forms[] = {
    {"chunkwise", recurrence_obstacle, gated_delta_tile, run_plan<falcon1_sites, DeltaTiles, plan>}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom falcon1 = {"falcon1", tile::forms};
}
