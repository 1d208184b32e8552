#pragma once
// MDN's verbs on the device (kernels/host/host_decay_scan.hpp): one column of a tile per thread.
#include "kernels/cuda/mma_block.cuh"

namespace assay::tile {

#if defined(__CUDACC__)
template <class P, class St, class Real>
TILE_FN Real step_back(Real sum, Real decay, Real now, Real late) {
  return round_as<format_at<P, St>>(fma(decay, sum, round_as<format_at<P, St>>(now + late)));
}

/// d(i) = sum_{l <= i - lag} x(l) prod_{l < r <= i - lag} exp(g_r).
template <class P, int W, int Parts, class St, class Dst, class Src>
TILE_FN void decay_scan(MmaBlock<P, W, Parts>& b, St, Dst& d, const Src& x,
                        const typename MmaBlock<P, W, Parts>::RowIn& g, int head, int row0, int lag = 0) {
  constexpr int N = Dst::rows;
  static_assert(Src::rows == N && Src::cols == Dst::cols && Dst::cols <= MmaBlock<P, W, Parts>::threads);
  using E = typename Dst::E;
  b.gather_decays(g, head, row0, N);
  b.sync();
  typename P::Real sum = 0;
  if (const int c = threadIdx.x; c < Dst::cols)
#pragma unroll 8
    for (int i = 0; i < N; ++i) {
      if (i >= lag)
        sum = round_as<format_at<P, St>>(fma(b.scratch()[i - lag], sum, typename P::Real(x.at(i - lag, c))));
      d.at(i, c) = E(round_as<Dst::format>(sum));
    }
  b.sync();
}
template <class P, int W, int Parts, class St, class T, int MT>
TILE_FN auto decay_scan(MmaBlock<P, W, Parts>& b, St st, const RowRegisters<T, MT>& x,
                        const typename MmaBlock<P, W, Parts>::RowIn& g, int head, int row0, int lag = 0) {
  constexpr int N = MT * 16 * W;
  static_assert(2 * N <= MmaBlock<P, W, Parts>::scratch_elements);
  b.gather_decays(g, head, row0, N), b.gather(x, N);
  T* const sums = b.scratch() + N;
  b.alone([&] {
    T sum = 0;
#pragma unroll 8
    for (int l = 0; l < N; ++l) sums[l] = sum = round_as<format_at<P, St>>(fma(b.scratch()[l], sum, sums[l]));
  });
  auto o = b.row(st, Shape<N>{}, 0);
  b.each_row(o, [&](T& y, int r) {
    if (r >= lag) y = sums[r - lag];
  });
  b.sync();
  return o;
}
/// d(l) = now(l) + late(l + 1) + exp(g_{l+1}) d(l + 1), from the last row.
template <class P, int W, int Parts, class St, class Dst, class Src>
TILE_FN void decay_scan_adjoint(MmaBlock<P, W, Parts>& b, St, Dst& d, const Src& now, const Src& late,
                                const typename MmaBlock<P, W, Parts>::RowIn& g, int head, int row0) {
  constexpr int N = Dst::rows;
  static_assert(Src::rows == N && Src::cols == Dst::cols && Dst::cols <= MmaBlock<P, W, Parts>::threads);
  using Real = typename P::Real;
  b.gather_decays(g, head, row0, N);
  b.sync();
  if (const int c = threadIdx.x; c < Dst::cols) {
    Real sum = Real(now.at(N - 1, c));
    d.at(N - 1, c) = typename Dst::E(round_as<Dst::format>(sum));
#pragma unroll 8
    for (int l = N - 2; l >= 0; --l) {
      sum = step_back<P, St>(sum, b.scratch()[l + 1], Real(now.at(l, c)), Real(late.at(l + 1, c)));
      d.at(l, c) = typename Dst::E(round_as<Dst::format>(sum));
    }
  }
  b.sync();
}
template <class P, int W, int Parts, class St, class T, int MT>
TILE_FN auto decay_scan_adjoint(MmaBlock<P, W, Parts>& b, St st, const RowRegisters<T, MT>& now,
                                const RowRegisters<T, MT>& late, const typename MmaBlock<P, W, Parts>::RowIn& g,
                                int head, int row0) {
  constexpr int N = MT * 16 * W;
  static_assert(3 * N <= MmaBlock<P, W, Parts>::scratch_elements);
  b.gather_decays(g, head, row0, N), b.gather(now, N), b.gather(late, 2 * N);
  T* const sums = b.scratch() + N;
  b.alone([&] {
#pragma unroll 8
    for (int l = N - 2; l >= 0; --l)
      sums[l] = step_back<P, St>(sums[l + 1], b.scratch()[l + 1], sums[l], sums[N + l + 1]);
  });
  auto o = b.row(st, Shape<N>{}, 0);
  b.each_row(o, [&](T& y, int r) { y = sums[r]; });
  b.sync();
  return o;
}
#endif

}  // namespace assay::tile
