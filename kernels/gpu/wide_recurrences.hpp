#pragma once
// Recurrences with keys and values of up to 256 channels on the device, in bf16: the rooms' own plans at one more
// dimension, in chunks that leave room for it.
#include "kernels/cuda/wide_block.cuh"
#include "kernels/gpu/cuda_device.hpp"

namespace assay::tile {

inline constexpr int widest_device_keys = 256;

template <class P, int>
struct WideTiles {
  static constexpr int tokens = 32, dim = widest_device_keys, values = 32, read_values = values,
                       gradient_values = values, pass_values = 16, adjoint_values = pass_values, channels = 32,
                       stages = 2;
  using Executor = WideBlock<P, tokens / 16>;
  using Pass = Executor;
  using Chunks = WideBlock<P, tokens / 16, 2>;
};

/// run_plan in that instance.
template <const SiteTable& Sites, template <class, int> class Tiles, auto Plan>
Answer run_wide(const Problem& problem, GpuTimes* timed) {
  using P = StaticPolicy<Sites, Format::bf16>;
  const RecurrenceShape shape(problem);
  return Plan(Instance<Tiles<P, widest_device_keys>>{}, CudaDevice<P>(shape, timed), shape, problem);
}

}  // namespace assay::tile
