// Parallax with arguments on the device: launches and instances.
#include "kernels/arguments/scores.hpp"
#include "kernels/gpu/wide_attention.hpp"
#include "kernels/plans/parallax.hpp"

namespace assay::tile {
namespace {

template <Format F>
using TiledPolicy = StaticPolicy<parallax_scores_sites, F>;
template <Format F>
using DecodePolicy = StaticPolicy<parallax_scores_decode_sites, F>;

Answer run_tiled(const Problem& problem, Format precision, GpuTimes* times) {
  const Problem plain = without_arguments(problem);
  const AttentionShape shape = shape_of(problem, plain);
  return with_argument_instance<latent_head_dim>(precision, shape, [&]<Format F, int D>() {
    using Device = CudaAttentionDevice<TiledPolicy<F>>;
    const Device device(shape, times);
    return parallax_tiled_plan<DeviceTiles<TiledPolicy<F>, D>, false>(device, shape, plain,
                                                                      ArgumentLaunch<Device>(device, shape, problem));
  });
}
Answer run_split_decode(const Problem& problem, Format precision, GpuTimes* times) {
  const Problem plain = without_arguments(problem);
  const AttentionShape shape = shape_of(problem, plain);
  return with_argument_instance<latent_head_dim>(precision, shape, [&]<Format F, int D>() {
    using Device = CudaAttentionDevice<DecodePolicy<F>>;
    const Device device(shape, times);
    return parallax_decode_plan<DeviceDecodeTiles<DecodePolicy<F>, D>>(
        device, shape, plain, ArgumentLaunch<Device, true>(device, shape, problem));
  });
}

std::string scores_obstacle(const Problem& problem, Format precision) {
  return scale_of(problem) == 0 ? "no tile program of parallax takes a scale of 0"
                                : argument_dim_obstacle(without_arguments(problem), precision, latent_head_dim);
}
std::string scores_decode_obstacle(const Problem& problem, Format precision) {
  return argument_decode_obstacle(without_arguments(problem), precision, latent_head_dim);
}

constexpr GpuForm forms[] = {{"tiled", scores_obstacle, argument_tile, run_tiled},
                             {"split_decode", scores_decode_obstacle, argument_decode_tile, run_split_decode}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom parallax_with_arguments = {"parallax+arguments", tile::forms};
}
