// Softmax attention on the device: launches and instances.
#include "kernels/gpu/attention.hpp"
#include "kernels/plans/softmax_attention.hpp"

namespace assay::tile {
namespace {

template <Format F>
using TiledPolicy = StaticPolicy<softmax_tiled_sites, F>;
template <Format F>
using DecodePolicy = StaticPolicy<softmax_decode_sites, F>;

/// Bf16 and fp16 run on warpgroups, 64 rows each.
template <class P, int D>
struct TensorCoreTiles {
  using Shapes = AttentionTiles<P::precision>;
  using B = MmaBlock<P, Shapes::warps>;
  using Forward = TilePass<B, Shapes::rows, Shapes::keys, 2, 2>;
  using Query = Forward;
  using Key = Forward;
};
template <class P, int D>
struct WarpgroupTiles {
  using Shapes = AttentionTiles<P::precision>;
  using B = WarpgroupBlock<P, warpgroups>;
  using Forward = TilePass<B, 64 * warpgroups, 128, D == 64 ? 4 : 2, 1>;
  using Query = WarpgroupGradientPass<B, 64 * warpgroups, Shapes::keys, 2>;
  using Key = WarpgroupGradientPass<B, Shapes::rows, 64 * warpgroups, 4>;
};
template <class P, int D>
struct Tiles : std::conditional_t<on_warpgroups<P::precision>, WarpgroupTiles<P, D>, TensorCoreTiles<P, D>> {
  static constexpr int dim = D;
  static constexpr bool has_gradients = P::precision != Format::e4m3;
};

Answer run_tiled(const Problem& problem, Format precision, GpuTimes* times) {
  const AttentionShape shape(problem);
  return with_attention_instance(precision, shape, [&]<Format F, int D>() {
    using P = TiledPolicy<F>;
    return softmax_tiled_plan<Tiles<P, D>>(CudaAttentionDevice<P>(shape, times), shape, problem);
  });
}
Answer run_split_decode(const Problem& problem, Format precision, GpuTimes* times) {
  const AttentionShape shape(problem);
  return with_attention_instance(precision, shape, [&]<Format F, int D>() {
    using P = DecodePolicy<F>;
    return softmax_decode_plan<DecodeTiles<P, D>>(CudaAttentionDevice<P>(shape, times), shape, problem);
  });
}

/// Forward passes on warpgroups take 128 keys to a step.
int softmax_tile(const Problem& problem, Format precision) {
  return precision == Format::bf16 || precision == Format::fp16 ? 3 : tiled_tile(problem, precision);
}

constexpr GpuForm forms[] = {{"tiled", attention_obstacle, softmax_tile, run_tiled, true},
                             {"split_decode", decode_obstacle, decode_tile, run_split_decode}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom softmax_attention = {"softmax_attention", tile::forms};
}
