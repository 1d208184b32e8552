#pragma once
// Decays of DrawBlock, a number for every row, and their adjoints (kernels/host/host_decays.hpp).
#include "kernels/draws/draw_block.hpp"

namespace assay::draws {

/// d(i, j) = prod_{j < l <= i - lag} exp(g_l): a thread has a column.
template <class St, class Dst>
DRAW_FN void DrawBlock::decay_ratios(St site, Dst& d, const RowIn& g, int head, int row0, int lag) {
  constexpr int N = Dst::rows;
  const Rounder decays = span(site, N * N), stored = span(format_of(Dst::key), N * N);
  double* const alpha = table(N);
  barrier();
  for (int i = thread(); i < N; i += threads) alpha[i] = i > lag ? decay(g, head, row0 + i - lag) : 1.0;
  barrier();
  for (int j = thread(); j < N; j += threads) {
    double x = 0;
    DRAW_LOOP for (int i = 0; i < N; ++i) {
      const auto word = static_cast<std::uint64_t>(i * N + j);
      x = decays(i < j ? 0.0 : j < i - lag ? x * alpha[i] : 1.0, word);
      d.v[i * N + j] = stored(x, word);
    }
  }
  barrier();
}
template <class St, Size R>
DRAW_FN DrawRow<R> DrawBlock::decay_prefix(St site, Shape<R>, const RowIn& g, int head, int row0, int lag) {
  const Rounder rounder = span(site, R);
  double* const s = table(R);
  barrier();
  for (int r = thread(); r < R; r += threads) s[r] = r >= lag ? decay(g, head, row0 + r - lag) : 1.0;
  barrier();
  double a = 1;
  in_turn(R, [&](int r) { s[r] = a = rounder(r >= lag ? a * s[r] : a, static_cast<std::uint64_t>(r)); });
  return row_of_table<R>(s);
}
template <class St, Size R>
DRAW_FN DrawRow<R> DrawBlock::decay_suffix(St site, Shape<R>, const RowIn& g, int head, int row0) {
  const Rounder rounder = span(site, R);
  double* const s = table(R);
  barrier();
  for (int r = thread(); r < R; r += threads) s[r] = decay(g, head, row0 + r);
  barrier();
  double a = 1;
  in_turn(R, [&](int i) {
    const int r = R - 1 - i;
    const double of_row = s[r];
    s[r] = a;
    a = rounder(a * of_row, static_cast<std::uint64_t>(i));
  });
  return row_of_table<R>(s);
}
template <class St, Size R>
DRAW_FN DrawRow<R> DrawBlock::decay_total(St site, Shape<R>, const RowIn& g, int head, int row0, int count) {
  const Rounder rounder = span(site, static_cast<std::uint64_t>(count));
  double* const s = table(count + 1);
  barrier();
  for (int l = thread(); l < count; l += threads) s[1 + l] = decay(g, head, row0 + l);
  if (thread() == 0) s[0] = 1;
  barrier();
  in_turn(count, [&](int l) { s[0] = rounder(s[0] * s[1 + l], static_cast<std::uint64_t>(l)); });
  Row<R> o;
  for (double& x : o.v) x = s[0];
  return o;
}

// ---- and their adjoints.

/// Row r sums z(i, j) over j < r <= i - lag. The words of every r, from the last one down, alternate: a sum of its
/// column, then of its row.
template <class St, class Src>
DRAW_FN DrawRow<Src::rows> DrawBlock::gates_of_ratios(St site, Src& z, int lag) {
  constexpr int N = Src::rows;
  const Rounder rounder = span(site, N * (N - 1));
  const auto word = [](int r, int j) {  // those of the rows below are 2 (r + 1) + ... + 2 (N - 1)
    return static_cast<std::uint64_t>((N - 1) * N - r * (r + 1) + 2 * j);
  };
  double* const below = table(N * N);
  barrier();
  for (int j = thread(); j < N; j += threads) {
    double sum = 0;
    DRAW_LOOP for (int r = N - 1; r > j; --r) {
      if (r + lag < N) sum += z.v[(r + lag) * N + j];
      below[r * N + j] = sum = rounder(sum, word(r, j));
    }
  }
  barrier();
  for (int r = thread(); r < N; r += threads) {
    double sum = 0;
    DRAW_LOOP for (int j = 0; j < r; ++j) sum = rounder(sum + below[r * N + j], word(r, j) + 1);
    below[r * N + N - 1] = sum;  // a place above the diagonal, or its end: no sum over columns is there
  }
  barrier();
  Row<N> o;
  for (int k = 0; k < Own<N, 1>::rows; ++k) {
    const int r = Own<N, 1>::row(k);
    o.v[k] = below[(r < N ? r : 0) * N + N - 1];
  }
  return o;
}
template <class St, Size R>
DRAW_FN DrawRow<R> DrawBlock::gates_of_prefix(St site, const Row<R>& z, int lag) {
  const Rounder rounder = span(site, R);
  double* const s = spread(z);
  double sum = 0;
  in_turn(R, [&](int i) {
    const int r = R - 1 - i;
    if (r + lag < R) sum += s[r + lag];
    s[R + r] = sum = rounder(sum, static_cast<std::uint64_t>(i));
  });
  return row_of_table<R>(s + R);
}
template <class St, Size R>
DRAW_FN DrawRow<R> DrawBlock::gates_of_suffix(St site, const Row<R>& z) {
  const Rounder rounder = span(site, R);
  double* const s = spread(z);
  double sum = 0;
  in_turn(R, [&](int r) {
    const double of_row = s[r];
    s[r] = sum;
    sum = rounder(sum + of_row, static_cast<std::uint64_t>(r));
  });
  return row_of_table<R>(s);
}
template <class St, Size R, Size N>
DRAW_FN DrawRow<R> DrawBlock::gates_of_total(St site, Shape<R>, const Row<N>& z) {
  const Rounder rounder = span(site, N);
  double* const s = spread(z);
  double sum = 0;
  in_turn(N, [&](int i) {
    sum = rounder(sum + s[i], static_cast<std::uint64_t>(i));
    if (i == N - 1) s[0] = sum;
  });
  Row<R> o;
  for (double& x : o.v) x = s[0];
  return o;
}

}  // namespace assay::draws
