// Parallax with arguments on the device: launches and instances.
#include "kernels/arguments/scores.hpp"
#include "kernels/gpu/wide_attention.hpp"
#include "kernels/plans/parallax.hpp"

namespace assay::tile {
namespace {

constexpr auto tiled = []<class Tiles>(Instance<Tiles>, const auto&... on) {
  return parallax_tiled_plan<Tiles, false>(on...);
};
constexpr auto decode = []<class Tiles>(Instance<Tiles>, const auto&... on) {
  return parallax_decode_plan<Tiles>(on...);
};

std::string scores_obstacle(const Problem& problem, Format precision) {
  return scale_of(problem) == 0 ? "no tile program of parallax takes a scale of 0"
                                : argument_dim_obstacle(without_arguments(problem), precision, latent_head_dim);
}
std::string scores_decode_obstacle(const Problem& problem, Format precision) {
  return argument_decode_obstacle(without_arguments(problem), precision, latent_head_dim);
}

constexpr GpuForm forms[] = {
    {"tiled", scores_obstacle, argument_tile,
     run_scores<parallax_scores_sites, latent_head_dim, DeviceTiles, tiled, false>},
    {"split_decode", scores_decode_obstacle, argument_decode_tile,
     run_scores<parallax_scores_decode_sites, latent_head_dim, DeviceDecodeTiles, decode, true>}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom parallax_with_arguments = {"parallax+arguments", tile::forms};
}
