#pragma once
// Decays of DrawBlock with a column per key channel (kernels/host/host_channels.hpp): a thread goes along a column.
#include "kernels/draws/draw_block.hpp"

namespace assay::draws {

template <class Tl, Size R, Size C>
DRAW_FN DrawAcc<R, C> DrawBlock::across(Tl&, const DrawAcc<R, C>& x, int h) {
  using Mine = Own<R, C>;
  double* const rows = far_table();
  const auto each = [&](auto f) {
    for (int k = 0; k < Mine::rows; ++k)
      for (int j = 0; j < Mine::columns; ++j)
        if (Mine::has(Mine::row(k), Mine::column(j))) f(k, j, Mine::row(k), Mine::column(j));
  };
  DrawAcc<R, C> y = x;
  barrier();
  each([&](int k, int j, int r, int c) { rows[r * C + c] = x.own(k, j); });
  barrier();
  each([&](int k, int j, int r, int c) { y.at_own(k, j) = rows[(r ^ h) * C + c]; });
  barrier();
  return y;
}
template <class St, class Tl>
DRAW_FN void DrawBlock::store_line(St site, const RowOut& g, int head, int row0, Tl& t, int r) {
  const Rounder rounder = span(site, Tl::cols);
  for (int c = thread(); c < Tl::cols && row0 + c < g.rows; c += threads)
    g.p[at(head, g.rows, row0 + c)] = rounder(t.v[r * Tl::cols + c], word_of(c));
}

/// Halves have their words one after the other; in one, every element sums along `terms`, rows and columns of the block
/// being those of the accumulator or, of its columns, all N.
template <Size R, Size N, class Half>
DRAW_FN void DrawBlock::add_pairs(tile::Level level, DrawAcc<R, N>& c, Factor fa, Factor fb, Half half) {
  using Mine = Own<R, N>;
  const int size = tile::imax(1, level.h), pairs = R / tile::imax(2 * level.h, 1);
  const int terms = half.terms(size), width = half.width(size);
  const int step = c.format != Format::exact ? policy_.products : terms, steps = (terms + step - 1) / step;
  const Rounder rounder = span(c.format, word_of(pairs * size * width * steps));
  barrier();
  for (int k = 0; k < Mine::rows; ++k)
    for (int j = 0; j < Mine::columns; ++j) {
      const int r = Mine::row(k), col = Mine::column(j), of = level.h == 0 ? r : r / (2 * level.h);
      if (!Mine::has(r, col) || !half.has(level, r, col)) continue;
      const int first = half.first_term(level, r);
      double sum = c.own(k, j);
      DRAW_LOOP for (int t = 0; t < terms; ++t) {
        sum += fa.p[r * fa.step + (first + t) * fa.along] * fb.p[col * fb.step + (first + t) * fb.along];
        if ((t + 1) % step == 0 || t + 1 == terms)
          sum = rounder(sum, word_of(((of * size + r % size) * steps + t / step) * width + half.column(size, col)));
      }
      c.at_own(k, j) = sum;
    }
  barrier();
}
/// The pairs are elements of C, which sum along all D columns of both factors,
struct PairsOfSums {
  int D;
  DRAW_FN int terms(int) const { return D; }
  DRAW_FN static int width(int size) { return size; }
  DRAW_FN static bool has(tile::Level level, int r, int c) { return at_level(level, r, c); }
  DRAW_FN static int first_term(tile::Level, int) { return 0; }
  DRAW_FN static int column(int size, int c) { return c % size; }
};
/// or terms: rows of one half sum along the rows of the other.
struct PairsOfTerms {
  int N;
  bool transposed;  // the first half's along the second's
  DRAW_FN static int terms(int size) { return size; }
  DRAW_FN int width(int) const { return N; }
  DRAW_FN bool has(tile::Level level, int r, int) const { return level.h == 0 || ((r & level.h) != 0) != transposed; }
  DRAW_FN static int first_term(tile::Level level, int r) {
    return level.h == 0 ? r : (r ^ level.h) / level.h * level.h;
  }
  DRAW_FN static int column(int, int c) { return c; }
};
template <class Cc, class A, class Bt>
DRAW_FN void DrawBlock::mma_abt(tile::Level level, Cc& c, A& a, Bt& b) {
  add_pairs(level, c, left(a), {b.v, Bt::cols, 1}, PairsOfSums{A::cols});
}
template <class Cc, class A, class Bt>
DRAW_FN void DrawBlock::mma(tile::Level level, Cc& c, A& a, Bt& b) {
  add_pairs(level, c, left(a), {b.v, 1, Bt::cols}, PairsOfTerms{Cc::cols, false});
}
template <class Cc, class A, class Bt>
DRAW_FN void DrawBlock::mma_atb(tile::Level level, Cc& c, A& a, Bt& b) {
  add_pairs(level, c, {a.v, 1, A::cols}, {b.v, 1, Bt::cols}, PairsOfTerms{Cc::cols, true});
}

template <class St, class Dst, class Src>
DRAW_FN void DrawBlock::channel_prefix(St site, Dst& d, Src& alpha, int lag) {
  constexpr int D = Dst::cols;
  const Format f = format_at(site);
  each_column<D>([&](int c, bool mine) {
    double x = 1;
    DRAW_LOOP for (int i = 0; i < Dst::rows; ++i) {
      if (i == lag) x = alpha.v[c];
      if (i > lag) x = rounded(f, alpha.v[(i - lag) * D + c] * x, D, c);
      if (mine) d.v[i * D + c] = x;
    }
  });
}
template <class St, class Dst, class Src>
DRAW_FN void DrawBlock::channel_suffix(St site, Dst& d, Src& alpha) {
  constexpr int D = Dst::cols;
  const Format f = format_at(site);
  each_column<D>([&](int c, bool mine) {
    double x = 1;
    DRAW_LOOP for (int j = Dst::rows - 1; j >= 0; --j) {
      if (j < Dst::rows - 1) x = rounded(f, alpha.v[(j + 1) * D + c] * x, D, c);
      if (mine) d.v[j * D + c] = x;
    }
  });
}
template <class St, Size R, class Src>
DRAW_FN DrawRow<R> DrawBlock::channel_total(St site, Shape<R>, Src& alpha, int count) {
  static_assert(Src::cols == R);
  const Rounder rounder = span(site, static_cast<std::uint64_t>(count * R));
  Row<R> o;
  for (int k = 0; k < Own<R, 1>::rows; ++k) {
    const int r = Own<R, 1>::row(k) < R ? Own<R, 1>::row(k) : 0;
    double x = 1;
    DRAW_LOOP for (int l = 0; l < count; ++l) x =
        rounder(x * alpha.v[l * R + r], static_cast<std::uint64_t>(l * R + r));
    o.v[k] = x;
  }
  return o;
}

/// Channels in batches: the keys of each that have decayed to every row, by columns; then one product of each channel
/// in every sum, two sums to an element.
template <class Sum, class St, class Dst, class X, class K, class Src>
DRAW_FN void DrawBlock::channel_scores(Sum of_sum, St site, Dst& d, X& x, K& k, Src& alpha, int lag) {
  constexpr int N = Dst::rows, D = K::cols, half = D / 2, batch = threads < N ? 1 : threads / N;
  static_assert((2 + batch) * N * N <= Exchange::far);
  const Format f = format_at(of_sum), g = format_at(site);
  const int sums_drawn = f != Format::exact, decays_drawn = g != Format::exact;
  const std::uint64_t from = words_;
  const Rounder sums = rounder_of(policy_, f, seed_, from), decays = rounder_of(policy_, g, seed_, from);
  // The words of row i: of every channel its decays and its sums, then the row's.
  const auto decays_of = [&](int i) { return decays_drawn * tile::imax(0, i - lag); };
  const auto of_channel = [&](int i) { return decays_of(i) + sums_drawn * (i + 1); };
  const auto first_of = [&](int i) {  // sum over the rows before
    const int l = tile::imax(0, i - 1 - lag);
    return D * (decays_drawn * (l * (l + 1) / 2) + sums_drawn * (i * (i + 1) / 2)) + sums_drawn * N * i;
  };
  double* const sum = far_table();
  double* const decayed = sum + 2 * N * N;
  barrier();
  for (int e = thread(); e < 2 * N * N; e += threads) sum[e] = 0;
  for (int c0 = 0; c0 < D; c0 += batch) {
    barrier();
    for (int e = thread(); e < batch * N; e += threads) {
      const int c = c0 + e / N, j = e % N;
      double w = 0;
      DRAW_LOOP for (int i = j; i < N && c < D; ++i) {
        if (i == j) w = k.v[i * D + c];
        if (j < i - lag) w = decays(w * alpha.v[(i - lag) * D + c], word_of(first_of(i) + c * of_channel(i) + j));
        decayed[(e / N * N + i) * N + j] = w;
      }
    }
    barrier();
    for (int e = thread(); e < N * N; e += threads) {
      const int i = e / N, j = e % N;
      DRAW_LOOP for (int b = 0; b < batch && j <= i && c0 + b < D; ++b) {
        const int c = c0 + b;
        double& s = sum[c / half * N * N + e];
        s = sums(s + x.v[i * D + c] * decayed[(b * N + i) * N + j],
                 word_of(first_of(i) + c * of_channel(i) + decays_of(i) + j));
      }
    }
  }
  barrier();
  if (policy_.draws()) words_ += word_of(first_of(N));
  const Rounder stored = span(format_of(Dst::key), N * N);
  for (int e = thread(); e < N * N; e += threads) {
    const int i = e / N, j = e % N;
    const double both = sums(sum[e] + sum[N * N + e], word_of(first_of(i) + D * of_channel(i) + j));
    d.v[e] = stored(both, word_of(e));
  }
  barrier();
}

}  // namespace assay::draws
