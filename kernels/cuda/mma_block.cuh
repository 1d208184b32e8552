#pragma once
// MmaBlock: one thread block, mma.sync tensor cores, cp.async loads. A host that plans launches knows executors by
// their names, and by the types of arguments and tiles.
#if defined(__CUDACC__)
#include "kernels/cuda/mma_channels.cuh"
#else
#include "kernels/cuda/arguments.hpp"
#endif

namespace assay::tile {

#if defined(__CUDACC__)
template <class P_, int Warps_>
struct MmaBlock : MmaChannels<P_, Warps_> {
  using P = P_;
  using MmaChannels<P, Warps_>::MmaChannels;
};
#else
template <class P, FixedString S, int R, int C>
struct SharedTile {
  static constexpr Format format = format_of<P, S>;
  static constexpr int rows = R, cols = C;
};
template <class P_, int Warps>
struct MmaBlock {
  using P = P_;
  using Real = typename P::Real;
  using In = MatrixIn;
  using Out = MatrixOut;
  using RowIn = RowsIn;
  using RowOut = RowsOut;
  template <FixedString S, int R, int C>
  using Tile = SharedTile<P, S, R, C>;
  template <class... Tiles>
  using InTurn = SideBySide<Tiles...>;
};
#endif

}  // namespace assay::tile
