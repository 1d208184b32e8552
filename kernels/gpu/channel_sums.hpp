#pragma once
// Tiles of the programs of kernels/programs/channel_sums.hpp on the device.
#include "kernels/gpu/cuda_device.hpp"

namespace assay::tile {

/// A chunk and the value columns of a block with which four blocks of the gradients fit in a multiprocessor; `tile` is
/// the CPU's with the same chunk.
struct ChannelChunk {
  int tile, length, values;
};
template <Format F>
constexpr ChannelChunk channel_chunk() {
  if (F == Format::fp64) return {2, 16, 32};
  if (F == Format::tf32) return {2, 16, 64};
  return {1, 32, 64};
}
inline int channel_tile(const Problem&, Format precision) {
  return precision == Format::fp64 || precision == Format::tf32 ? 2 : 1;
}

/// Narrow blocks of a pass take short steps, and its columns do not touch each other.
template <class P, int D>
struct ChannelTiles {
  static constexpr ChannelChunk chunk = channel_chunk<P::precision>();
  using Executor = MmaBlock<P, chunk.length / 16>;
  static constexpr int tokens = chunk.length, dim = D, values = chunk.values, read_values = 2 * values,
                       pass_values = 16, channels = imin(D, 64), stages = 3;
};

}  // namespace assay::tile
