#pragma once
// MmaBlock for the tiles of wide heads: rows that are no power of two, and tiles of 16 rows that share lines.
#include <type_traits>

#include "kernels/cuda/mma_block.cuh"

namespace assay::tile {

#if defined(__CUDACC__)
/// Where a line holds four rows, 16 of them fill four lines of the eight that are swizzled as one.
template <class P, FixedString S, int R, int C>
using LinesOf = SharedTile<P, S, R == 16 && C * sizeof(Element<format_of<P, S>>) == 32 ? 2 * R : R, C>;

template <class P_, int Warps_>
struct WideBlock : MmaBlock<P_, Warps_> {
  using P = P_;
  using Base = MmaBlock<P, Warps_>;
  using Base::Base, Base::scratch, Base::sync, Base::threads, Base::w, Base::Warps;
  using typename Base::In;
  using typename Base::Real;

  template <FixedString S, int R, int C>
  struct Tile : LinesOf<P, S, R, C> {
    static constexpr int rows = R;
  };

  /// As many as a state has rows.
  static constexpr int scratch_elements = 256;
  static constexpr int scratch_bytes = scratch_elements * sizeof(Real);

  /// MmaBlock's, whatever chunks there are in a row.
  template <class Tl>
  TILE_FN void load(Tl& t, const In& g, int head, int row0, int col0 = 0) {
    using E = typename Tl::E;
    constexpr int all = Tl::rows * Tl::chunks;
    const E* base = static_cast<const E*>(g.p) + g.at(head, row0) * g.cols;
    const std::size_t step = g.beside * g.cols;
    const std::uint32_t destination = shared_address(t.raw);
#pragma unroll 4
    for (int i = threadIdx.x; i < all; i += threads) {
      const int r = i / Tl::chunks, chunk = i % Tl::chunks, col = col0 + chunk * Tl::chunk_elements;
      const bool inside = row0 + r < g.rows && col < g.cols;
      const void* source = inside ? base + r * step + col : static_cast<const E*>(g.p);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination + Tl::chunk_offset(r, chunk)),
                   "l"(source), "r"(inside ? 16 : 0)
                   : "memory");
    }
  }

  /// MmaBlock's, of more rows.
  template <class St, int R, class T, int MT>
  TILE_FN auto gates_of_total(St st, Shape<R> shape, const RowRegisters<T, MT>& z) {
    gather(z);
    T sum = 0;
#pragma unroll 8
    for (int r = 0; r < MT * 16 * Warps; ++r) sum += scratch()[r];
    sync();
    return this->row(st, shape, sum);
  }
  template <class T, int MT>
  TILE_FN auto column_of(const RowRegisters<T, MT>& z) {
    gather(z);
    ColRegisters<T, MT * 2 * Warps> o;
#pragma unroll
    for (int nt = 0; nt < MT * 2 * Warps; ++nt)
#pragma unroll
      for (int i = 0; i < 2; ++i) o.v[nt][i] = scratch()[nt * 8 + 2 * w.slot() + i];
    sync();
    return o;
  }

 private:
  /// Every row's value to scratch memory.
  template <class T, int MT>
  TILE_FN void gather(const RowRegisters<T, MT>& z) {
    static_assert(MT * 16 * Warps <= scratch_elements);
    this->each_row(z, [&](const T& y, int r) {
      if (w.slot() == 0) scratch()[r] = y;
    });
    sync();
  }
};
#else
template <class P, int Warps>
struct WideBlock : MmaBlock<P, Warps> {};
#endif

}  // namespace assay::tile
