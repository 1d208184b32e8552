// Value averaging on the device: launches and instances.
#include "kernels/gpu/decayed_sums.hpp"
#include "kernels/plans/value_averaging.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) {
  return value_averaging_plan<Tiles>(on...);
};

std::string obstacle(const Problem& problem, Format precision) {
  const int V = uniform_shape(problem).value_dim;
  return device_dim_obstacle(V, V, precision);
}

constexpr GpuForm forms[] = {
    {"chunkwise", obstacle, sum_tile, run_plan<value_averaging_sites, SumTiles, plan, uniform_shape>}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom value_averaging = {"value_averaging", tile::forms};
}
