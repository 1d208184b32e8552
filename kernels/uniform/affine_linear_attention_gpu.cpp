// Affine linear attention on the device: launches and instances.
#include "kernels/gpu/decayed_sums.hpp"
#include "kernels/plans/affine_linear_attention.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto&... on) {
  return affine_linear_attention_plan<Tiles>(on...);
};

std::string obstacle(const Problem& problem, Format precision) {
  const RecurrenceShape shape = uniform_shape(problem);
  return device_dim_obstacle(shape.key_dim, shape.value_dim, precision);
}

constexpr GpuForm forms[] = {
    {"chunkwise", obstacle, sum_tile, run_plan<affine_linear_attention_sites, SumTiles, plan, uniform_shape>}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom affine_linear_attention = {"affine_linear_attention", tile::forms};
}
