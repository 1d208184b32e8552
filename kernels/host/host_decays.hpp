#pragma once
// Decays of HostBlock, a number for every row, and their adjoints.
#include <string_view>
#include <vector>

#include "kernels/host/host_memory.hpp"

namespace assay::tile {

template <class T>
class HostDecays : public HostMemory<T> {
 public:
  using Base = HostMemory<T>;
  using Base::Base, Base::format_of, Base::reads, Base::round, Base::round_as, Base::writes;
  using typename Base::RowIn;
  template <Size R>
  using Row = HostRow<T, R>;

  // ---- decays: running products of exp(g), never quotients or differences of prefix sums, so that exp(-inf) = 0 is an
  // ordinary gate, or of decays given as they are. Rows beyond the end act as g = 0.

  /// d(i, j) = prod_{j < l <= i - lag} exp(g_l) for j <= i (1 where no gate is left), 0 above the diagonal.
  template <class St, class Dst>
  void decay_ratios(St, Dst& d, const RowIn& g, int head, int row0, int lag = 0) {
    const int N = Dst::rows;
    writes(d);
    d.v.assign(d.v.size(), T(0));
    for (int i = 0; i < N; ++i) {
      const T alpha = i > lag ? decay(g, head, row0 + i - lag) : T(1);
      for (int j = 0; j <= i; ++j) d.v[idx(i * N + j)] = j < i - lag ? d.v[idx((i - 1) * N + j)] * alpha : T(1);
      round(St::name(), &d.v[idx(i * N)], N);
    }
    round(Dst::site, d.v.data(), d.v.size());
  }
  /// Row i holds prod_{l <= i - lag} exp(g_l).
  template <class St, Size R>
  Row<R> decay_prefix(St, Shape<R>, const RowIn& g, int head, int row0, int lag = 0) {
    Row<R> o;
    T a = 1;
    for (int r = 0; r < R; ++r) {
      if (r >= lag) a *= decay(g, head, row0 + r - lag);
      round(St::name(), &a, 1);
      o.v[idx(r)] = a;
    }
    return o;
  }
  /// Row i holds prod_{l > i} exp(g_l) up to the end of the R rows.
  template <class St, Size R>
  Row<R> decay_suffix(St, Shape<R>, const RowIn& g, int head, int row0) {
    Row<R> o;
    T a = 1;
    for (int r = R - 1; r >= 0; --r) {
      o.v[idx(r)] = a;
      a *= decay(g, head, row0 + r);
      round(St::name(), &a, 1);
    }
    return o;
  }
  /// Every one of R rows holds prod_{l < count} exp(g_l).
  template <class St, Size R>
  Row<R> decay_total(St, Shape<R>, const RowIn& g, int head, int row0, int count) {
    T a = 1;
    for (int l = 0; l < count; ++l) {
      a *= decay(g, head, row0 + l);
      round(St::name(), &a, 1);
    }
    Row<R> o;
    o.v.fill(a);
    return o;
  }

  // ---- and their adjoints. A product of gates, times its cotangent, is a term of the gradient of the log of every
  // gate it contains: it goes to exactly those, so nothing cancels and no gate is divided by.

  /// Row r sums z(i, j) over j < r <= i - lag, the ratios of decay_ratios that contain gate r. Takes z's memory.
  template <class St, class Src>
  HostRow<T, Src::rows> gates_of_ratios(St, Src& z, int lag = 0) {
    const int N = Src::rows;
    reads(z);
    const Format f = format_of(St::name());
    std::vector<T> below(idx(N), T(0));  // by column, the rows at or below r + lag
    HostRow<T, Src::rows> o;
    for (int r = N - 1; r >= 0; --r) {
      o.v[idx(r)] = T(0);
      for (int j = 0; j < r; ++j) {
        if (r + lag < N) below[idx(j)] += z.v[idx((r + lag) * N + j)];
        round_as(St::name(), f, &below[idx(j)], 1);
        o.v[idx(r)] += below[idx(j)];
        round_as(St::name(), f, &o.v[idx(r)], 1);
      }
    }
    z.v.assign(z.v.size(), Base::poison);
    return o;
  }
  /// Row r sums z(i) over r <= i - lag, the rows of decay_prefix that contain gate r.
  template <class St, Size R>
  Row<R> gates_of_prefix(St, const Row<R>& z, int lag = 0) {
    Row<R> o;
    T sum = 0;
    for (int r = R - 1; r >= 0; --r) {
      if (r + lag < R) sum += z.v[idx(r + lag)];
      round(St::name(), &sum, 1);
      o.v[idx(r)] = sum;
    }
    return o;
  }
  /// Row r sums z(i) over i < r, the rows of decay_suffix that contain gate r.
  template <class St, Size R>
  Row<R> gates_of_suffix(St, const Row<R>& z) {
    Row<R> o;
    T sum = 0;
    for (int r = 0; r < R; ++r) {
      o.v[idx(r)] = sum;
      sum += z.v[idx(r)];
      round(St::name(), &sum, 1);
    }
    return o;
  }
  /// Every row sums all of z: the rows of decay_total contain every gate.
  template <class St, Size R, Size N>
  Row<R> gates_of_total(St, Shape<R>, const Row<N>& z) {
    T sum = 0;
    for (int i = 0; i < N; ++i) {
      sum += z.v[idx(i)];
      round(St::name(), &sum, 1);
    }
    Row<R> o;
    o.v.fill(sum);
    return o;
  }

  /// Row i holds exp(g_i).
  template <class St, Size R>
  Row<R> decays(St, Shape<R>, const RowIn& g, int head, int row0) {
    Row<R> o;
    for (int r = 0; r < R; ++r) o.v[idx(r)] = decay(g, head, row0 + r);
    round(St::name(), o.v.data(), o.v.size());
    return o;
  }

  /// The decay of a row, 1 beyond the end.
  static T decay(const RowIn& g, int head, int row) {
    if (row >= g.rows) return T(1);
    return g.logs ? exponential(gate(g, head, row)) : gate(g, head, row);
  }

 protected:
  using Base::gate;
  static T exponential(T x) { return ex2(x * T(1.442695040888963407359924681001892137L)); }
};

}  // namespace assay::tile
