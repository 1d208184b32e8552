// Softmax attention with arguments on the device: launches and instances. All of them run on warps of their own.
#include "kernels/arguments/scores.hpp"
#include "kernels/gpu/wide_attention.hpp"
#include "kernels/plans/softmax_attention.hpp"

namespace assay::tile {
namespace {

template <Format F>
using TiledPolicy = StaticPolicy<softmax_scores_sites, F>;
template <Format F>
using DecodePolicy = StaticPolicy<softmax_scores_decode_sites, F>;

template <class P>
struct OperandTiles {
  static constexpr int rows = 64, dim = 64;
  using Executor = MmaBlock<P, rows / 16>;
};

Answer run_tiled(const Problem& problem, Format precision, GpuTimes* times) {
  const Problem plain = without_arguments(problem);
  const AttentionShape shape = shape_of(problem, plain);
  return with_argument_instance<absorbed_head_dim>(precision, shape, [&]<Format F, int D>() {
    using Device = CudaAttentionDevice<TiledPolicy<F>>;
    const Device device(shape, times);
    return with_dequantized<OperandTiles<TiledPolicy<F>>>(device, problem, [&](const Problem& own) {
      return softmax_tiled_plan<DeviceTiles<TiledPolicy<F>, D>>(device, shape, without_arguments(own),
                                                                ArgumentLaunch<Device>(device, shape, own));
    });
  });
}
Answer run_split_decode(const Problem& problem, Format precision, GpuTimes* times) {
  const Problem plain = without_arguments(problem);
  const AttentionShape shape = shape_of(problem, plain);
  return with_argument_instance<absorbed_head_dim>(precision, shape, [&]<Format F, int D>() {
    using Device = CudaAttentionDevice<DecodePolicy<F>>;
    const Device device(shape, times);
    return with_dequantized<OperandTiles<DecodePolicy<F>>>(device, problem, [&](const Problem& own) {
      return softmax_decode_plan<DeviceDecodeTiles<DecodePolicy<F>, D>>(
          device, shape, without_arguments(own), ArgumentLaunch<Device, true>(device, shape, own));
    });
  });
}

std::string scores_obstacle(const Problem& problem, Format precision) {
  return argument_dim_obstacle(without_arguments(problem), precision, absorbed_head_dim);
}
std::string scores_decode_obstacle(const Problem& problem, Format precision) {
  return argument_decode_obstacle(without_arguments(problem), precision, absorbed_head_dim);
}

constexpr GpuForm forms[] = {{"tiled", scores_obstacle, argument_tile, run_tiled},
                             {"split_decode", scores_decode_obstacle, argument_decode_tile, run_split_decode}};

}  // namespace
}  // namespace assay::tile

namespace assay::on_gpu {
extern const GpuRoom softmax_attention_with_arguments = {"softmax_attention+arguments", tile::forms};
}
