#pragma once
// Which heads attention's device kernels with arguments are compiled for, and the tiles of the wide ones.
#include <algorithm>
#include <string>

#include "kernels/arguments/head_dims.hpp"
#include "kernels/cuda/wide_block.cuh"
#include "kernels/gpu/attention.hpp"
#include "kernels/plans/scores.hpp"

namespace assay::tile {

/// The widest head of a precision: bf16 is the one that has wide ones, the others check the code.
inline int widest_device_head(Format precision, int widest) { return precision == Format::bf16 ? widest : 64; }

/// Rows are loaded 16 bytes at a time and stored 8 numbers at a time.
inline std::string argument_dim_obstacle(const Problem& plain, Format precision, int widest) {
  if (precision == Format::e4m3) return attention_obstacle(plain, precision);
  const AttentionShape shape(plain);
  const int compiled = widest_device_head(precision, widest);
  for (const int d : {shape.key_dim, shape.value_dim}) {
    if (d % 8 != 0) return text("device kernels with arguments take K and V of multiples of 8, got ", d);
    if (d > compiled)
      return text("device kernels with arguments in ", name_of(precision), " are compiled for K and V of up to ",
                  compiled, ", got ", d);
    if (d > latent_head_dim && !plain.cotangents.empty())
      return text("gradients are compiled for K and V of up to ", latent_head_dim, ", got ", d);
  }
  return "";
}
inline std::string argument_decode_obstacle(const Problem& plain, Format precision, int widest) {
  Problem forward;
  forward.inputs = plain.inputs, forward.params = plain.params;
  return argument_dim_obstacle(forward, precision, widest);
}

inline int widest_dim(const Problem& problem) {
  const AttentionShape shape(without_arguments(problem));
  return std::max(shape.key_dim, shape.value_dim);
}
/// Absorbed heads leave room for steps of 32 keys.
inline int argument_tile(const Problem& problem, Format precision) {
  return widest_dim(problem) > latent_head_dim ? 1 : tiled_tile(problem, precision);
}
inline int argument_decode_tile(const Problem& problem, Format precision) {
  return widest_dim(problem) > latent_head_dim ? 1 : decode_tile(problem, precision);
}

/// with_attention_instance, and wide heads.
template <int Widest, class F>
Answer with_argument_instance(Format precision, const AttentionShape& shape, F f) {
  const int d = std::max(shape.key_dim, shape.value_dim);
  if (d <= max_head_dim) return with_attention_instance(precision, shape, f);
  if constexpr (Widest > latent_head_dim)
    if (d > latent_head_dim) return f.template operator()<Format::bf16, absorbed_head_dim>();
  return f.template operator()<Format::bf16, latent_head_dim>();
}

/// The tiles of operands that are dequantized.
template <class P>
struct DeviceOperandTiles {
  static constexpr int rows = 64, dim = 64;
  using Executor = MmaBlock<P, rows / 16>;
};

/// Plan(tiles, device, shape, problem, arguments) with Tiles<policy, head dimension>, in the instance of that problem.
/// Heads of the widest alone come quantized.
template <const SiteTable& Sites, int Widest, template <class, int> class Tiles, auto Plan, bool Decodes>
Answer run_scores(const Problem& problem, Format precision, GpuTimes* timed) {
  const AttentionShape shape = shape_of(problem, without_arguments(problem));
  return with_argument_instance<Widest>(precision, shape, [&]<Format F, int D>() {
    using P = StaticPolicy<Sites, F>;
    using Device = CudaAttentionDevice<P>;
    const Device device(shape, timed);
    const auto planned = [&](const Problem& own) {
      return Plan(Instance<Tiles<P, D>>{}, device, shape, without_arguments(own),
                  ArgumentLaunch<Device, Decodes>(device, shape, own));
    };
    if constexpr (Widest > latent_head_dim)
      return with_dequantized<DeviceOperandTiles<P>>(device, problem, planned);
    else
      return planned(problem);
  });
}

/// The tiles that fit in shared memory: 64 rows and 64 keys of up to 256 channels, 32 keys of more.
template <class P, int D>
struct DeviceTiles {
  using Shapes = AttentionTiles<P::precision>;
  static constexpr bool absorbed = D > latent_head_dim;
  using B = std::conditional_t<absorbed, WideBlock<P, Shapes::warps>, MmaBlock<P, Shapes::warps>>;
  using Forward = TilePass<B, Shapes::rows, absorbed ? 32 : Shapes::keys, 2, 1>;
  using Query = Forward;
  using Key = Forward;
  using Rows = TilePass<B, Shapes::rows, 0, 0, 1>;
  static constexpr int dim = D;
  static constexpr bool has_gradients = P::precision != Format::e4m3 && !absorbed;
};
template <class P, int D>
struct DeviceDecodeTiles : DecodeTiles<P, D> {
  static constexpr bool absorbed = D > latent_head_dim;
  using Executor = std::conditional_t<absorbed, WideBlock<P, 1>, MmaBlock<P, 1>>;
  static constexpr int step = absorbed ? 32 : DecodeTiles<P, D>::step, span = absorbed ? 64 : DecodeTiles<P, D>::span;
};

}  // namespace assay::tile
