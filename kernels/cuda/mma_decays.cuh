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

  // ---- decays: products of exp(g), never quotients, so that exp(-inf) = 0 is an ordinary gate. They are joined in
  // halves of halves by the lanes of a warp, every warp for itself, where the host has one after the other.

  /// Row i holds prod_{l <= i - lag} exp(g_l).
  template <class St, int R>
  TILE_FN auto decay_prefix(St st, Shape<R> shape, const RowIn& g, int head, int row0, int lag = 0) {
    const auto product = [](Real x, Real y) { return decayed<St>(x, y); };
    auto z = decays_in_lanes<R>(g, head, row0);
    z.template scan<false>(product);
    return row_of(st, shape, z, -lag, 1);
  }
  /// Row i holds prod_{l > i} exp(g_l) up to the end of the R rows.
  template <class St, int R>
  TILE_FN auto decay_suffix(St st, Shape<R> shape, const RowIn& g, int head, int row0) {
    const auto product = [](Real x, Real y) { return decayed<St>(x, y); };
    auto z = decays_in_lanes<R>(g, head, row0);
    z.template scan<true>(product);
    return row_of(st, shape, z, 1, 1);
  }
  /// Every one of R rows holds prod_{l < count} exp(g_l).
  template <class St, int R>
  TILE_FN auto decay_total(St st, Shape<R> shape, const RowIn& g, int head, int row0, int count) {
    Real total = 1;
    for (int l = w.lane; l < count; l += 32) total = decayed<St>(total, decay(g, head, row0 + l));
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      total = decayed<St>(total, __shfl_xor_sync(~0u, total, distance));
    return this->row(st, shape, total);
  }

  /// Row i holds exp(g_i).
  template <class St, int R>
  TILE_FN auto decays(St st, Shape<R> shape, const RowIn& g, int head, int row0) {
    auto o = this->row(st, shape, 1);
    const typename Base::Numbers numbers(g, head, row0);
    this->each_row(o, [&](Real& y, int r) {
      const Real x = numbers.at(r);
      if (row0 + r < g.rows) y = round_as<format_at<P, St>>(g.logs ? Base::exponential(x) : x);
    });
    return o;
  }

  /// d(i, j) = prod_{j < l <= i - lag} exp(g_l), 1 where no gate is left, 0 above the diagonal. Warps deal out blocks
  /// of 32 rows and columns, and a lane walks down its column, below the diagonal from where the block above it ends.
  template <class St, class Dst>
  TILE_FN void decay_ratios(St, Dst& d, const RowIn& g, int head, int row0, int lag = 0) {
    constexpr int N = Dst::rows, size = imin(N, 32), side = N / size;
    static_assert(Dst::cols == N && side * size == N && side <= 2);
    const auto product = [](Real x, Real y) { return decayed<St>(x, y); };
    const auto late = decays_in_lanes<N>(g, head, row0, lag);
    Real above = 1;
    if constexpr (side == 2) {
      auto rest = decays_in_lanes<size>(g, head, row0, lag);
      rest.template scan<true>(product);
      above = rest.at(w.lane + lag + 1, 1);
    }
    sync();
    for (int block = threadIdx.x / 32; block < side * side; block += threads / 32) {
      const int columns = block % side, rows = (block / side + columns) % side, i0 = rows * size;
      const int j = columns * size + w.lane;
      Real x = above;
#pragma unroll 8
      for (int r = 0; r < size; ++r) {
        const Real alpha = __shfl_sync(~0u, rows == 0 ? late.x[0] : late.x[side - 1], r);
        x = i0 + r > j + lag ? decayed<St>(x, alpha) : Real(i0 + r >= j);
        if (w.lane < size) d.at(i0 + r, j) = typename Dst::E(round_as<Dst::format>(x));
      }
    }
    sync();
  }

  // ---- adjoints of the decays.

  /// Row r sums z(i, j) over j < r <= i - lag: a thread runs up its rows of a column and leaves what it has with what
  /// is below, and four add up a row.
  template <class St, class Src>
  TILE_FN auto gates_of_ratios(St st, Src& z, int lag = 0) {
    constexpr int N = Src::rows, count = N * N / threads;
    static_assert(Src::cols == N && threads % N == 0 && threads <= scratch_elements);
    const int j = threadIdx.x % N, first = threadIdx.x / N * count;
    Real below[count];
#pragma unroll
    for (int k = count - 1; k >= 0; --k)
      below[k] = (first + k < lag ? Real(0) : Real(z.at(first + k, j))) + (k == count - 1 ? Real(0) : below[k + 1]);
    scratch()[threadIdx.x] = below[0];
    sync();
    Real later = 0;
    for (int t = threads - N + j; t > int(threadIdx.x); t -= N) later += scratch()[t];
#pragma unroll
    for (int k = 0; k < count; ++k)
      z.at(first + k, j) = typename Src::E(j < first + k - lag ? later + below[k] : Real(0));
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
    auto sums = in_lanes(z);
    sums.template scan<true>([](Real x, Real y) { return x + y; });
    return row_of(st, Shape<MT * 16 * Warps>{}, sums, lag, 0);
  }
  /// Row r sums z(i) over i < r.
  template <class St, int MT>
  TILE_FN auto gates_of_suffix(St st, const RowRegisters<Real, MT>& z) {
    auto sums = in_lanes(z);
    sums.template scan<false>([](Real x, Real y) { return x + y; });
    return row_of(st, Shape<MT * 16 * Warps>{}, sums, -1, 0);
  }
  /// Every row sums all of z: every lane of a warp some of it, then all of them theirs.
  template <class St, int R, int MT>
  TILE_FN auto gates_of_total(St st, Shape<R> shape, const RowRegisters<Real, MT>& z) {
    const auto all = in_lanes(z);
    Real sum = all.x[0];
#pragma unroll
    for (int e = 1; e < all.groups; ++e) sum += all.x[e];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
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

  // ---- The numbers of all rows meet in scratch memory.

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
    for (int l = threadIdx.x; l < count; l += threads) scratch()[l] = decay(g, head, row0 + l);
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

  /// The decay of a row, 1 beyond the end.
  TILE_FN static Real decay(const RowIn& g, int head, int row) {
    const Real x = typename Base::Numbers(g, head, row).at(0);
    return row >= g.rows ? Real(1) : g.logs ? Base::exponential(x) : x;
  }

  /// N numbers, p in lane p % 32 of every warp.
  template <int N>
  struct InLanes {
    static constexpr int groups = (N + 31) / 32;
    Real x[groups];

    /// Number p, or `missing`. All lanes come.
    TILE_FN Real at(int p, Real missing) const {
      Real y = missing;
#pragma unroll
      for (int e = 0; e < groups; ++e) {
        const Real here = __shfl_sync(~0u, x[e], p & 31);
        if (p >> 5 == e) y = here;
      }
      return y;
    }
    /// Each joined with all before it, or with all after it.
    template <bool Backwards, class F>
    TILE_FN void scan(F join) {
      const int lane = Backwards ? 31 - int(threadIdx.x & 31) : int(threadIdx.x & 31);
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2)
#pragma unroll
        for (int e = 0; e < groups; ++e) {
          const Real other = Backwards ? __shfl_down_sync(~0u, x[e], distance) : __shfl_up_sync(~0u, x[e], distance);
          if (lane >= distance) x[e] = join(x[e], other);
        }
#pragma unroll
      for (int i = 1; i < groups; ++i) {
        const int e = Backwards ? groups - 1 - i : i;
        x[e] = join(x[e], __shfl_sync(~0u, x[Backwards ? e + 1 : e - 1], Backwards ? 0 : 31));
      }
    }
  };
  /// Row p has exp(g) of the row `late` before it, 1 where there is none.
  template <int N>
  TILE_FN static auto decays_in_lanes(const RowIn& g, int head, int row0, int late = 0) {
    InLanes<N> z;
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int e = 0; e < z.groups; ++e) {
      const int p = e * 32 + lane;
      z.x[e] = p < late || p >= N ? Real(1) : decay(g, head, row0 + p - late);
    }
    return z;
  }
  /// The rows' numbers, with zeros up to whole groups.
  template <int MT>
  TILE_FN auto in_lanes(const RowRegisters<Real, MT>& rows) {
    constexpr int N = MT * 16 * Warps;
    InLanes<N> z;
    gather(rows);
    sync();
#pragma unroll
    for (int e = 0; e < z.groups; ++e) z.x[e] = e * 32 + w.lane < N ? scratch()[e * 32 + w.lane] : Real(0);
    sync();
    return z;
  }
  /// The numbers of R rows, or of those `shift` behind, or `missing`.
  template <class St, int R>
  TILE_FN auto row_of(St st, Shape<R> shape, const InLanes<R>& z, int shift, Real missing) {
    auto o = this->row(st, shape, missing);
    this->each_row(o, [&](Real& y, int r) { y = z.at(r + shift, missing); });
    return o;
  }
};

}  // namespace assay::tile
