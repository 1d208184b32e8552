#pragma once
// Decays of MmaBlock with a column per key channel, as a shared tile of the factors alpha: one thread runs along a
// column, so that what it reads and writes is its own.
#include "kernels/cuda/mma_decays.cuh"

namespace assay::tile {

template <class P_, int Warps_, int Parts_>
struct MmaChannels : MmaDecays<P_, Warps_, Parts_> {
  using P = P_;
  using Base = MmaDecays<P, Warps_, Parts_>;
  using Base::Base, Base::threads;
  using typename Base::In;
  using typename Base::Real;

  /// Rows and columns beyond the end act as alpha = 1.
  template <class St, class Tl>
  TILE_FN void channel_decays(St, Tl& alpha, const In& g, int head, int row0) {
    using E = typename Tl::E;
    const E* base = static_cast<const E*>(g.p) + g.at(head, row0) * g.cols;
#pragma unroll 16
    for (int i = threadIdx.x; i < Tl::rows * Tl::cols; i += threads) {
      const int r = i / Tl::cols, c = i % Tl::cols;
      alpha.at(r, c) =
          row0 + r < g.rows && c < g.cols
              ? E(round_as<format_at<P, St>>(Base::exponential(base[std::size_t(r * g.beside) * g.cols + c])))
              : E(1);
    }
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

  // ---- and their adjoints.

  /// dg(r) = sum_{i >= r} from(i) + sum_{j < r} before(j).
  template <class St, class Dst, class Src>
  TILE_FN void channel_gates(St, Dst& dg, const Src& from, const Src& before) {
    each_channel<Dst>([&](int c) {
      Real sums[Dst::rows], sum = 0;
#pragma unroll
      for (int r = Dst::rows - 1; r >= 0; --r) sums[r] = sum += Real(from.at(r, c));
      sum = 0;
#pragma unroll
      for (int r = 0; r < Dst::rows; ++r) {
        dg.at(r, c) = sums[r] + sum;
        sum += Real(before.at(r, c));
      }
    });
  }
  /// Adds to dX(i), dK(j) and dg(r) what the cotangent of channel_scores, lower triangular, gives them. Sums of a row
  /// are chains, so four rows run side by side.
  template <class Sum, class St, class Ct, class X, class K, class Src, class Dx, class Dk, class Dg>
  TILE_FN void channel_adjoint(Sum, St, const Ct& dA, const X& x, const K& k, const Src& alpha, Dx& dx, Dk& dk,
                               Dg& dg) {
    each_channel<K>([&](int c) {
      adjoint_of_rows<St>(dA, x, k, alpha, dx, dg, c);
      adjoint_of_keys<St>(dA, x, alpha, dk, c);
    });
  }

  /// Four weights of a row, from column k on, which is a multiple of 4.
  struct Four {
    alignas(16) Real x[4];
    template <class Ct>
    TILE_FN Four(const Ct& A, int i, int k) {
      static_assert(std::is_same_v<typename Ct::E, Real>);
      copy_chunks(x, A, i, k);
    }
  };

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

  /// reached: of a row i, the sum over j < r.
  template <class St, class Ct, class X, class K, class Src, class Dx, class Dg>
  TILE_FN static void adjoint_of_rows(const Ct& dA, const X& x, const K& k, const Src& alpha, Dx& dx, Dg& dg, int c) {
    constexpr int N = Ct::rows;
    Real gates[N];
#pragma unroll
    for (int r = 0; r < N; ++r) gates[r] = dg.at(r, c);
#pragma unroll 1
    for (int i = 0; i < N; i += 4) {
      Real reached[4][N], y[4] = {};
#pragma unroll
      for (int j = 0; j < N; j += 4) {
        if (j > i) continue;
        const Four weight[4] = {{dA, i, j}, {dA, i + 1, j}, {dA, i + 2, j}, {dA, i + 3, j}};
#pragma unroll
        for (int u = 0; u < 4; ++u) {
          const Real a = alpha.at(j + u, c), key = Real(k.at(j + u, c));
#pragma unroll
          for (int g = 0; g < 4; ++g) {
            reached[g][j + u] = y[g];
            if (j + u <= i + g) y[g] = fma(weight[g].x[u], key, decay<St>(y[g], a));
          }
        }
      }
#pragma unroll
      for (int g = 0; g < 4; ++g) dx.at(i + g, c) += y[g], y[g] = Real(x.at(i + g, c));
#pragma unroll
      for (int r = N - 1; r > 0; --r) {
        if (r / 4 * 4 > i) continue;
        const Real a = alpha.at(r, c);
#pragma unroll
        for (int g = 0; g < 4; ++g)
          if (r <= i + g) {
            y[g] = decay<St>(y[g], a);
            gates[r] = fma(reached[g][r], y[g], gates[r]);
          }
      }
    }
#pragma unroll
    for (int r = 0; r < N; ++r) dg.at(r, c) = gates[r];
  }
  template <class St, class Ct, class X, class Src, class Dk>
  TILE_FN static void adjoint_of_keys(const Ct& dA, const X& x, const Src& alpha, Dk& dk, int c) {
    constexpr int N = Ct::rows;
    Real sums[N] = {};
#pragma unroll 1
    for (int i = N - 1; i >= 0; --i) {
      const Real a = i + 1 < N ? alpha.at(i + 1, c) : Real(1), query = Real(x.at(i, c));
#pragma unroll
      for (int j = 0; j < N; j += 4) {
        if (j > i) continue;
        const Four weight(dA, i, j);
#pragma unroll
        for (int u = 0; u < 4; ++u)
          if (j + u <= i) sums[j + u] = fma(weight.x[u], query, decay<St>(sums[j + u], a));
      }
    }
#pragma unroll
    for (int j = 0; j < N; ++j) dk.at(j, c) += sums[j];
  }
};

}  // namespace assay::tile
