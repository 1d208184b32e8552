#pragma once
// MDN's verbs on the device (kernels/host/host_decay_scan.hpp): one column of a tile per thread.
#include "kernels/cuda/mma_block.cuh"

namespace assay::tile {

#if defined(__CUDACC__)
/// A row's values to scratch memory, from `first` on.
template <class P, int W, class T, int MT>
TILE_FN void gather(MmaBlock<P, W>& b, const RowRegisters<T, MT>& z, int first) {
  static_assert(2 * MT * 16 * W <= MmaBlock<P, W>::scratch_elements);
  b.each_row(z, [&](const T& y, int r) {
    if (b.w.slot() == 0) b.scratch()[first + r] = y;
  });
}
template <class P, class St, class Real>
TILE_FN Real step_back(Real sum, Real decay, Real now, Real late) {
  return round_as<format_at<P, St>>(fma(decay, sum, round_as<format_at<P, St>>(now + late)));
}

/// d(i) = sum_{l <= i - lag} x(l) prod_{l < r <= i - lag} exp(g_r).
template <class P, int W, class St, class Dst, class Src>
TILE_FN void decay_scan(MmaBlock<P, W>& b, St, Dst& d, const Src& x, const typename MmaBlock<P, W>::RowIn& g, int head,
                        int row0, int lag = 0) {
  constexpr int N = Dst::rows;
  static_assert(Src::rows == N && Src::cols == Dst::cols && Dst::cols <= MmaBlock<P, W>::threads);
  using E = typename Dst::E;
  const int c = threadIdx.x;
  for (int i = 0; i < lag && c < Dst::cols; ++i) d.at(i, c) = E(0.f);
  typename P::Real sum = 0;
  b.template each_decay<N, false>(g, head, row0, N, [&](typename P::Real alpha, int l) {
    if (l + lag >= N || c >= Dst::cols) return;
    sum = round_as<format_at<P, St>>(fma(alpha, sum, typename P::Real(x.at(l, c))));
    d.at(l + lag, c) = E(round_as<Dst::format>(sum));
  });
}
template <class P, int W, class St, class T, int MT>
TILE_FN auto decay_scan(MmaBlock<P, W>& b, St st, const RowRegisters<T, MT>& x, const typename MmaBlock<P, W>::RowIn& g,
                        int head, int row0, int lag = 0) {
  constexpr int N = MT * 16 * W;
  gather(b, x, 0);
  b.sync();
  auto o = b.row(st, Shape<N>{}, 0);
  typename P::Real sum = 0;
  b.template each_decay<N, false>(g, head, row0, N, [&](typename P::Real alpha, int l) {
    sum = round_as<format_at<P, St>>(fma(alpha, sum, b.scratch()[l]));
    b.each_row(o, [&](typename P::Real& y, int r) { y = r == l + lag ? sum : y; });
  });
  b.sync();
  return o;
}
/// d(l) = now(l) + late(l + 1) + exp(g_{l+1}) d(l + 1), from the last row.
template <class P, int W, class St, class Dst, class Src>
TILE_FN void decay_scan_adjoint(MmaBlock<P, W>& b, St, Dst& d, const Src& now, const Src& late,
                                const typename MmaBlock<P, W>::RowIn& g, int head, int row0) {
  constexpr int N = Dst::rows;
  static_assert(Src::rows == N && Src::cols == Dst::cols && Dst::cols <= MmaBlock<P, W>::threads);
  using E = typename Dst::E;
  const int c = threadIdx.x;
  typename P::Real sum = 0, next = 0;
  b.template each_decay<N, true>(g, head, row0, N, [&](typename P::Real alpha, int l) {
    const typename P::Real decay = next;
    next = alpha;
    if (c >= Dst::cols) return;
    sum = l == N - 1
              ? typename P::Real(now.at(l, c))
              : step_back<P, St>(sum, decay, typename P::Real(now.at(l, c)), typename P::Real(late.at(l + 1, c)));
    d.at(l, c) = E(round_as<Dst::format>(sum));
  });
}
template <class P, int W, class St, class T, int MT>
TILE_FN auto decay_scan_adjoint(MmaBlock<P, W>& b, St st, const RowRegisters<T, MT>& now,
                                const RowRegisters<T, MT>& late, const typename MmaBlock<P, W>::RowIn& g, int head,
                                int row0) {
  constexpr int N = MT * 16 * W;
  gather(b, now, 0), gather(b, late, N);
  b.sync();
  auto o = b.row(st, Shape<N>{}, 0);
  typename P::Real sum = 0, next = 0;
  b.template each_decay<N, true>(g, head, row0, N, [&](typename P::Real alpha, int l) {
    sum =
        l == N - 1 ? b.scratch()[l] : step_back<P, St>(sum, next, b.scratch()[l], b.scratch()[N + imin(l + 1, N - 1)]);
    next = alpha;
    b.each_row(o, [&](typename P::Real& y, int r) { y = r == l ? sum : y; });
  });
  b.sync();
  return o;
}
#endif

}  // namespace assay::tile
