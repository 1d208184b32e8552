// Linear attention on the device: launches and instances.
#include "kernels/decayed/linear_attention.hpp"
#include "kernels/gpu/decayed_sums.hpp"
#include "kernels/gpu/wide_recurrences.hpp"
#include "kernels/plans/linear_attention.hpp"

namespace assay::tile {
namespace {

constexpr auto plan = []<class Tiles>(Instance<Tiles>, const auto& device, const auto& shape, const Problem& problem) {
  return normalization_of(problem) == Normalization::features
             ? linear_attention_plan<Tiles, true>(device, shape, problem)
             : linear_attention_plan<Tiles, false>(device, shape, problem);
};

constexpr GpuForm forms[] = {
    {"chunkwise", recurrence_obstacle, sum_tile, run_plan<linear_attention_sites, SumTiles, plan>, true}};
constexpr WideGpuForm wide = {1, run_wide<linear_attention_sites, WideTiles, plan>};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom linear_attention = {"linear_attention", tile::forms, &tile::wide};
}
