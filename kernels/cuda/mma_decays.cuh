#pragma once
// Decays of MmaBlock, a number for every row, and their adjoints.
#include "kernels/cuda/mma_products.cuh"

namespace assay::tile {

template <class P_, int Warps_, int Parts_>
struct MmaDecays : MmaProducts<P_, Warps_, Parts_> {
  using P = P_;
  using Base = MmaProducts<P, Warps_, Parts_>;
  using Base::Base, Base::scratch, Base::scratch_elements, Base::sync, Base::threads, Base::w, Base::Warps;
  using typename Base::Real;
  using typename Base::RowIn;

  // ---- decays: running products of exp(g) in the order of the rows, so that exp(-inf) = 0 is an ordinary gate.

  /// Row i holds prod_{l <= i - lag} exp(g_l).
  template <class St, int R>
  TILE_FN auto decay_prefix(St st, Shape<R> shape, const RowIn& g, int head, int row0, int lag = 0) {
    gather_decays(g, head, row0, R);
    chain<false>(R, 1, [](Real& product, Real alpha) { return product = decayed<St>(product, alpha); });
    return row_of_scratch(st, shape, -lag, 1);
  }
  /// Row i holds prod_{l > i} exp(g_l) up to the end of the R rows.
  template <class St, int R>
  TILE_FN auto decay_suffix(St st, Shape<R> shape, const RowIn& g, int head, int row0) {
    gather_decays(g, head, row0, R);
    chain<true>(R, 1, [](Real& product, Real alpha) {
      const Real later = product;
      product = decayed<St>(product, alpha);
      return later;
    });
    return row_of_scratch(st, shape);
  }
  /// Every one of R rows holds prod_{l < count} exp(g_l).
  template <class St, int R>
  TILE_FN auto decay_total(St st, Shape<R> shape, const RowIn& g, int head, int row0, int count) {
    gather_decays(g, head, row0, count);
    chain<false>(count, 1, [](Real& product, Real alpha) { return product = decayed<St>(product, alpha); });
    const Real total = count > 0 ? scratch()[count - 1] : Real(1);
    sync();
    return this->row(st, shape, total);
  }

  /// Row i holds exp(g_i).
  template <class St, int R>
  TILE_FN auto decays(St st, Shape<R> shape, const RowIn& g, int head, int row0) {
    auto o = this->row(st, shape, 1);
    this->each_row(o, [&](Real& y, int r) {
      const Real x = Base::element(g, head, row0 + r);
      if (row0 + r < g.rows) y = round_as<format_at<P, St>>(g.logs ? Base::exponential(x) : x);
    });
    return o;
  }

  /// d(i, j) = prod_{j < l <= i - lag} exp(g_l), 1 where no gate is left, 0 above the diagonal; one column per thread.
  template <class St, class Dst>
  TILE_FN void decay_ratios(St, Dst& d, const RowIn& g, int head, int row0, int lag = 0) {
    constexpr int N = Dst::rows;
    static_assert(Dst::cols == N && N <= threads);
    using E = typename Dst::E;
    gather_decays(g, head, row0, N);
    sync();
    Real product = 1;
    if (const int j = threadIdx.x; j < N)
#pragma unroll 8
      for (int i = 0; i < N; ++i) {
        product = i - lag <= j ? Real(1) : decayed<St>(product, scratch()[i - lag]);
        d.at(i, j) = E(round_as<Dst::format>(j <= i ? product : Real(0)));
      }
    sync();
  }

  // ---- adjoints of the decays.

  /// Row r sums z(i, j) over j < r <= i - lag: a thread runs up its column and leaves what it has, and four add up a
  /// row.
  template <class St, class Src>
  TILE_FN auto gates_of_ratios(St st, Src& z, int lag = 0) {
    constexpr int N = Src::rows;
    static_assert(Src::cols == N && N <= threads && N % 8 == 0);
    if (const int j = threadIdx.x; j < N) {
      Real below = 0;
#pragma unroll 1
      for (int i = N - 8; i >= 0; i -= 8) {
        Real terms[8];  // before they are written over: tiles hide that theirs are eight places
#pragma unroll
        for (int k = 0; k < 8; ++k) terms[k] = i + k < lag ? Real(0) : Real(z.at(i + k, j));
#pragma unroll
        for (int k = 7; k >= 0; --k) {
          below += terms[k];
          z.at(i + k, j) = typename Src::E(j < i + k - lag ? below : Real(0));
        }
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
  template <class St, int MT>
  TILE_FN auto gates_of_prefix(St st, const RowRegisters<Real, MT>& z, int lag = 0) {
    constexpr int rows = MT * 16 * Warps;
    gather(z);
    chain<true>(rows, 0, [](Real& sum, Real x) { return sum += x; });
    return row_of_scratch(st, Shape<rows>{}, lag);
  }
  /// Row r sums z(i) over i < r.
  template <class St, int MT>
  TILE_FN auto gates_of_suffix(St st, const RowRegisters<Real, MT>& z) {
    constexpr int rows = MT * 16 * Warps;
    gather(z);
    chain<false>(rows, 0, [](Real& sum, Real x) {
      const Real earlier = sum;
      sum += x;
      return earlier;
    });
    return row_of_scratch(st, Shape<rows>{});
  }
  /// Every row sums all of z: every lane of a warp some of it, then all of them theirs.
  template <class St, int R, int MT>
  TILE_FN auto gates_of_total(St st, Shape<R> shape, const RowRegisters<Real, MT>& z) {
    constexpr int rows = MT * 16 * Warps;
    gather(z);
    sync();
    Real sum = 0;
#pragma unroll
    for (int r = 0; r < rows; r += 32)
      if (r + w.lane < rows) sum += scratch()[r + w.lane];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
    sync();
    return this->row(st, shape, sum);
  }

  /// The rows' values, by column.
  template <class T, int MT>
  TILE_FN auto column_of(const RowRegisters<T, MT>& z) {
    constexpr int rows = MT * 16 * Warps;
    constexpr int NT = rows / (8 * Parts_);
    gather(z);
    sync();
    ColRegisters<T, NT> o;
#pragma unroll
    for (int nt = 0; nt < NT; ++nt)
#pragma unroll
      for (int i = 0; i < 2; ++i) o.v[nt][i] = scratch()[(w.part * NT + nt) * 8 + 2 * w.slot() + i];
    sync();
    return o;
  }

  // ---- chains: the numbers of all rows meet in scratch memory, and one thread runs along them.

  /// Each row's number, from place `first` on.
  template <class T, int MT>
  TILE_FN void gather(const RowRegisters<T, MT>& z, int first = 0) {
    static_assert(MT * 16 * Warps <= scratch_elements);
    this->each_row(z, [&](const T& y, int r) {
      if (w.slot() == 0 && w.part == 0) scratch()[first + r] = y;
    });
  }
  /// The decays of `count` rows, 1 beyond the end.
  TILE_FN void gather_decays(const RowIn& g, int head, int row0, int count) {
    for (int l = threadIdx.x; l < count; l += threads) {
      const Real x = Base::element(g, head, row0 + l);
      scratch()[l] = row0 + l >= g.rows ? Real(1) : g.logs ? Base::exponential(x) : x;
    }
  }
  /// f() by one thread.
  template <class F>
  TILE_FN void alone(F f) {
    sync();
    if (threadIdx.x == 0) f();
    sync();
  }

 private:
  template <class St>
  TILE_FN static Real decayed(Real product, Real alpha) {
    return round_as<format_at<P, St>>(rounded_product(product, alpha));
  }

  /// What f(carry, x) returns takes the place of each of n numbers x, from the last one if asked; all may read it then.
  template <bool Backwards, class F>
  TILE_FN void chain(int n, Real carry, F f) {
    alone([&] {
#pragma unroll 16
      for (int i = 0; i < n; ++i) {
        Real& x = scratch()[Backwards ? n - 1 - i : i];
        x = f(carry, x);
      }
    });
  }
  /// The numbers of R rows, or of those `shift` behind, or `missing`.
  template <class St, int R>
  TILE_FN auto row_of_scratch(St st, Shape<R> shape, int shift = 0, Real missing = 0) {
    auto o = this->row(st, shape, missing);
    this->each_row(o, [&](Real& y, int r) {
      if (r + shift >= 0 && r + shift < R) y = scratch()[r + shift];
    });
    sync();
    return o;
  }
};

}  // namespace assay::tile
