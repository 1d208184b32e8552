#pragma once
// The CPU as a device that the launches of the softmax rooms are planned for; kernels/cuda/attention.cuh is the same
// for a GPU.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/attention.hpp"
#include "kernels/core/scaled_operands.hpp"
#include "kernels/host/host_device.hpp"
#include "kernels/programs/split_decode.hpp"
#include "reference/core/error.hpp"

namespace assay::tile {

template <class T>
class HostAttentionDevice : public HostDevice<T> {
 public:
  using typename HostDevice<T>::Values;
  using HostDevice<T>::HostDevice;

  /// A number above zero, or the product with a masked score of -inf would be NaN where it is beyond its site's range.
  template <FixedString Site>
  T positive_gate(T x) const {
    return gate_scalar(this->policy(), Site.view(), x);
  }
  /// Operands of 8 bits in units of their heads, and these units.
  ScaledOperands scaled(const AttentionShape& shape, const Problem& problem, T scale) const {
    return ScaledOperands(shape, problem.inputs, this->policy(), static_cast<double>(scale));
  }
  struct Units {
    std::vector<OperandUnits<T>> all;
    TileDevice::Memory elsewhere{};  ///< in place of `all`
    const OperandUnits<T>* data() const {
      return elsewhere ? reinterpret_cast<const OperandUnits<T>*>(elsewhere.get()) : all.data();
    }
  };
  Units units(const ScaledOperands& operands) const {
    Units units{operands.template units<T>(this->policy())};
    if (TileDevice* const device = this->device()) {
      units.elsewhere = device->memory(units.all.size() * sizeof(units.all[0]) / sizeof(double));
      device->upload(units.elsewhere, units.all.data(), units.all.size() * sizeof(units.all[0]));
    }
    return units;
  }
  /// An array as what a pass loads tiles of.
  template <class Executor, class Tile>
  typename Executor::In tiles_of(const Values& x) const {
    return x.in();
  }
  double bytes(const Values&) const { return 0; }

  /// One block for each head and each tile of `rows`: coordinates (head, first row).
  template <class Kernel, class Executor, int MinBlocks = 1>
  void launch_rows(std::uint64_t number, int heads, int rows, int tile_rows, RowOrder,
                   const typename Kernel::Args& args) const {
    const int tiles = ceil_div(rows, tile_rows);
    this->template launch_blocks<Kernel>(number, args, heads * tiles, tiles, tile_rows);
  }
};

/// Tiles of rows and keys on the CPU: BF keys to a step of a forward pass, BN to one of a backward pass.
template <class T, Size BM, Size BF, Size BN, Size D>
struct HostAttentionTiles {
  template <Size Keys>
  struct Pass {
    using Executor = HostBlock<T>;
    static constexpr Size rows = BM, keys = Keys;
    static constexpr int stages = 2, min_blocks = 1;
    template <class Kernel>
    using Program = Kernel;
  };
  using Forward = Pass<BF>;
  using Query = Pass<BN>;
  using Key = Pass<BN>;
  using Rows = Pass<BN>;  ///< of what no key is needed for
  static constexpr Size dim = D;
  static constexpr bool has_gradients = true;
};

/// Rows of a tile, and keys of a forward and of a backward one.
struct AttentionTile {
  int rows, forward_keys, keys;
};
/// Calls f.template operator()<BM, BF, BN>() with them, behind the choice of a head dimension.
template <class F>
Answer with_tile(AttentionTile tile, F f) {
  using Named = WithSizes::Named;
  const WithSizes sizes(Named{run_time::rows, tile.rows}, Named{run_time::forward_keys, tile.forward_keys},
                        Named{run_time::keys, tile.keys},
                        Named{run_time::few_rows, few_rows(tile.rows, run_time::dim)});
  return f.template operator()<run_time::rows, run_time::forward_keys, run_time::keys>();
}

/// The tiles of decoding: `step` keys to a step, at least `span` to a split.
template <class T, Size D>
struct HostDecodeTiles {
  using Executor = HostBlock<T>;
  static constexpr Size dim = D, step = run_time::step, span = run_time::span;
  static constexpr Size merged = run_time::merged;  ///< columns of a block that merges,
  static constexpr int merged_at_once = 8;          ///< and its parts
  static constexpr int rows = decode_rows, stages = 2;
};
/// Calls f() with those of tile shape `tile`, behind the choice of a head dimension.
template <class F>
Answer with_decode_tile(int tile, F f) {
  using Named = WithSizes::Named;
  const WithSizes sizes(Named{run_time::step, tile == 1   ? 32
                                              : tile == 2 ? 16
                                                          : 64},
                        Named{run_time::span, tile == 1   ? 64
                                              : tile == 2 ? 16
                                                          : 256},
                        Named{run_time::merged, imin(run_time::dim, 32)});
  return f();
}

inline constexpr std::string_view split_decode_tiles[] = {"16x64/256", "16x32/64",
                                                          "16x16/16"};  ///< keys of one split last

inline std::string split_decode_obstacle(const Problem& problem) {
  const int queries = AttentionShape(problem).queries;
  if (queries > decode_rows) return text("decoding takes at most ", decode_rows, " queries, got ", queries);
  return head_dim_obstacle(problem);
}

/// plan<Tiles>(device, shape) in the scalar, the head dimension and the tiles that are asked for.
template <class Plan>
Answer with_decode_tiles(const Problem& problem, const Policy& policy, int tile, const Plan& plan) {
  const AttentionShape shape(problem);
  return with_scalar_and_head_dim(policy, shape, [&]<class T, Size D>() {
    const HostAttentionDevice<T> device(shape, policy);
    return with_decode_tile(tile, [&] { return plan.template operator()<HostDecodeTiles<T, D>>(device, shape); });
  });
}

}  // namespace assay::tile
