#pragma once
// Decays of MmaBlock with a column per channel: of accumulators, row by row, or as a shared tile of the factors alpha,
// where one thread runs along a column, so that what it reads and writes is its own.
#include "kernels/cuda/mma_decays.cuh"

namespace assay::tile {

template <class P_, int Warps_, int Parts_>
struct MmaChannels : MmaDecays<P_, Warps_, Parts_> {
  using P = P_;
  using Base = MmaDecays<P, Warps_, Parts_>;
  using Base::Base, Base::threads;
  using typename Base::Real;

  /// Of row i, row i XOR h: rows of a warp meet in registers.
  template <class Tl, class A>
  TILE_FN A across(Tl& exchange, const A& x, int h) {
    static_assert(std::is_same_v<typename Tl::E, Real>);
    A y = x;
    if (h < 8) {
      y.each([&](Real& to, int, int, int) { to = __shfl_xor_sync(~0u, to, 4 * h); });
    } else if (h == 8) {
      y.each([&](Real& to, int mt, int nt, int i) { to = x.x[mt][nt][i ^ 2]; });
    } else {
      this->put(exchange, x);
      this->sync();
      y.each([&](Real& to, int mt, int nt, int i) {
        to = two_at(exchange, y.row_of(mt, i) ^ h, y.col_of(nt, 0)).x[i & 1];
      });
      this->sync();
    }
    return y;
  }
  template <class St, class Tl>
  TILE_FN void store_line(St, const typename Base::RowOut& g, int head, int row0, const Tl& t, int r) {
    for (int c = threadIdx.x; c < Tl::cols && row0 + c < g.rows; c += threads)
      static_cast<Real*>(g.p)[g.at(head, row0 + c)] = round_as<format_at<P, St>>(t.at(r, c));
  }

  /// d(i) = prod_{l <= i - lag} alpha_l.
  template <class St, class Dst, class Src>
  TILE_FN void channel_prefix(St, Dst& d, const Src& alpha, int lag = 0) {
    each_channel<Dst>([&](int c) {
      Real product = 1;
      for (int i = 0; i < lag; ++i) d.at(i, c) = product;
#pragma unroll
      for (int l = 0; l < Dst::rows; ++l) {
        product = round_as<format_at<P, St>>(rounded_product(product, alpha.at(l, c)));
        if (l + lag < Dst::rows) d.at(l + lag, c) = product;
      }
    });
  }
  /// d(j) = prod_{l > j} alpha_l.
  template <class St, class Dst, class Src>
  TILE_FN void channel_suffix(St, Dst& d, const Src& alpha) {
    each_channel<Dst>([&](int c) {
      Real product = 1;
#pragma unroll
      for (int j = Dst::rows - 1; j >= 0; --j) {
        d.at(j, c) = product;
        product = round_as<format_at<P, St>>(rounded_product(product, alpha.at(j, c)));
      }
    });
  }
  /// Row r holds prod_{l < count} alpha_l of channel r.
  template <class St, int R, class Src>
  TILE_FN auto channel_total(St st, Shape<R> shape, const Src& alpha, int count) {
    static_assert(Src::cols == R);
    auto o = this->row(st, shape, 1);
    this->each_row(o, [&](Real& y, int r) {
#pragma unroll 8
      for (int l = 0; l < count; ++l) y = round_as<format_at<P, St>>(rounded_product(y, alpha.at(l, r)));
    });
    return o;
  }
  /// d(i, j) = sum over channels of x_i k_j prod_{j < l <= i - lag} alpha_l for j <= i, 0 above the diagonal. Two lanes
  /// share a column of d and keep its decayed key in registers; the sums of four rows run side by side.
  template <class Sum, class St, class Dst, class X, class K, class Src>
  TILE_FN void channel_scores(Sum, St, Dst& d, const X& x, const K& k, const Src& alpha, int lag = 0) {
    constexpr int N = Dst::rows, half = K::cols / 2, wide = X::chunk_elements > 4 ? X::chunk_elements : 4;
    static_assert(Dst::cols == N && 2 * N == threads);
    using E = typename Dst::E;
    const int j = threadIdx.x / 2, c0 = threadIdx.x % 2 * half, first_of_warp = threadIdx.x / 32 * 16;
    Real decayed[half];
#pragma unroll
    for (int c = 0; c < half; ++c) decayed[c] = Real(k.at(j, c0 + c));
#pragma unroll 1
    for (int i = 0; i < N; i += 4) {
      Real sums[4] = {};
      if (i + 3 >= first_of_warp) {
#pragma unroll
        for (int c = 0; c < half; c += wide) {
          alignas(16) typename X::E rows[4][wide];
          alignas(16) Real a[4][wide];
#pragma unroll
          for (int g = 0; g < 4; ++g) {
            copy_chunks(rows[g], x, i + g, c0 + c);
            copy_chunks(a[g], alpha, imax(i + g - lag, 0), c0 + c);
          }
#pragma unroll
          for (int u = 0; u < wide; ++u)
#pragma unroll
            for (int g = 0; g < 4; ++g) {
              if (i + g - lag > j) decayed[c + u] = decay<St>(decayed[c + u], a[g][u]);
              sums[g] = fma(Real(rows[g][u]), decayed[c + u], sums[g]);
            }
        }
      }
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        const Real sum = sums[g] + __shfl_xor_sync(~0u, sums[g], 1);
        if (c0 == 0) d.at(i + g, j) = E(round_as<Dst::format>(i + g >= j ? sum : Real(0)));
      }
    }
  }

 private:
  template <class Tl, class F>
  TILE_FN static void each_channel(F f) {
#pragma unroll 1
    for (int c = threadIdx.x; c < Tl::cols; c += threads) f(c);
  }
  /// The elements of row i from column c on, which is a multiple of n, as is n of a chunk's elements.
  template <class E, int n, class Tl>
  TILE_FN static void copy_chunks(E (&to)[n], const Tl& from, int i, int c) {
    static_assert(std::is_same_v<typename Tl::E, E>);
#pragma unroll
    for (int u = 0; u < n; u += Tl::chunk_elements)
      reinterpret_cast<uint4&>(to[u]) = reinterpret_cast<const uint4&>(from.at(i, c + u));
  }
  template <class St>
  TILE_FN static Real decay(Real x, Real alpha) {
    return round_as<format_at<P, St>>(rounded_product(x, alpha));
  }
};

}  // namespace assay::tile
