// FALCON-2A on the device: launches and instances.
#include "kernels/gpu/decayed_sums.hpp"
#include "kernels/plans/falcon2a.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto& device, const auto& shape, const Problem& problem) {
  return normalizes(problem) ? falcon2a_plan<Tiles, true>(device, shape, problem)
                             : falcon2a_plan<Tiles, false>(device, shape, problem);
};

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, sum_tile, run_plan<falcon2a_sites, SumTiles, plan>}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom falcon2a = {"falcon2a", tile::forms};
}
