#pragma once
// The verbs of FALCON-2 and MDN for DrawBlock (kernels/host/host_value_columns.hpp, host_decay_scan.hpp), a thread for
// a column, and exponentials that have the same bits everywhere.
#include "kernels/core/same_bits.hpp"
#include "kernels/draws/draw_block.hpp"

namespace assay::draws {

/// As HostBlock's (kernels/core/same_bits.hpp): sites in fp32 have the exponentials of kernels in fp32.
template <class St, class A>
DRAW_FN void exponentials(DrawBlock& b, St site, A& x) {
  if (b.format_at(site) == Format::fp32)
    x.map(site, [](double y) { return static_cast<double>(tile::portable_ex2(static_cast<float>(y))); });
  else
    x.map(site, [](double y) { return tile::ex2(y); });
}

/// A sum along the rows of one column of D, and its decays; n(i) is element i of a tile's column.
struct RunningColumn {
  DrawBlock& b;
  Format of_sum, of_decay;
  int D, c;
  bool mine;

  DRAW_FN double decayed(double x, double alpha) const { return b.rounded(of_decay, x * alpha, D, c); }
  DRAW_FN double multiplied(double x, double y) const { return b.rounded(of_sum, x * y, D, c); }
  DRAW_FN double plus(double x, double y) const { return b.rounded(of_sum, x + y, D, c); }
  template <class Tl>
  DRAW_FN double at(const Tl& t, int row) const {
    return t.v[row * Tl::cols + c];
  }
  template <class Tl>
  DRAW_FN void set(Tl& t, int row, double x) const {
    if (mine) t.v[row * Tl::cols + c] = x;
  }
};
/// f(column) of every one.
template <Size D, class Sum, class St, class F>
DRAW_FN void running_columns(DrawBlock& b, Sum sum, St site, F f) {
  const Format of_sum = b.format_at(sum), of_decay = b.format_at(site);
  b.template each_column<D>([&](int c, bool mine) { f(RunningColumn{b, of_sum, of_decay, D, c, mine}); });
}

/// y(i) = sum_{j <= i} A_ij R(i, j) x(j).
template <class Sum, class St, class Dst, class Ct, class X, class Src>
DRAW_FN void value_sums(DrawBlock& b, Sum sum, St site, Dst& y, Ct& A, X& x, Src& alpha) {
  constexpr int N = Dst::rows;
  running_columns<Dst::cols>(b, sum, site, [&](const RunningColumn& of) {
    DRAW_LOOP for (int i = 0; i < N; ++i) {
      double s = 0;
      DRAW_LOOP for (int j = 0; j <= i; ++j) {
        if (j > 0) s = of.decayed(s, of.at(alpha, j));
        s = of.plus(s, A.v[i * N + j] * of.at(x, j));
      }
      of.set(y, i, s);
    }
  });
}
/// Its adjoint: x(j) = sum_{i >= j} A_ij R(i, j) y(i).
template <class Sum, class St, class Dst, class Ct, class Y, class Src>
DRAW_FN void value_sums_back(DrawBlock& b, Sum sum, St site, Dst& x, Ct& A, Y& y, Src& alpha) {
  constexpr int N = Dst::rows;
  running_columns<Dst::cols>(b, sum, site, [&](const RunningColumn& of) {
    DRAW_LOOP for (int j = 0; j < N; ++j) {
      double s = 0;
      DRAW_LOOP for (int i = N - 1; i >= j; --i) {
        if (i < N - 1) s = of.decayed(s, of.at(alpha, i + 1));
        s = of.plus(s, A.v[i * N + j] * of.at(y, i));
      }
      of.set(x, j, s);
    }
  });
}
/// By forward substitution, r(i) = w(i) - sum_{j < i} A_ij R(i - 1, j) step(j) r(j).
template <class Sum, class St, class Dst, class Ct, class W, class Steps, class Src>
DRAW_FN void value_solve(DrawBlock& b, Sum sum, St site, Dst& r, Ct& A, W& w, Steps& step, Src& alpha) {
  constexpr int N = Dst::rows, D = Dst::cols;
  static_assert(N * D <= Exchange::far);
  double* const u = b.far_table();
  barrier();
  running_columns<D>(b, sum, site, [&](const RunningColumn& of) {
    DRAW_LOOP for (int i = 0; i < N; ++i) {
      double s = 0;
      DRAW_LOOP for (int j = 0; j < i; ++j) {
        if (j > 0) s = of.decayed(s, of.at(alpha, j));
        s = of.plus(s, A.v[i * N + j] * u[j * D + of.c]);
      }
      const double x = of.plus(of.at(w, i), -1.0 * s);
      of.set(r, i, x);
      const double stepped = of.multiplied(x, of.at(step, i));
      if (of.mine) u[i * D + of.c] = stepped;
    }
  });
  barrier();
}
/// By backward substitution, f(j) = y(j) - sum_{i > j} A_ij R(i - 1, j) step(i) f(i).
template <class Sum, class St, class Dst, class Ct, class Y, class Steps, class Src>
DRAW_FN void value_solve_back(DrawBlock& b, Sum sum, St site, Dst& f, Ct& A, Y& y, Steps& step, Src& alpha) {
  constexpr int N = Dst::rows, D = Dst::cols;
  static_assert(N * D <= Exchange::far);
  double* const u = b.far_table();
  barrier();
  running_columns<D>(b, sum, site, [&](const RunningColumn& of) {
    DRAW_LOOP for (int j = N - 1; j >= 0; --j) {
      double s = 0;
      DRAW_LOOP for (int i = N - 1; i > j; --i) {
        if (i < N - 1) s = of.decayed(s, of.at(alpha, i));
        s = of.plus(s, A.v[i * N + j] * u[i * D + of.c]);
      }
      const double x = of.plus(of.at(y, j), -1.0 * s);
      of.set(f, j, x);
      const double stepped = of.multiplied(x, of.at(step, j));
      if (of.mine) u[j * D + of.c] = stepped;
    }
  });
  barrier();
}
/// Adds to dg(r) the derivative by alpha_r of sum_{j <= i - lag} A_ij R(i - lag, j) y(i) x(j).
template <class Sum, class St, class Dst, class Ct, class Y, class X, class Src>
DRAW_FN void value_gates(DrawBlock& b, Sum sum, St site, Dst& dg, Ct& A, Y& y, X& x, Src& alpha, int lag = 0) {
  constexpr int N = Dst::rows, D = Dst::cols;
  static_assert(N * D <= Exchange::far);
  double* const reached = b.far_table();  // of row i, the sum over j < r
  barrier();
  running_columns<D>(b, sum, site, [&](const RunningColumn& of) {
    DRAW_LOOP for (int i = 0; i < N; ++i) {
      double s = 0;
      DRAW_LOOP for (int j = 0; j <= i - lag; ++j) {
        if (of.mine) reached[j * D + of.c] = s;
        if (j > 0) s = of.decayed(s, of.at(alpha, j));
        s = of.plus(s, A.v[i * N + j] * of.at(x, j));
      }
      s = of.at(y, i);
      DRAW_LOOP for (int r = i - lag; r > 0; --r) {
        of.set(dg, r, of.plus(of.at(dg, r), reached[r * D + of.c] * s));
        s = of.decayed(s, of.at(alpha, r));
      }
    }
  });
  barrier();
}
/// dg(r) of the prefixes and suffixes of alpha: what the host's says.
template <class Sum, class St, class Dst, class Row_, class State, class Adjoint, class Src>
DRAW_FN void value_end_gates(DrawBlock& b, Sum sum, St site, Dst& dg, Row_& at, Row_& behind, Row_& before, State& S,
                             Adjoint& G, Src& lagged, Src& suffix, Src& alpha) {
  constexpr int N = Dst::rows;
  running_columns<Dst::cols>(b, sum, site, [&](const RunningColumn& of) {
    double s = 0;
    DRAW_LOOP for (int k = 0; k < State::rows; ++k) s = of.plus(s, of.at(S, k) * of.at(G, k));
    DRAW_LOOP for (int r = 0; r < N; ++r) {  // what has come in before r
      of.set(dg, r, of.multiplied(s, of.at(suffix, r)));
      s = of.decayed(s, of.at(alpha, r));
      s = of.plus(s, 1.0 * of.at(before, r));
    }
    s = 0;
    DRAW_LOOP for (int r = N - 1; r >= 0; --r) {  // what is read from r on
      if (r + 1 < N) s = of.decayed(s, of.at(alpha, r + 1));
      s = of.plus(s, 1.0 * of.at(at, r));
      if (r + 1 < N) s = of.plus(s, 1.0 * of.at(behind, r + 1));
      const double term = of.multiplied(s, of.at(lagged, r));
      of.set(dg, r, of.plus(of.at(dg, r), 1.0 * term));
    }
  });
}

// ---- sums of rows that decay from row to row

/// d(i) = sum_{l <= i - lag} x(l) prod_{l < r <= i - lag} exp(g_r), for every column.
template <class St, class Dst, class Src>
DRAW_FN void decay_scan(DrawBlock& b, St site, Dst& d, Src& x, const DrawBlock::RowIn& g, int head, int row0,
                        int lag = 0) {
  constexpr int N = Dst::rows, D = Dst::cols;
  const Format f = b.format_at(site);
  b.template each_column<D>([&](int c, bool mine) {
    double sum = 0;
    DRAW_LOOP for (int i = 0; i < N; ++i) {
      if (i >= lag) {
        if (i > lag) sum = b.decay(g, head, row0 + i - lag) * sum;
        sum = b.rounded(f, (i > lag ? sum : 0.0) + x.v[(i - lag) * D + c], D, c);
      }
      if (mine) d.v[i * D + c] = sum;
    }
  });
  barrier();
  b.put_all(b.span(b.format_of(Dst::key), N * D), d.v, d.v, N * D);
}
/// The same for a row of numbers.
template <class St, Size R>
DRAW_FN DrawRow<R> decay_scan(DrawBlock& b, St site, const DrawRow<R>& x, const DrawBlock::RowIn& g, int head, int row0,
                              int lag = 0) {
  const Rounder rounder = b.span(site, static_cast<std::uint64_t>(tile::imax(0, R - lag)));
  double* const s = b.spread(x);
  double* const o = s + R;
  double sum = 0;
  b.in_turn(R, [&](int i) {
    if (i >= lag)
      sum = rounder(b.decay(g, head, row0 + i - lag) * sum + s[i - lag], static_cast<std::uint64_t>(i - lag));
    o[i] = sum;
  });
  return b.template row_of_table<R>(o);
}
/// d(l) = sum_{i >= l} (now(i) + late(i + 1)) prod_{l < r <= i} exp(g_r).
template <class St, class Dst, class Src>
DRAW_FN void decay_scan_adjoint(DrawBlock& b, St site, Dst& d, Src& now, Src& late, const DrawBlock::RowIn& g, int head,
                                int row0) {
  constexpr int N = Dst::rows, D = Dst::cols;
  const Format f = b.format_at(site);
  b.template each_column<D>([&](int c, bool mine) {
    double sum = 0;
    DRAW_LOOP for (int l = N - 1; l >= 0; --l) {
      const double later = sum;
      sum = now.v[l * D + c];
      if (l < N - 1) {
        const double alpha = b.decay(g, head, row0 + l + 1);
        sum = b.rounded(f, sum + late.v[(l + 1) * D + c], D, c);
        sum = b.rounded(f, sum + alpha * later, D, c);
      }
      if (mine) d.v[l * D + c] = sum;
    }
  });
  barrier();
  b.put_all(b.span(b.format_of(Dst::key), N * D), d.v, d.v, N * D);
}
template <class St, Size R>
DRAW_FN DrawRow<R> decay_scan_adjoint(DrawBlock& b, St site, const DrawRow<R>& now, const DrawRow<R>& late,
                                      const DrawBlock::RowIn& g, int head, int row0) {
  const Rounder rounder = b.span(site, 2 * (R - 1));
  double* const s = b.table(2 * R);
  barrier();
  for (int k = 0; k < Own<R, 1>::rows && thread() % row_threads == 0; ++k)
    if (const int r = Own<R, 1>::row(k); r < R) s[r] = now.v[k], s[R + r] = late.v[k];
  barrier();
  b.in_turn(R - 1, [&](int i) {
    const int l = R - 2 - i;
    const double sum = rounder(s[l] + s[R + l + 1], static_cast<std::uint64_t>(2 * i));
    s[l] = rounder(sum + b.decay(g, head, row0 + l + 1) * s[l + 1], static_cast<std::uint64_t>(2 * i + 1));
  });
  return b.template row_of_table<R>(s);
}

}  // namespace assay::draws
