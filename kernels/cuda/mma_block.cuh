#pragma once
// MmaBlock: one thread block, mma.sync tensor cores, cp.async loads. Its warps are a grid: `Warps` of them deal out an
// accumulator's rows, `Parts` its columns. A host that plans launches knows executors by
// their names, and by the types of arguments and tiles.
#if defined(__CUDACC__)
#include "kernels/cuda/mma_channels.cuh"
#else
#include "kernels/cuda/arguments.hpp"
#endif

namespace assay::tile {

#if defined(__CUDACC__)
template <class P_, int Warps_, int Parts_ = 1>
struct MmaBlock : MmaChannels<P_, Warps_, Parts_> {
  using P = P_;
  using MmaChannels<P, Warps_, Parts_>::MmaChannels;
};
#else
template <class P, FixedString S, int R, int C>
struct SharedTile {
  static constexpr Format format = format_of<P, S>;
  static constexpr int rows = R, cols = C;
};
template <class P_, int Warps, int Parts = 1>
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
