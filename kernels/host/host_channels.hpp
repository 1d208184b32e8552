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
  using Base::Base, Base::format_of, Base::reads, Base::round, Base::round_as, Base::row_of, Base::updates,
      Base::writes;
  using typename Base::In;
  template <Size R>
  using Row = HostRow<T, R>;
  template <Size C>
  using Col = HostCol<T, C>;

  // ---- decays with a column per key channel, as a shared tile of the factors alpha: running products along every
  // column. Rows and columns beyond the end act as alpha = 1.

  template <class St, class Tl>
  void channel_decays(St, Tl& alpha, const In& g, int head, int row0) {
    writes(alpha);
    const int height = Tl::rows, width = Tl::cols;
    for (int r = 0; r < height; ++r)
      for (int c = 0; c < width; ++c)
        alpha.v[idx(r * width + c)] = row0 + r < g.rows && c < g.cols
                                          ? exponential(g.p[at(head, g.rows, row0 + r) * idx(g.cols) + idx(c)])
                                          : T(1);
    round(St::name(), alpha.v.data(), alpha.v.size());
  }
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

  // ---- and their adjoints, term by term as above.

  /// dg(r) = sum_{i >= r} from(i) + sum_{j < r} before(j): terms of rows of a prefix and of a suffix.
  template <class St, class Dst, class Src>
  void channel_gates(St, Dst& dg, Src& from, Src& before) {
    const int N = Dst::rows, D = Dst::cols;
    reads(from, before), writes(dg);
    dg.v = from.v;
    for (int r = N - 2; r >= 0; --r) {
      add(row_of(dg, r), row_of(dg, r + 1), D);
      round(St::name(), row_of(dg, r), D);
    }
    std::vector<T> sum(idx(D), T(0));
    for (int r = 1; r < N; ++r) {
      add(sum.data(), row_of(before, r - 1), D);
      round(St::name(), sum.data(), D);
      add(row_of(dg, r), sum.data(), D);
      round(St::name(), row_of(dg, r), D);
    }
  }
  /// With the cotangent of channel_scores, lower triangular, adds what is theirs to dX(i), dK(j) and dg(r):
  ///   sum_j dA_ij k_j prod alpha,   sum_i dA_ij x_i prod alpha,   sum_{j < r <= i} dA_ij x_i k_j prod alpha
  template <class Sum, class St, class Ct, class X, class K, class Src, class Dx, class Dk, class Dg>
  void channel_adjoint(Sum, St, Ct& dA, X& x, K& k, Src& alpha, Dx& dx, Dk& dk, Dg& dg) {
    const int N = Ct::rows, D = K::cols;
    const std::string_view sum = Sum::name(), st = St::name();
    const Format f = format_of(sum), g = format_of(st);
    reads(dA, x, k, alpha);
    updates(dx, dg);
    if (static_cast<const void*>(&dk) != static_cast<const void*>(&dx)) updates(dk);
    std::vector<T> reached(idx(N) * idx(D)), y(idx(D));  // reached: of row i, the sum over j < r
    const auto multiply_rounded = [&](T* p, const T* q) { multiply(p, q, D), round_as(st, g, p, D); };
    const auto add_rounded = [&](T* p, T scale, const T* q) {
      for (int c = 0; c < D; ++c) p[c] += scale * q[c];
      round_as(sum, f, p, D);
    };
    for (int i = 0; i < N; ++i) {
      std::fill(y.begin(), y.end(), T(0));
      for (int j = 0; j <= i; ++j) {
        std::copy(y.begin(), y.end(), &reached[idx(j * D)]);
        multiply_rounded(y.data(), row_of(alpha, j));
        add_rounded(y.data(), dA.v[idx(i * N + j)], row_of(k, j));
      }
      add_rounded(row_of(dx, i), 1, y.data());
      std::copy_n(row_of(x, i), D, y.data());
      for (int r = i; r > 0; --r) {
        multiply_rounded(y.data(), row_of(alpha, r));
        T* gates = row_of(dg, r);
        const T* before = &reached[idx(r * D)];
        for (int c = 0; c < D; ++c) gates[c] += before[c] * y[idx(c)];
        round_as(sum, f, gates, idx(D));
      }
    }
    for (int j = 0; j < N; ++j) {
      std::fill(y.begin(), y.end(), T(0));
      for (int i = N - 1; i >= j; --i) {
        if (i < N - 1) multiply_rounded(y.data(), row_of(alpha, i + 1));
        add_rounded(y.data(), dA.v[idx(i * N + j)], row_of(x, i));
      }
      add_rounded(row_of(dk, j), 1, y.data());
    }
  }
  template <Size R>
  Col<R> column_of(const Row<R>& x) {
    return {x.v};
  }

 protected:
  using Base::at, Base::exponential;

 private:
  static void multiply(T* x, const T* y, int n) {
    for (int i = 0; i < n; ++i) x[i] *= y[i];
  }
  static void add(T* x, const T* y, int n) {
    for (int i = 0; i < n; ++i) x[i] += y[i];
  }
};

}  // namespace assay::tile
