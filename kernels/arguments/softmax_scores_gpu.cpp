// Softmax attention with arguments on the device: launches and instances. All of them run on warps of their own.
#include "kernels/arguments/scores.hpp"
#include "kernels/gpu/wide_attention.hpp"
#include "kernels/plans/softmax_attention.hpp"

namespace assay::tile {
namespace {

constexpr auto tiled = []<class Tiles>(Instance<Tiles>, const auto&... on) { return softmax_tiled_plan<Tiles>(on...); };
constexpr auto decode = []<class Tiles>(Instance<Tiles>, const auto&... on) {
  return softmax_decode_plan<Tiles>(on...);
};

std::string scores_obstacle(const Problem& problem, Format precision) {
  return argument_dim_obstacle(without_arguments(problem), precision, absorbed_head_dim);
}
std::string scores_decode_obstacle(const Problem& problem, Format precision) {
  return argument_decode_obstacle(without_arguments(problem), precision, absorbed_head_dim);
}

constexpr GpuForm forms[] = {
    {"tiled", scores_obstacle, argument_tile,
     run_scores<softmax_scores_sites, absorbed_head_dim, DeviceTiles, tiled, false>},
    {"split_decode", scores_decode_obstacle, argument_decode_tile,
     run_scores<softmax_scores_decode_sites, absorbed_head_dim, DeviceDecodeTiles, decode, true>}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom softmax_attention_with_arguments = {"softmax_attention+arguments", tile::forms};
}
