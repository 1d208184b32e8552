#pragma once
// Decays of MmaBlock with a column per key channel, as a shared tile of the factors alpha: one thread runs along a
// column, so that what it reads and writes is its own.
#include "kernels/cuda/mma_decays.cuh"

namespace assay::tile {

template <class P_, int Warps_>
struct MmaChannels : MmaDecays<P_, Warps_> {
  using P = P_;
  using Base = MmaDecays<P, Warps_>;
  using Base::Base, Base::threads;
  using typename Base::In;
  using typename Base::Real;

  /// Rows and columns beyond the end act as alpha = 1.
  template <class St, class Tl>
  TILE_FN void channel_decays(St, Tl& alpha, const In& g, int head, int row0) {
    using E = typename Tl::E;
    const E* base = static_cast<const E*>(g.p) + std::size_t(head) * g.head_rows * g.cols;
#pragma unroll 4
    for (int i = threadIdx.x; i < Tl::rows * Tl::cols; i += threads) {
      const int r = i / Tl::cols, c = i % Tl::cols;
      alpha.at(r, c) = row0 + r < g.rows && c < g.cols
                           ? E(round_as<format_at<P, St>>(Base::exponential(base[std::size_t(row0 + r) * g.cols + c])))
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
  /// share a column of d and keep its decayed key in registers.
  template <class Sum, class St, class Dst, class X, class K, class Src>
  TILE_FN void channel_scores(Sum, St, Dst& d, const X& x, const K& k, const Src& alpha, int lag = 0) {
    constexpr int N = Dst::rows, half = K::cols / 2, vector = 16 / int(sizeof(Real));
    static_assert(Dst::cols == N && 2 * N == threads);
    using E = typename Dst::E;
    const int j = threadIdx.x / 2, c0 = threadIdx.x % 2 * half;
    Real decayed[half];
#pragma unroll
    for (int c = 0; c < half; ++c) decayed[c] = Real(k.at(j, c0 + c));
#pragma unroll 1
    for (int i = 0; i < N; ++i) {
      if (i - lag > j) {
#pragma unroll
        for (int c = 0; c < half; c += vector) {
          alignas(16) Real a[vector];
          reinterpret_cast<uint4&>(a) = reinterpret_cast<const uint4&>(alpha.at(i - lag, c0 + c));
#pragma unroll
          for (int u = 0; u < vector; ++u)
            decayed[c + u] = round_as<format_at<P, St>>(rounded_product(decayed[c + u], a[u]));
        }
      }
      Real sum = 0;
      if (i >= j) {
#pragma unroll
        for (int c = 0; c < half; c += X::chunk_elements) {
          alignas(16) typename X::E row[X::chunk_elements];
          reinterpret_cast<uint4&>(row) = reinterpret_cast<const uint4&>(x.at(i, c0 + c));
#pragma unroll
          for (int u = 0; u < X::chunk_elements; ++u) sum = fma(Real(row[u]), decayed[c + u], sum);
        }
      }
      sum += __shfl_xor_sync(~0u, sum, 1);
      if (c0 == 0) d.at(i, j) = E(round_as<Dst::format>(i >= j ? sum : Real(0)));
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
  /// Adds to dX(i), dK(j) and dg(r) what the cotangent of channel_scores, lower triangular, gives them.
  template <class Sum, class St, class Ct, class X, class K, class Src, class Dx, class Dk, class Dg>
  TILE_FN void channel_adjoint(Sum, St, const Ct& dA, const X& x, const K& k, const Src& alpha, Dx& dx, Dk& dk,
                               Dg& dg) {
    constexpr int N = Ct::rows;
    each_channel<K>([&](int c) {
      Real gates[N], a[N], keys[N], queries[N], reached[N];
#pragma unroll
      for (int r = 0; r < N; ++r)
        gates[r] = dg.at(r, c), a[r] = alpha.at(r, c), keys[r] = Real(k.at(r, c)), queries[r] = Real(x.at(r, c));
#pragma unroll 1
      for (int i = 0; i < N; ++i) {
        Real y = 0;
#pragma unroll
        for (int j = 0; j < N; ++j) {
          reached[j] = y;
          if (j <= i) y = fma(Real(dA.at(i, j)), keys[j], round_as<format_at<P, St>>(rounded_product(y, a[j])));
        }
        dx.at(i, c) += y;
        y = Real(x.at(i, c));
#pragma unroll
        for (int r = N - 1; r > 0; --r)
          if (r <= i) {
            y = round_as<format_at<P, St>>(rounded_product(y, a[r]));
            gates[r] = fma(reached[r], y, gates[r]);
          }
      }
#pragma unroll 1
      for (int j = 0; j < N; ++j) {
        Real y = 0;
#pragma unroll
        for (int i = N - 1; i >= 0; --i)
          if (i >= j) {
            if (i < N - 1) y = round_as<format_at<P, St>>(rounded_product(y, a[i + 1]));
            y = fma(Real(dA.at(i, j)), queries[i], y);
          }
        dk.at(j, c) += y;
      }
#pragma unroll
      for (int r = 0; r < N; ++r) dg.at(r, c) = gates[r];
    });
  }

 private:
  template <class Tl, class F>
  TILE_FN static void each_channel(F f) {
#pragma unroll 1
    for (int c = threadIdx.x; c < Tl::cols; c += threads) f(c);
  }
};

}  // namespace assay::tile
