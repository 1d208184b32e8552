#pragma once
// MmaBlock for the tiles of wide heads: rows that are no power of two, and tiles of 16 rows that share lines.
#include <type_traits>

#include "kernels/cuda/mma_block.cuh"

namespace assay::tile {

#if defined(__CUDACC__)
/// Where a line holds four rows, 16 of them fill four lines of the eight that are swizzled as one.
template <class P, FixedString S, int R, int C>
using LinesOf = SharedTile<P, S, R == 16 && C * sizeof(Element<format_of<P, S>>) == 32 ? 2 * R : R, C>;

template <class P_, int Warps_, int Parts_ = 1>
struct WideBlock : MmaBlock<P_, Warps_, Parts_> {
  using P = P_;
  using Base = MmaBlock<P, Warps_, Parts_>;
  using Base::Base, Base::threads;
  using typename Base::In;

  template <FixedString S, int R, int C>
  struct Tile : LinesOf<P, S, R, C> {
    static constexpr int rows = R;
  };

  /// MmaBlock's, whatever chunks there are in a row.
  template <class Tl>
  TILE_FN void load(Tl& t, const In& g, int head, int row0, int col0 = 0) {
    using E = typename Tl::E;
    constexpr int chunks = Tl::chunks, size = Tl::chunk_elements;
    const int step = g.beside * g.cols;
    const E* const base = static_cast<const E*>(g.p) + g.at(head, row0) * g.cols + col0;
#pragma unroll 4
    for (int i = threadIdx.x; i < Tl::rows * chunks; i += threads) {
      const int r = i / chunks, c = i % chunks;
      this->load_chunk(t, r, c, base + r * step + c * size, row0 + r < g.rows && col0 + c * size < g.cols);
    }
  }
};
#else
template <class P, int Warps, int Parts = 1>
struct WideBlock : MmaBlock<P, Warps, Parts> {};
#endif

}  // namespace assay::tile
