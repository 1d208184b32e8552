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
inline namespace ASSAY_EXECUTORS {

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
  std::vector<OperandUnits<T>> units(const ScaledOperands& operands) const {
    return operands.template units<T>(this->policy());
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
    host_launch<Kernel, T>(launch_policy(this->policy(), number), args, heads * tiles,
                           [=](int i) { return std::pair(i / tiles, i % tiles * tile_rows); });
  }
};

/// Tiles of rows and keys on the CPU: BF keys to a step of a forward pass, BN to one of a backward pass.
template <class T, int BM, int BF, int BN, int D>
struct HostAttentionTiles {
  template <int Keys>
  struct Pass {
    using Executor = HostBlock<T>;
    static constexpr int rows = BM, keys = Keys, stages = 2, min_blocks = 1;
    template <class Kernel>
    using Program = Kernel;
  };
  using Forward = Pass<BF>;
  using Query = Pass<BN>;
  using Key = Pass<BN>;
  using Rows = Pass<BN>;  ///< of what no key is needed for
  static constexpr int dim = D;
  static constexpr bool has_gradients = true;
};

/// Of decoding: `Step` keys to a step, at least `Span` to a split.
template <class T, int Step, int Span, int D>
struct HostDecodeTiles {
  using Executor = HostBlock<T>;
  static constexpr int rows = decode_rows, dim = D, step = Step, span = Span, stages = 2;
  static constexpr int merged = D < 32 ? D : 32, merged_at_once = 8;  ///< columns of a block that merges, and its parts
};

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
  return with_scalar_and_head_dim(policy, shape, [&]<class T, int D>() {
    const HostAttentionDevice<T> device(shape, policy);
    if (tile == 1) return plan.template operator()<HostDecodeTiles<T, 32, 64, D>>(device, shape);
    if (tile == 2) return plan.template operator()<HostDecodeTiles<T, 16, 16, D>>(device, shape);
    return plan.template operator()<HostDecodeTiles<T, 64, 256, D>>(device, shape);
  });
}

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
