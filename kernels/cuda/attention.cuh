#pragma once
// What the launch code of the softmax rooms shares on the device.
#include "kernels/core/attention.hpp"
#include "kernels/cuda/launch.cuh"

namespace assay::tile {

inline constexpr double log2e = 1.4426950408889634;

/// Tile shapes by precision: what fits in registers and shared memory. `tile` is the CPU's with the same keys to a
/// step; rows do not touch each other, so their number changes no bit.
template <Format F>
struct AttentionTiles {
  static constexpr int tile = 0, rows = 64, keys = 64, warps = 4;
  static constexpr int forward_rows = F == Format::tf32 ? 64 : 128;
  static constexpr int decode_tile = 0, decode_keys = 64, decode_span = 256;
};
template <>
struct AttentionTiles<Format::fp64> {
  static constexpr int tile = 1, rows = 32, keys = 32, warps = 2, forward_rows = 32;
  static constexpr int decode_tile = 1, decode_keys = 32, decode_span = 64;
};
inline constexpr int decode_rows = 16;

inline int tiled_tile(const Problem&, Format precision) {
  return precision == Format::fp64 ? AttentionTiles<Format::fp64>::tile : AttentionTiles<Format::bf16>::tile;
}
inline int decode_tile(const Problem&, Format precision) {
  return precision == Format::fp64 ? AttentionTiles<Format::fp64>::decode_tile
                                   : AttentionTiles<Format::bf16>::decode_tile;
}
inline std::string attention_obstacle(const Problem& problem, Format precision) {
  const AttentionShape shape(problem);
  return device_dim_obstacle(shape.key_dim, shape.value_dim, precision);
}

/// dh = -(ln 2 / h) sum_i dh_i, summed in double, heads and rows ascending.
inline Array bandwidth_gradient(const DeviceArray& dh, double bandwidth) {
  double sum = 0;
  for (const double row : dh.values()) sum += row;
  return Array({}, {-sum / (log2e * bandwidth)});
}

}  // namespace assay::tile
