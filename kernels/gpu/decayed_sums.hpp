#pragma once
// Tiles of the programs of kernels/programs/decayed_sums.hpp on the device.
#include "kernels/gpu/cuda_device.hpp"

namespace assay::tile {

/// A chunk and the value columns of a block that fit in shared memory; `tile` is the CPU's with the same chunk.
struct SumChunk {
  int tile, length, values;
};
template <Format F>
constexpr SumChunk sum_chunk() {
  if (F == Format::fp64 || F == Format::tf32) return {1, 32, 64};
  return {0, 64, 64};
}
inline int sum_tile(const Problem&, Format precision) {
  return precision == Format::fp64 || precision == Format::tf32 ? 1 : 0;
}

template <class P, int D>
struct SumTiles {
  static constexpr SumChunk chunk = sum_chunk<P::precision>();
  using Executor = MmaBlock<P, chunk.length / 16>;
  using Pass = MmaBlock<P, chunk.length / 16, chunk.length / 32>;
  using Chunks = Pass;
  static constexpr int tokens = chunk.length, dim = D, values = chunk.values, pass_values = chunk.length / 2,
                       gradient_values = 32, stages = 2;
};

}  // namespace assay::tile
