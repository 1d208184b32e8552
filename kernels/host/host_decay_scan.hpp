#pragma once
// MDN's verbs on the CPU: sums of rows that decay from row to row, one product and one sum a row, and their adjoints.
//   decay_scan(b, site, tile, tile, in, head, row[, lag])  decay_scan(b, site, row, in, head, row[, lag]) -> row
//   decay_scan_adjoint(b, site, [tile,] now, late, in, head, row)
#include <algorithm>

#include "kernels/host/host_block.hpp"

namespace assay::tile {

/// d(i) = sum_{l <= i - lag} x(l) prod_{l < r <= i - lag} exp(g_r), for every column.
template <class T, class St, class Dst, class Src>
void decay_scan(HostBlock<T>& b, St, Dst& d, Src& x, const typename HostBlock<T>::RowIn& g, int head, int row0,
                int lag = 0) {
  const int N = Dst::rows, D = Dst::cols;
  b.reads(x), b.writes(d);
  d.v.assign(d.v.size(), T(0));
  for (int i = lag; i < N; ++i) {
    T* sum = b.row_of(d, i);
    if (i > lag) {
      const T alpha = b.decay(g, head, row0 + i - lag);
      const T* before = b.row_of(d, i - 1);
      for (int c = 0; c < D; ++c) sum[c] = alpha * before[c];
    }
    const T* now = b.row_of(x, i - lag);
    for (int c = 0; c < D; ++c) sum[c] += now[c];
    b.round(St::name(), sum, D);
  }
  b.round(Dst::site, d.v.data(), d.v.size());
}
/// The same for a row of numbers.
template <class T, class St, Size R>
HostRow<T, R> decay_scan(HostBlock<T>& b, St, const HostRow<T, R>& x, const typename HostBlock<T>::RowIn& g, int head,
                         int row0, int lag = 0) {
  HostRow<T, R> o;
  o.v.fill(0);
  T sum = 0;
  for (int i = lag; i < R; ++i) {
    sum = b.decay(g, head, row0 + i - lag) * sum + x.v[idx(i - lag)];
    b.round(St::name(), &sum, 1);
    o.v[idx(i)] = sum;
  }
  return o;
}
/// The gradients of the summed rows, from cotangents of decay_scan without lag (`now`) and with lag 1 (`late`):
/// d(l) = sum_{i >= l} (now(i) + late(i + 1)) prod_{l < r <= i} exp(g_r).
template <class T, class St, class Dst, class Src>
void decay_scan_adjoint(HostBlock<T>& b, St, Dst& d, Src& now, Src& late, const typename HostBlock<T>::RowIn& g,
                        int head, int row0) {
  const int N = Dst::rows, D = Dst::cols;
  b.reads(now, late), b.writes(d);
  for (int l = N - 1; l >= 0; --l) {
    T* sum = b.row_of(d, l);
    std::copy_n(b.row_of(now, l), D, sum);
    if (l == N - 1) continue;
    const T alpha = b.decay(g, head, row0 + l + 1);
    const T *of_late = b.row_of(late, l + 1), *after = b.row_of(d, l + 1);
    for (int c = 0; c < D; ++c) sum[c] += of_late[c];
    b.round(St::name(), sum, D);
    for (int c = 0; c < D; ++c) sum[c] += alpha * after[c];
    b.round(St::name(), sum, D);
  }
  b.round(Dst::site, d.v.data(), d.v.size());
}
template <class T, class St, Size R>
HostRow<T, R> decay_scan_adjoint(HostBlock<T>& b, St, const HostRow<T, R>& now, const HostRow<T, R>& late,
                                 const typename HostBlock<T>::RowIn& g, int head, int row0) {
  HostRow<T, R> o = now;
  for (int l = R - 2; l >= 0; --l) {
    T& sum = o.v[idx(l)];
    sum += late.v[idx(l + 1)];
    b.round(St::name(), &sum, 1);
    sum += b.decay(g, head, row0 + l + 1) * o.v[idx(l + 1)];
    b.round(St::name(), &sum, 1);
  }
  return o;
}

}  // namespace assay::tile
