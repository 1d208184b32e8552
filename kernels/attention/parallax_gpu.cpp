// Parallax on the device: launches and instances.
#include <algorithm>

#include "kernels/gpu/attention.hpp"
#include "kernels/plans/parallax.hpp"

namespace assay::tile {
namespace {

/// The policies of both forms, whose sites have the same formats: their backward passes are the same kernels.
template <Format F>
using TiledPolicy = StaticPolicy<parallax_covariance_sites, F>;
template <Format F>
using DecodePolicy = StaticPolicy<parallax_decode_sites, F>;

/// A step of a forward pass on warpgroups: 128 keys where registers hold them, else 64.
constexpr bool takes_128_keys(int dim, bool covariance) { return dim == 64 && !covariance; }

/// Bf16 and fp16 run on warpgroups, 64 rows each.
template <class P, int D, bool Covariance>
struct TensorCoreTiles {
  using Shapes = AttentionTiles<P::precision>;
  using B = MmaBlock<P, Shapes::warps>;
  using Forward = TilePass<B, Shapes::rows, Shapes::keys, 2, 2>;
  using Query = TilePass<B, Shapes::rows, Shapes::keys, 2, 1>;
  using Key = Query;
};
template <class P, int D, bool Covariance>
struct WarpgroupTiles {
  using Shapes = AttentionTiles<P::precision>;
  using B = WarpgroupBlock<P, warpgroups>;
  static constexpr bool wide = takes_128_keys(D, Covariance);
  using Forward = TilePass<B, 64 * warpgroups, wide ? 128 : Shapes::keys, wide ? 2 : 4, 1>;
  using Query = WarpgroupGradientPass<B, 64 * warpgroups, parallax_key_pass_queries<Shapes::rows, D>, 4>;
  using Key = WarpgroupGradientPass<B, Shapes::rows, 64 * warpgroups, 4>;
};
template <class P, int D, bool Covariance>
struct Tiles : std::conditional_t<on_warpgroups<P::precision>, WarpgroupTiles<P, D, Covariance>,
                                  TensorCoreTiles<P, D, Covariance>> {
  using Rows = TilePass<MmaBlock<P, AttentionTiles<P::precision>::warps>, AttentionTiles<P::precision>::rows, 0, 0, 2>;
  static constexpr int dim = D;
  static constexpr bool has_gradients = P::precision != Format::e4m3;
};

template <Format F, int D, bool Covariance>
Answer tiled(const AttentionShape& shape, const Problem& problem, GpuTimes* times) {
  using P = TiledPolicy<F>;
  return parallax_tiled_plan<Tiles<P, D, Covariance>, Covariance>(CudaAttentionDevice<P>(shape, times), shape, problem);
}

/// The form of softmax attention that a forward pass without a probe runs as (W_R = 0, as the host sees), or null: it
/// is that to the bit, in the same tiles, and costs no more. The tiles are softmax attention's then, and so is `tile`.
const GpuForm* without_probe(std::string_view form, const Problem& problem) {
  const std::vector<double>& rho = problem.inputs.at("rho").data;
  const bool none = problem.cotangents.empty() && !rho.empty() &&
                    std::all_of(rho.begin(), rho.end(), [](double x) { return x == 0; });
  return none ? find_gpu_form("softmax_attention", form) : nullptr;
}

Answer run_tiled(const Problem& problem, Format precision, GpuTimes* times) {
  if (const GpuForm* softmax = without_probe("tiled", problem)) return softmax->run(problem, precision, times);
  const AttentionShape shape(problem);
  return with_attention_instance(precision, shape,
                                 [&]<Format F, int D>() { return tiled<F, D, false>(shape, problem, times); });
}
Answer run_covariance(const Problem& problem, Format precision, GpuTimes* times) {
  const AttentionShape shape(problem);
  return with_instance(precision, std::max(shape.key_dim, shape.value_dim),
                       [&]<Format F, int D>() { return tiled<F, D, true>(shape, problem, times); });
}
std::string covariance_obstacle(const Problem& problem, Format precision) {
  return precision == Format::e4m3 ? "this form has no device kernel in e4m3" : attention_obstacle(problem, precision);
}
Answer run_split_decode(const Problem& problem, Format precision, GpuTimes* times) {
  if (const GpuForm* softmax = without_probe("split_decode", problem)) return softmax->run(problem, precision, times);
  const AttentionShape shape(problem);
  return with_attention_instance(precision, shape, [&]<Format F, int D>() {
    using P = DecodePolicy<F>;
    return parallax_decode_plan<DecodeTiles<P, D>>(CudaAttentionDevice<P>(shape, times), shape, problem);
  });
}

int parallax_tile(const Problem& problem, Format precision) {
  if (const GpuForm* softmax = without_probe("tiled", problem)) return softmax->tile(problem, precision);
  const AttentionShape shape(problem);
  const bool wide = takes_128_keys(std::max(shape.key_dim, shape.value_dim), false);
  return wide && (precision == Format::bf16 || precision == Format::fp16) ? 3 : tiled_tile(problem, precision);
}

constexpr GpuForm forms[] = {{"tiled", attention_obstacle, parallax_tile, run_tiled, true},
                             {"split_decode", decode_obstacle, decode_tile, run_split_decode},
                             {"covariance", covariance_obstacle, tiled_tile, run_covariance}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom parallax = {"parallax", tile::forms};
}
