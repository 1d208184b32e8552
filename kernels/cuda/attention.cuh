#pragma once
// What the launch code of the softmax rooms shares on the device.
#include "kernels/core/scaled_operands.hpp"
#include "kernels/cuda/warpgroup_block.cuh"

namespace assay::tile {

inline constexpr double log2e = 1.4426950408889634;

/// Tile shapes by precision: what fits in registers and shared memory. `tile` is the CPU's with the same keys to a
/// step; rows do not touch each other, so their number changes no bit.
template <Format F>
struct AttentionTiles {
  static constexpr int tile = 0, rows = 64, keys = 64, warps = 4;
  static constexpr int decode_tile = 0, decode_keys = 64, decode_span = 256;
};
template <>
struct AttentionTiles<Format::fp64> {
  static constexpr int tile = 1, rows = 32, keys = 32, warps = 2;
  static constexpr int decode_tile = 1, decode_keys = 32, decode_span = 64;
};
inline constexpr int decode_rows = 16;
/// Parts that a merge loads at a time: as many as fit.
template <Format F>
inline constexpr int merged_at_once = F == Format::fp64 ? 4 : 8;

/// Whether forward passes run on warpgroups, and how many of them: 64 rows each.
template <Format F>
inline constexpr bool on_warpgroups = F == Format::bf16 || F == Format::fp16;
inline constexpr int warpgroups = 2;

inline int tiled_tile(const Problem&, Format precision) {
  return precision == Format::fp64 ? AttentionTiles<Format::fp64>::tile : AttentionTiles<Format::bf16>::tile;
}
inline int decode_tile(const Problem&, Format precision) {
  return precision == Format::fp64 ? AttentionTiles<Format::fp64>::decode_tile
                                   : AttentionTiles<Format::bf16>::decode_tile;
}
/// Of a form whose gradients are wanted where the problem has cotangents.
inline std::string attention_obstacle(const Problem& problem, Format precision) {
  const AttentionShape shape(problem);
  if (precision != Format::e4m3) return device_dim_obstacle(shape.key_dim, shape.value_dim, precision);
  if (!problem.cotangents.empty()) return "device kernels in e4m3 are forward alone, and this problem has cotangents";
  return shape.key_dim == 64 && shape.value_dim == 64
             ? ""
             : text("device kernels in e4m3 are compiled for K and V of 64, got ", shape.key_dim, " and ",
                    shape.value_dim);
}
inline std::string decode_obstacle(const Problem& problem, Format precision) {
  Problem forward_alone;
  forward_alone.inputs = problem.inputs, forward_alone.params = problem.params;
  return attention_obstacle(forward_alone, precision);
}
/// with_instance, and e4m3.
template <class F>
auto with_attention_instance(Format precision, const AttentionShape& shape, F f) {
  if (precision == Format::e4m3) return f.template operator()<Format::e4m3, 64>();
  return with_instance(precision, std::max(shape.key_dim, shape.value_dim), f);
}

/// The units of a room's operands, [kv heads], as rows: those of a sequence follow each other in a pack, too.
template <class P>
DeviceArray upload_units(const ScaledOperands& scaled) {
  using Units = OperandUnits<double>;
  std::vector<double> values;
  for (const Units& u : scaled.units()) values.insert(values.end(), {u.query, u.key, u.value, u.probe, u.weight});
  const int fields = sizeof(Units) / sizeof(double), heads = static_cast<int>(scaled.units().size());
  return DeviceArray(format_of<P, "descale">, 1, heads, fields, values);
}
template <class P>
const OperandUnits<typename P::Real>* units_in(const DeviceArray& units) {
  return static_cast<const OperandUnits<typename P::Real>*>(units.data());
}

/// dh = -(ln 2 / h) sum_i dh_i, summed in double, heads and rows ascending.
inline Array bandwidth_gradient(const DeviceArray& dh, double bandwidth) {
  double sum = 0;
  for (const double row : dh.values()) sum += row;
  return Array({}, {-sum / (log2e * bandwidth)});
}

}  // namespace assay::tile
