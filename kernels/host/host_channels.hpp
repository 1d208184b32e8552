#pragma once
// Decays of HostBlock with a column per key channel.
#include <algorithm>
#include <string_view>
#include <vector>

#include "kernels/host/host_decays.hpp"

namespace assay::tile {

template <class T>
class HostChannels : public HostDecays<T> {
 public:
  using Base = HostDecays<T>;
  using Base::Base, Base::format_of, Base::reads, Base::round, Base::round_as, Base::row_of, Base::writes;
  using typename Base::RowOut;
  template <Size R>
  using Row = HostRow<T, R>;
  template <Size C>
  using Col = HostCol<T, C>;

  /// Of row i, row i XOR h; `tile` is where devices exchange them.
  template <class Tl, Size R, Size C>
  HostAcc<T, R, C> across(Tl&, const HostAcc<T, R, C>& x, int h) {
    HostAcc<T, R, C> y = x;
    const int width = C;
    for (int r = 0; r < R; ++r) std::copy_n(&x.v[idx((r ^ h) * width)], width, &y.v[idx(r * width)]);
    return y;
  }
  /// Row r of a tile, as numbers from row0 on.
  template <class St, class Tl>
  void store_line(St, const RowOut& g, int head, int row0, Tl& t, int r) {
    reads(t);
    std::vector<T> x(row_of(t, r), row_of(t, r) + Tl::cols);
    round(St::name(), x.data(), x.size());
    for (int c = 0; c < Tl::cols && row0 + c < g.rows; ++c) g.p[at(head, g.rows, row0 + c)] = x[idx(c)];
  }

  // ---- decays with a column per key channel, as a shared tile of the factors alpha: running products along every
  // column. Rows and columns beyond the end act as alpha = 1.

  /// d(i) = prod_{l <= i - lag} alpha_l.
  template <class St, class Dst, class Src>
  void channel_prefix(St, Dst& d, Src& alpha, int lag = 0) {
    reads(alpha), writes(d);
    d.v.assign(d.v.size(), T(1));
    for (int i = lag; i < Dst::rows; ++i) {
      std::copy_n(row_of(alpha, i - lag), Dst::cols, row_of(d, i));
      if (i > lag) multiply(row_of(d, i), row_of(d, i - 1), Dst::cols);
      if (i > lag) round(St::name(), row_of(d, i), Dst::cols);
    }
  }
  /// d(j) = prod_{l > j} alpha_l.
  template <class St, class Dst, class Src>
  void channel_suffix(St, Dst& d, Src& alpha) {
    reads(alpha), writes(d);
    d.v.assign(d.v.size(), T(1));
    for (int j = Dst::rows - 2; j >= 0; --j) {
      std::copy_n(row_of(alpha, j + 1), Dst::cols, row_of(d, j));
      multiply(row_of(d, j), row_of(d, j + 1), Dst::cols);
      round(St::name(), row_of(d, j), Dst::cols);
    }
  }
  /// Row r holds prod_{l < count} alpha_l of channel r.
  template <class St, Size R, class Src>
  Row<R> channel_total(St, Shape<R>, Src& alpha, int count) {
    static_assert(same_size(Src::cols, R));
    reads(alpha);
    Row<R> o;
    o.v.fill(1);
    for (int l = 0; l < count; ++l) {
      multiply(o.v.data(), row_of(alpha, l), R);
      round(St::name(), o.v.data(), R);
    }
    return o;
  }
  /// d(i, j) = sum over channels of x_i k_j prod_{j < l <= i - lag} alpha_l for j <= i, 0 above the diagonal. Two lanes
  /// share the channels of a column, as on the device.
  template <class Sum, class St, class Dst, class X, class K, class Src>
  void channel_scores(Sum, St, Dst& d, X& x, K& k, Src& alpha, int lag = 0) {
    const int N = Dst::rows, D = K::cols, half = D / 2;
    reads(x, k, alpha), writes(d);
    const Format f = format_of(Sum::name()), g = format_of(St::name());
    std::vector<T> decayed(idx(D) * idx(N)), sums(2 * idx(N));  // decayed: of each channel, the keys so far
    for (int i = 0; i < N; ++i) {
      std::fill(sums.begin(), sums.end(), T(0));
      for (int c = 0; c < D; ++c) {
        T* w = &decayed[idx(c * N)];
        T* sum = &sums[idx(c / half * N)];
        if (i > lag) {
          const T a = alpha.v[idx((i - lag) * D + c)];
          for (int j = 0; j < i - lag; ++j) w[j] *= a;
          round_as(St::name(), g, w, idx(i - lag));
        }
        w[i] = k.v[idx(i * D + c)];
        const T factor = x.v[idx(i * D + c)];
        for (int j = 0; j <= i; ++j) sum[j] += factor * w[j];
        round_as(Sum::name(), f, sum, idx(i + 1));
      }
      for (int j = 0; j < N; ++j) d.v[idx(i * N + j)] = sums[idx(j)] + sums[idx(N + j)];
      round_as(Sum::name(), f, row_of(d, i), N);
    }
    round(Dst::site, d.v.data(), d.v.size());
  }
  template <Size R>
  Col<R> column_of(const Row<R>& x) {
    return {x.v};
  }

 protected:
  using Base::at;

 private:
  static void multiply(T* x, const T* y, int n) {
    for (int i = 0; i < n; ++i) x[i] *= y[i];
  }
};

}  // namespace assay::tile
