#pragma once
// Decays of MmaBlock, a number for every row, and their adjoints.
#include "kernels/cuda/mma_products.cuh"

namespace assay::tile {

template <class P_, int Warps_>
struct MmaDecays : MmaProducts<P_, Warps_> {
  using P = P_;
  using Base = MmaProducts<P, Warps_>;
  using Base::Base, Base::scratch, Base::scratch_elements, Base::sync, Base::threads, Base::w, Base::Warps;
  using typename Base::Real;
  using typename Base::RowIn;

  /// d(i, j) = prod_{j < l <= i - lag} exp(g_l), 1 where no gate is left, 0 above the diagonal; one column per thread.
  template <class St, class Dst>
  TILE_FN void decay_ratios(St, Dst& d, const RowIn& g, int head, int row0, int lag = 0) {
    constexpr int N = Dst::rows;
    static_assert(Dst::cols == N && N <= threads);
    using E = typename Dst::E;
    const int j = threadIdx.x;
    for (int i = 0; i < lag && j < N; ++i) d.at(i, j) = E(j <= i ? 1.f : 0.f);
    Real product = 1;
    this->template each_decay<N, false>(g, head, row0, N, [&](Real alpha, int l) {
      product = l <= j ? Real(1) : round_as<format_at<P, St>>(rounded_product(product, alpha));
      const int i = l + lag;
      if (i < N && j < N) d.at(i, j) = E(round_as<Dst::format>(j <= i ? product : Real(0)));
    });
  }

  // ---- adjoints of the decays: rows are spread over warps, so these meet in scratch memory.

  /// Row r sums z(i, j) over j < r <= i - lag: a thread runs up its column and leaves what it has, and four add up a
  /// row.
  template <class St, class Src>
  TILE_FN auto gates_of_ratios(St st, Src& z, int lag = 0) {
    constexpr int N = Src::rows;
    static_assert(Src::cols == N && N <= threads && N % 8 == 0);
    if (const int j = threadIdx.x; j < N) {
      Real below = 0;
#pragma unroll 8
      for (int i = N - 1; i >= lag; --i) {
        below += Real(z.at(i, j));
        z.at(i, j) = typename Src::E(j < i - lag ? below : Real(0));
      }
    }
    sync();
    auto o = this->row(st, Shape<N>{}, 0);
    this->each_row(o, [&](Real& y, int r) {
      if (r + lag < N)
#pragma unroll
        for (int j = 0; j < N; j += 4) y += Real(z.at(r + lag, j + w.slot()));
      y += __shfl_xor_sync(~0u, y, 1);
      y += __shfl_xor_sync(~0u, y, 2);
    });
    sync();
    return o;
  }
  /// Row r sums z(i) over r <= i - lag.
  template <class St, class T, int MT>
  TILE_FN auto gates_of_prefix(St, const RowRegisters<T, MT>& z, int lag = 0) {
    RowRegisters<T, MT> o;
    T sum = 0;
    each_gathered(z, [&](int i, int rows, const T* all) {
      const int r = rows - 1 - i;
      if (r + lag < rows) sum += all[r + lag];
      this->each_row(o, [&](T& y, int mine) { y = mine == r ? sum : y; });
    });
    return o;
  }
  /// Row r sums z(i) over i < r.
  template <class St, class T, int MT>
  TILE_FN auto gates_of_suffix(St, const RowRegisters<T, MT>& z) {
    RowRegisters<T, MT> o;
    T sum = 0;
    each_gathered(z, [&](int r, int, const T* all) {
      this->each_row(o, [&](T& y, int mine) { y = mine == r ? sum : y; });
      sum += all[r];
    });
    return o;
  }
  /// Every row sums all of z.
  template <class St, int R, class T, int MT>
  TILE_FN auto gates_of_total(St st, Shape<R> shape, const RowRegisters<T, MT>& z) {
    T sum = 0;
    each_gathered(z, [&](int r, int, const T* all) { sum += all[r]; });
    return this->row(st, shape, sum);
  }

  /// The rows' values, by column.
  template <class T, int MT>
  TILE_FN auto column_of(const RowRegisters<T, MT>& z) {
    constexpr int rows = MT * 16 * Warps;
    static_assert(rows <= scratch_elements);
    this->each_row(z, [&](const T& y, int r) {
      if (w.slot() == 0) scratch()[r] = y;
    });
    sync();
    ColRegisters<T, rows / 8> o;
#pragma unroll
    for (int nt = 0; nt < rows / 8; ++nt)
#pragma unroll
      for (int i = 0; i < 2; ++i) o.v[nt][i] = scratch()[nt * 8 + 2 * w.slot() + i];
    sync();
    return o;
  }

 private:
  /// f(i, rows, z of all rows) for i in [0, rows).
  template <class T, int MT, class F>
  TILE_FN void each_gathered(const RowRegisters<T, MT>& z, F f) {
    constexpr int rows = MT * 16 * Warps;
    static_assert(rows <= scratch_elements);
    this->each_row(z, [&](const T& y, int r) {
      if (w.slot() == 0) scratch()[r] = y;
    });
    sync();
#pragma unroll 8
    for (int i = 0; i < rows; ++i) f(i, rows, scratch());
    sync();
  }
};

}  // namespace assay::tile
