#pragma once
// Tiles of the programs of kernels/programs/gated_delta.hpp on the device.
#include "kernels/gpu/cuda_device.hpp"

namespace assay::tile {

/// A chunk and the value columns of a block, in a pass over the states and in what is done for all chunks at once.
/// `tile` is the CPU's with the same chunk. Narrow blocks of a pass take short steps, and columns do not touch each
/// other there. In the gradients of what columns share, each block rounds its own part, so bits agree with the CPU's
/// only where one block holds all values.
struct Chunk {
  int tile, length, pass_values, values;
};
template <Format F>
constexpr Chunk chunk_of() {
  if (F == Format::fp64) return {1, 32, 16, 16};
  if (F == Format::tf32) return {1, 32, 16, 64};
  return {0, 64, 16, 64};
}

inline int gated_delta_tile(const Problem&, Format precision) {
  return precision == Format::fp64 || precision == Format::tf32 ? 1 : 0;
}

template <class P, int D>
struct DeltaTiles {
  static constexpr Chunk chunk = chunk_of<P::precision>();
  using Executor = MmaBlock<P, chunk.length / 16>;
  static constexpr int tokens = chunk.length, dim = D, values = chunk.values, pass_values = chunk.pass_values,
                       stages = 3;
};

}  // namespace assay::tile
