#pragma once
// Recurrences with keys and values of up to 256 channels on the device, in bf16: the rooms' own plans at one more
// dimension, in chunks that leave room for it.
#include "kernels/cuda/wide_block.cuh"
#include "kernels/gpu/cuda_device.hpp"

namespace assay::tile {

inline constexpr int widest_device_keys = 256;

/// `Tokens` of a chunk, 16 to a warp, and the value columns of a block.
template <class P, int Tokens, int Values>
struct WideDeviceTiles {
  using Executor = WideBlock<P, Tokens / 16>;
  using Pass = Executor;
  using Chunks = WideBlock<P, Tokens / 16, 2>;
  static constexpr int tokens = Tokens, dim = widest_device_keys, values = Values, read_values = Values,
                       gradient_values = Values, pass_values = 16, stages = 2;
};
template <class P, int D>
using WideTiles = WideDeviceTiles<P, 32, 32>;
template <class P, int D>
using WideChannelTiles = WideDeviceTiles<P, 16, 32>;

/// run_plan in that instance.
template <const SiteTable& Sites, template <class, int> class Tiles, auto Plan>
Answer run_wide(const Problem& problem, GpuTimes* timed) {
  using P = StaticPolicy<Sites, Format::bf16>;
  const RecurrenceShape shape(problem);
  return Plan(Instance<Tiles<P, widest_device_keys>>{}, CudaDevice<P>(shape, timed), shape, problem);
}

}  // namespace assay::tile
