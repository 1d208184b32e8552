#pragma once
// Shared launch code of the softmax rooms on the device.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/core/scaled_operands.hpp"
#include "kernels/cuda/warpgroup_gradients.cuh"
#include "kernels/gpu/cuda_device.hpp"
#include "kernels/programs/split_decode.hpp"

namespace assay::tile {

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
/// The obstacle of a form whose gradients are wanted where the problem has cotangents, or "".
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
struct DeviceUnits {
  using Units = OperandUnits<double>;
  DeviceArray array;
  explicit DeviceUnits(const ScaledOperands& operands)
      : array(format_of<P, "descale">, 1, static_cast<int>(operands.units().size()), sizeof(Units) / sizeof(double),
              listed(operands)) {}
  const OperandUnits<typename P::Real>* data() const {
    return static_cast<const OperandUnits<typename P::Real>*>(array.data());
  }

 private:
  static std::vector<double> listed(const ScaledOperands& operands) {
    std::vector<double> values;
    for (const Units& u : operands.units()) values.insert(values.end(), {u.query, u.key, u.value, u.probe, u.weight});
    return values;
  }
};

/// Tiles of `step` rows; `shared_bytes` is what one head's blocks read in common.
inline RowGrid row_grid(int heads, int rows, int step, double shared_bytes, bool first_is_longest) {
  constexpr double cache = 24e6;  // half of Hopper's L2
  const int group = static_cast<int>(std::clamp(cache / std::max(shared_bytes, 1.0), 1.0, static_cast<double>(heads)));
  return {heads, ceil_div(rows, step), step, group, first_is_longest};
}

/// A GPU as a device that the launches of the softmax rooms are planned for (kernels/host/attention_device.hpp).
template <class P>
class CudaAttentionDevice : public CudaDevice<P> {
 public:
  using Real = typename P::Real;
  using CudaDevice<P>::CudaDevice;

  template <FixedString Site>
  Real positive_gate(double x) const {
    return real<P>(gate_scalar(Policy::of(P::sites, P::precision), Site.view(), x));
  }
  ScaledOperands scaled(const AttentionShape& shape, const Problem& problem, Real scale) const {
    return ScaledOperands(shape, problem.inputs, Policy::of(P::sites, P::precision), scale);
  }
  DeviceUnits<P> units(const ScaledOperands& operands) const { return DeviceUnits<P>(operands); }
  /// Warpgroups load by tensor maps.
  template <class Executor, class Tile>
  typename Executor::In tiles_of(const DeviceArray& x) const {
    if constexpr (std::is_same_v<typename Executor::In, MappedIn>)
      return mapped(x, Tile::format, Tile::rows);
    else
      return x.in();
  }
  double bytes(const DeviceArray& x) const { return static_cast<double>(x.bytes()); }

  template <class Kernel, class Executor, int MinBlocks = 1>
  void launch_rows(std::uint64_t, int heads, int rows, int tile_rows, RowOrder order,
                   const typename Kernel::Args& args) const {
    const RowGrid grid = row_grid(heads, rows, tile_rows, order.shared_bytes, order.first_is_longest);
    if constexpr (std::is_same_v<typename Executor::In, MappedIn>)
      launch_blocks<WarpgroupLaunch<Kernel, Executor, RowGrid>>(args, grid, true);
    else
      launch_blocks<BlockLaunch<Kernel, Executor, MinBlocks, RowGrid>>(args, grid, packs_launches<P>);
  }
};

/// A pass over tiles: its executor, rows and keys of a tile, and how many blocks are to fit on a multiprocessor.
template <class B, int Rows, int Keys, int Stages, int MinBlocks>
struct TilePass {
  using Executor = B;
  static constexpr int rows = Rows, keys = Keys, stages = Stages, min_blocks = MinBlocks;
  template <class Kernel>
  using Program = Kernel;
};
/// A backward one on warpgroups.
template <class B, int Rows, int Keys, int Stages>
struct WarpgroupGradientPass : TilePass<B, Rows, Keys, Stages, 1> {
  template <class Kernel>
  using Program = OnWarpgroups<Kernel>;
};

/// The tiles of decoding.
template <class P, int D>
struct DecodeTiles {
  using Shapes = AttentionTiles<P::precision>;
  using Executor = MmaBlock<P, 1>;
  static constexpr int rows = decode_rows, dim = D, step = Shapes::decode_keys, span = Shapes::decode_span, stages = 2;
  static constexpr int merged = 16, merged_at_once = tile::merged_at_once<P::precision>;
};

}  // namespace assay::tile
