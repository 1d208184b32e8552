#pragma once
// Tiles of the programs of kernels/programs/gated_delta.hpp on the device.
#include "kernels/gpu/wide_recurrences.hpp"

namespace assay::tile {

/// A chunk, the warps that columns are dealt to, and the value columns of a block of a pass and of a step of the
/// gradients. `tile` is the CPU's with the same chunk. Narrow blocks of a pass take short steps, and columns do not
/// touch each other there.
struct Chunk {
  int tile, length, parts, pass_values, gradient_values;
};
template <Format F>
constexpr Chunk chunk_of() {
  if (F == Format::fp64 || F == Format::tf32) return {1, 32, 1, 16, 16};
  return {0, 64, 2, 32, 32};
}
inline int gated_delta_tile(const Problem&, Format precision) {
  return precision == Format::fp64 || precision == Format::tf32 ? 1 : 0;
}

template <class P, int D>
struct DeltaTiles {
  static constexpr Chunk chunk = chunk_of<P::precision>();
  using Executor = MmaBlock<P, chunk.length / 16>;
  using Pass = MmaBlock<P, chunk.length / 16, chunk.parts>;
  using Chunks = Pass;
  static constexpr int tokens = chunk.length, dim = D, values = D, pass_values = chunk.pass_values,
                       gradient_values = chunk.gradient_values, stages = 2;
};

}  // namespace assay::tile
