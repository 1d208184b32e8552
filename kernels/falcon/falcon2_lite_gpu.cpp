// FALCON-2-lite on the device: launches and instances.
#include "kernels/gpu/gated_delta.hpp"
#include "kernels/plans/falcon_rule.hpp"
#include "kernels/plans/renormalized.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) { return falcon_rule_plan<Tiles>(on...); };
constexpr auto renormalized = []<class Tiles>(Instance<Tiles>, const auto&... on) {
  return renormalized_plan<Tiles>(on...);
};

template <class P, int D>
struct RenormalizedTiles : DeltaTiles<P, D> {
  static constexpr int values = DeltaTiles<P, D>::pass_values;
};

constexpr GpuForm forms[] = {
    {"chunkwise", recurrence_obstacle, gated_delta_tile, run_plan<falcon2_lite_sites, DeltaTiles, plan>},
    {"renormalized", recurrence_obstacle, gated_delta_tile,
     run_plan<renormalized_sites, RenormalizedTiles, renormalized>}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom falcon2_lite = {"falcon2_lite", tile::forms};
}
