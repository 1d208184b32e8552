#pragma once
// Tiles of the programs of kernels/programs/channel_sums.hpp on the device.
#include "kernels/cuda/half_products.cuh"
#include "kernels/gpu/cuda_device.hpp"

namespace assay::tile {

/// A chunk, the warps that columns are dealt to, and the value columns of a block for all chunks at once, of a pass and
/// of outputs; `tile` is the CPU's with the same chunk. Narrow blocks of a pass take short steps, and its columns do
/// not touch each other.
struct ChannelChunk {
  int tile, length, parts, values, pass_values, adjoint_values, read_values;
};
template <Format F>
constexpr ChannelChunk channel_chunk() {
  if (F == Format::fp64) return {2, 16, 1, 32, 16, 16, 64};
  if (F == Format::tf32) return {2, 16, 1, 64, 16, 16, 64};
  return {0, 64, 2, 64, 32, 64, 128};
}
inline int channel_tile(const Problem&, Format precision) {
  return precision == Format::fp64 || precision == Format::tf32 ? 2 : 0;
}

template <class P, int D>
struct ChannelTiles {
  static constexpr ChannelChunk chunk = channel_chunk<P::precision>();
  using Executor = MmaBlock<P, chunk.length / 16>;
  using Pass = MmaBlock<P, chunk.length / 16, chunk.parts>;
  using Chunks = Pass;
  static constexpr int tokens = chunk.length, dim = D, values = chunk.values, read_values = imin(D, chunk.read_values),
                       pass_values = chunk.pass_values, adjoint_values = chunk.adjoint_values, gradient_values = 32,
                       channels = 32, stages = 2;
};

}  // namespace assay::tile
