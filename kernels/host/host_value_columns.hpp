#pragma once
// FALCON-2's verbs on the CPU. A column per value channel, each with decays of its own: what is summed within a chunk
// under one lower triangular A of scores, column by column, R(i, j) = prod_{j < l <= i} alpha_l. The strict ones are of
// errors of a state that has not decayed yet: they end a decay earlier and leave out the diagonal.
//   value_sums / value_sums_back(b, sum, site, y, A, x, alpha)
//   value_solve / value_solve_back(b, sum, site, r, A, w, steps, alpha)
//   value_gates(b, sum, site, dg, A, y, x, alpha[, lag])  value_end_gates(b, sum, site, dg, ...)
#include <algorithm>
#include <string_view>
#include <vector>

#include "kernels/host/host_block.hpp"

namespace assay::tile {

/// A sum along the rows of columns, `width` of them, and its decays.
template <class T>
struct RunningColumns {
  HostBlock<T>& b;
  std::string_view sum, decays;
  int width;
  Format of_sum = b.format_of(sum), of_decay = b.format_of(decays);

  void decay(T* x, const T* alpha) const {
    for (int c = 0; c < width; ++c) x[c] *= alpha[c];
    b.round_as(decays, of_decay, x, idx(width));
  }
  void multiplied(T* x, const T* y) const {
    for (int c = 0; c < width; ++c) x[c] *= y[c];
    b.round_as(sum, of_sum, x, idx(width));
  }
  void add(T* x, T scale, const T* y) const {
    for (int c = 0; c < width; ++c) x[c] += scale * y[c];
    b.round_as(sum, of_sum, x, idx(width));
  }
  void add_products(T* x, const T* y, const T* z) const {
    for (int c = 0; c < width; ++c) x[c] += y[c] * z[c];
    b.round_as(sum, of_sum, x, idx(width));
  }
};

/// y(i) = sum_{j <= i} A_ij R(i, j) x(j).
template <class T, class Sum, class St, class Dst, class Ct, class X, class Src>
void value_sums(HostBlock<T>& b, Sum, St, Dst& y, Ct& A, X& x, Src& alpha) {
  const int N = Dst::rows, D = Dst::cols;
  b.reads(A, x, alpha), b.writes(y);
  const RunningColumns<T> run{b, Sum::name(), St::name(), D};
  y.v.assign(y.v.size(), T(0));
  for (int i = 0; i < N; ++i)
    for (int j = 0; j <= i; ++j) {
      if (j > 0) run.decay(b.row_of(y, i), b.row_of(alpha, j));
      run.add(b.row_of(y, i), A.v[idx(i * N + j)], b.row_of(x, j));
    }
}
/// Its adjoint: x(j) = sum_{i >= j} A_ij R(i, j) y(i).
template <class T, class Sum, class St, class Dst, class Ct, class Y, class Src>
void value_sums_back(HostBlock<T>& b, Sum, St, Dst& x, Ct& A, Y& y, Src& alpha) {
  const int N = Dst::rows, D = Dst::cols;
  b.reads(A, y, alpha), b.writes(x);
  const RunningColumns<T> run{b, Sum::name(), St::name(), D};
  x.v.assign(x.v.size(), T(0));
  for (int j = 0; j < N; ++j)
    for (int i = N - 1; i >= j; --i) {
      if (i < N - 1) run.decay(b.row_of(x, j), b.row_of(alpha, i + 1));
      run.add(b.row_of(x, j), A.v[idx(i * N + j)], b.row_of(y, i));
    }
}
/// By forward substitution, r(i) = w(i) - sum_{j < i} A_ij R(i - 1, j) step(j) r(j).
template <class T, class Sum, class St, class Dst, class Ct, class W, class Steps, class Src>
void value_solve(HostBlock<T>& b, Sum, St, Dst& r, Ct& A, W& w, Steps& step, Src& alpha) {
  const int N = Dst::rows, D = Dst::cols;
  b.reads(A, w, step, alpha), b.writes(r);
  const RunningColumns<T> run{b, Sum::name(), St::name(), D};
  r.v = w.v;
  std::vector<T> u(r.v.size()), sum(idx(D));
  for (int i = 0; i < N; ++i) {
    std::fill(sum.begin(), sum.end(), T(0));
    for (int j = 0; j < i; ++j) {
      if (j > 0) run.decay(sum.data(), b.row_of(alpha, j));
      run.add(sum.data(), A.v[idx(i * N + j)], &u[idx(j * D)]);
    }
    run.add(b.row_of(r, i), T(-1), sum.data());
    std::copy_n(b.row_of(r, i), D, &u[idx(i * D)]);
    run.multiplied(&u[idx(i * D)], b.row_of(step, i));
  }
}
/// By backward substitution, f(j) = y(j) - sum_{i > j} A_ij R(i - 1, j) step(i) f(i).
template <class T, class Sum, class St, class Dst, class Ct, class Y, class Steps, class Src>
void value_solve_back(HostBlock<T>& b, Sum, St, Dst& f, Ct& A, Y& y, Steps& step, Src& alpha) {
  const int N = Dst::rows, D = Dst::cols;
  b.reads(A, y, step, alpha), b.writes(f);
  const RunningColumns<T> run{b, Sum::name(), St::name(), D};
  f.v = y.v;
  std::vector<T> u(f.v.size()), sum(idx(D));
  for (int j = N - 1; j >= 0; --j) {
    std::fill(sum.begin(), sum.end(), T(0));
    for (int i = N - 1; i > j; --i) {
      if (i < N - 1) run.decay(sum.data(), b.row_of(alpha, i));
      run.add(sum.data(), A.v[idx(i * N + j)], &u[idx(i * D)]);
    }
    run.add(b.row_of(f, j), T(-1), sum.data());
    std::copy_n(b.row_of(f, j), D, &u[idx(j * D)]);
    run.multiplied(&u[idx(j * D)], b.row_of(step, j));
  }
}
/// Adds to dg(r) the derivative by alpha_r, over which nothing is divided, of sum_{j <= i - lag} A_ij R(i - lag, j)
/// y(i) x(j).
template <class T, class Sum, class St, class Dst, class Ct, class Y, class X, class Src>
void value_gates(HostBlock<T>& b, Sum, St, Dst& dg, Ct& A, Y& y, X& x, Src& alpha, int lag = 0) {
  const int N = Dst::rows, D = Dst::cols;
  b.reads(A, x, y, alpha), b.updates(dg);
  const RunningColumns<T> run{b, Sum::name(), St::name(), D};
  std::vector<T> reached(dg.v.size()), sum(idx(D));  // reached: of row i, the sum over j < r
  for (int i = 0; i < N; ++i) {
    std::fill(sum.begin(), sum.end(), T(0));
    for (int j = 0; j <= i - lag; ++j) {
      std::copy(sum.begin(), sum.end(), &reached[idx(j * D)]);
      if (j > 0) run.decay(sum.data(), b.row_of(alpha, j));
      run.add(sum.data(), A.v[idx(i * N + j)], b.row_of(x, j));
    }
    std::copy_n(b.row_of(y, i), D, sum.data());
    for (int r = i - lag; r > 0; --r) {
      run.add_products(b.row_of(dg, r), &reached[idx(r * D)], sum.data());
      run.decay(sum.data(), b.row_of(alpha, r));
    }
  }
}
/// dg(r), the derivative by alpha_r of sum_i a_i at(i) + sum_i a_{i-1} behind(i) + sum_j z_j before(j) + a_last <S,
/// G> of the column: a the prefixes of alpha (`lagged` holds a_{i-1}), z its suffixes.
template <class T, class Sum, class St, class Dst, class Row_, class State, class Adjoint, class Src>
void value_end_gates(HostBlock<T>& b, Sum, St, Dst& dg, Row_& at, Row_& behind, Row_& before, State& S, Adjoint& G,
                     Src& lagged, Src& suffix, Src& alpha) {
  const int N = Dst::rows, D = Dst::cols;
  b.reads(at, behind, before);
  b.reads(lagged, suffix, alpha);
  b.reads(S, G), b.writes(dg);
  const RunningColumns<T> run{b, Sum::name(), St::name(), D};
  dg.v.assign(dg.v.size(), T(0));
  std::vector<T> sum(idx(D), T(0)), term(idx(D));
  for (int k = 0; k < State::rows; ++k) run.add_products(sum.data(), b.row_of(S, k), b.row_of(G, k));
  for (int r = 0; r < N; ++r) {  // what has come in before r
    std::copy(sum.begin(), sum.end(), b.row_of(dg, r));
    run.multiplied(b.row_of(dg, r), b.row_of(suffix, r));
    run.decay(sum.data(), b.row_of(alpha, r));
    run.add(sum.data(), T(1), b.row_of(before, r));
  }
  std::fill(sum.begin(), sum.end(), T(0));
  for (int r = N - 1; r >= 0; --r) {  // what is read from r on
    if (r + 1 < N) run.decay(sum.data(), b.row_of(alpha, r + 1));
    run.add(sum.data(), T(1), b.row_of(at, r));
    if (r + 1 < N) run.add(sum.data(), T(1), b.row_of(behind, r + 1));
    term = sum;
    run.multiplied(term.data(), b.row_of(lagged, r));
    run.add(b.row_of(dg, r), T(1), term.data());
  }
}

}  // namespace assay::tile
