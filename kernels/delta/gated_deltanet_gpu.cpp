// Gated DeltaNet on the device: launches and instances.
#include "kernels/delta/gated_deltanet.hpp"
#include "kernels/gpu/gated_delta.hpp"
#include "kernels/plans/gated_delta.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto& device, const auto& shape, const Problem& problem) {
  int lag = 0;
  OptionReader read(problem.params);
  read("error", lag, {{"decayed", 0}, {"undecayed", 1}});
  return gated_delta_plan<Tiles, DeltaRule::decays>(device, shape, problem, lag);
};

constexpr GpuForm forms[] = {
    {"chunkwise", recurrence_obstacle, gated_delta_tile, run_plan<gated_deltanet_sites, DeltaTiles, plan>, true}};
constexpr WideGpuForm wide = {1, run_wide<gated_deltanet_sites, WideTiles, plan>};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom gated_deltanet = {"gated_deltanet", tile::forms, &tile::wide};
}
