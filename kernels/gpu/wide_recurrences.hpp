#pragma once
// Recurrences with keys and values of up to 256 channels on the device, in bf16: the rooms' own plans at one more
// dimension, in chunks that leave room for it.
#include <string_view>

#include "kernels/cuda/wide_block.cuh"
#include "kernels/gpu/cuda_device.hpp"

namespace assay::tile {

inline constexpr int widest_device_keys = 256;

/// The form for problems that a room's own launches do not take; null for a room that is not compiled for it.
struct WideGpuForm {
  int tile;  ///< the CPU's with the same chunk
  Answer (*run)(const Problem& problem, GpuTimes* times);
};
const WideGpuForm* wide_delta_rule_on_gpu(std::string_view mechanism);
const WideGpuForm* wide_sums_on_gpu(std::string_view mechanism);

/// `Tokens` of a chunk, 16 to a warp, and the value columns of a block.
template <class P, int Tokens, int Values>
struct WideDeviceTiles {
  using Executor = WideBlock<P, Tokens / 16>;
  static constexpr int tokens = Tokens, dim = widest_device_keys, values = Values, read_values = Values,
                       pass_values = 16, stages = 2;
};

}  // namespace assay::tile
