// Parallax with arguments on the device: launches and instances.
#include "kernels/arguments/parallax_scores.hpp"
#include "kernels/cuda/attention.cuh"
#include "kernels/plans/parallax.hpp"

namespace assay::tile {
namespace {

template <Format F>
struct TiledPolicy : StaticPolicy<parallax_scores_sites, F> {};
template <Format F>
struct DecodePolicy : StaticPolicy<parallax_scores_decode_sites, F> {};

template <class P, int D>
struct Tiles {
  using Shapes = AttentionTiles<P::precision>;
  using Forward = TilePass<MmaBlock<P, Shapes::warps>, Shapes::rows, Shapes::keys, 2, 1>;
  using Query = Forward;
  using Key = Forward;
  using Rows = TilePass<MmaBlock<P, Shapes::warps>, Shapes::rows, 0, 0, 1>;
  static constexpr int dim = D;
  static constexpr bool has_gradients = P::precision != Format::e4m3;
};

Answer run_tiled(const Problem& problem, Format precision, GpuTimes* times) {
  const Problem plain = without_arguments(problem);
  const AttentionShape shape = shape_of(problem, plain);
  return with_attention_instance(precision, shape, [&]<Format F, int D>() {
    using Device = CudaAttentionDevice<TiledPolicy<F>>;
    const Device device(shape, times);
    return parallax_tiled_plan<Tiles<TiledPolicy<F>, D>, false>(device, shape, plain,
                                                                ArgumentLaunch<Device>(device, shape, problem));
  });
}
Answer run_split_decode(const Problem& problem, Format precision, GpuTimes* times) {
  const Problem plain = without_arguments(problem);
  const AttentionShape shape = shape_of(problem, plain);
  return with_attention_instance(precision, shape, [&]<Format F, int D>() {
    using Device = CudaAttentionDevice<DecodePolicy<F>>;
    const Device device(shape, times);
    return parallax_decode_plan<DecodeTiles<DecodePolicy<F>, D>>(device, shape, plain,
                                                                 ArgumentLaunch<Device, true>(device, shape, problem));
  });
}

std::string scores_obstacle(const Problem& problem, Format precision) {
  return scale_of(problem) == 0 ? "no tile program of parallax takes a scale of 0"
                                : attention_obstacle(without_arguments(problem), precision);
}
std::string scores_decode_obstacle(const Problem& problem, Format precision) {
  return decode_obstacle(without_arguments(problem), precision);
}

constexpr GpuForm forms[] = {{"tiled", scores_obstacle, tiled_tile, run_tiled},
                             {"split_decode", scores_decode_obstacle, decode_tile, run_split_decode}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom parallax_with_arguments = {"parallax+arguments", tile::forms};
}
