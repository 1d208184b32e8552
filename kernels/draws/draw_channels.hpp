#pragma once
// Decays of DrawBlock with a column per key channel (kernels/host/host_channels.hpp): a thread goes along a column.
#include "kernels/draws/draw_block.hpp"

namespace assay::draws {

template <class St, class Tl>
DRAW_FN void DrawBlock::channel_decays(St site, Tl& alpha, const In& g, int head, int row0) {
  const Rounder rounder = span(site, Tl::rows * Tl::cols);
  for (int i = thread(); i < Tl::rows * Tl::cols; i += threads) {
    const int r = i / Tl::cols, c = i % Tl::cols;
    const bool inside = row0 + r < g.rows && c < g.cols;
    const double x =
        inside ? exponential(
                     g.p[at(head, g.rows, row0 + r) * static_cast<std::size_t>(g.cols) + static_cast<std::size_t>(c)])
               : 1.0;
    alpha.v[i] = rounder(x, static_cast<std::uint64_t>(i));
  }
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

// ---- and their adjoints.

template <class St, class Dst, class Src>
DRAW_FN void DrawBlock::channel_gates(St site, Dst& dg, Src& from, Src& before) {
  constexpr int N = Dst::rows, D = Dst::cols;
  const Format f = format_at(site);
  each_column<D>([&](int c, bool mine) {
    if (mine) dg.v[(N - 1) * D + c] = from.v[(N - 1) * D + c];
    double x = from.v[(N - 1) * D + c];
    DRAW_LOOP for (int r = N - 2; r >= 0; --r) {
      x = rounded(f, from.v[r * D + c] + x, D, c);
      if (mine) dg.v[r * D + c] = x;
    }
    double sum = 0;
    DRAW_LOOP for (int r = 1; r < N; ++r) {
      sum = rounded(f, sum + before.v[(r - 1) * D + c], D, c);
      x = rounded(f, dg.v[r * D + c] + sum, D, c);
      if (mine) dg.v[r * D + c] = x;
    }
  });
  barrier();
}
template <class Sum, class St, class Ct, class X, class K, class Src, class Dx, class Dk, class Dg>
DRAW_FN void DrawBlock::channel_adjoint(Sum of_sum, St site, Ct& dA, X& x, K& k, Src& alpha, Dx& dx, Dk& dk, Dg& dg) {
  constexpr int N = Ct::rows, D = K::cols;
  static_assert(N * D <= Exchange::far);
  const Format f = format_at(of_sum), g = format_at(site);
  double* const reached = far_table();  // of row i, the sum over j < r
  barrier();
  each_column<D>([&](int c, bool mine) {
    const auto decay_by = [&](double y, int r) { return rounded(g, y * alpha.v[r * D + c], D, c); };
    const auto add_to = [&](double& to, double y) {
      const double sum = rounded(f, to + y, D, c);
      if (mine) to = sum;
    };
    DRAW_LOOP for (int i = 0; i < N; ++i) {
      double y = 0;
      DRAW_LOOP for (int j = 0; j <= i; ++j) {
        if (mine) reached[j * D + c] = y;
        y = decay_by(y, j);
        y = rounded(f, y + dA.v[i * N + j] * k.v[j * D + c], D, c);
      }
      add_to(dx.v[i * D + c], y);
      y = x.v[i * D + c];
      DRAW_LOOP for (int r = i; r > 0; --r) {
        y = decay_by(y, r);
        add_to(dg.v[r * D + c], reached[r * D + c] * y);
      }
    }
    DRAW_LOOP for (int j = 0; j < N; ++j) {
      double y = 0;
      DRAW_LOOP for (int i = N - 1; i >= j; --i) {
        if (i < N - 1) y = decay_by(y, i + 1);
        y = rounded(f, y + dA.v[i * N + j] * x.v[i * D + c], D, c);
      }
      add_to(dk.v[j * D + c], y);
    }
  });
  barrier();
}

}  // namespace assay::draws
