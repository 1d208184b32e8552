#pragma once
// Value averaging, chunkwise, in three phases as the other sums: what every chunk adds, one pass over the chunks, what
// the tokens read. Means are carried, not sums, so nothing grows with the sequence, and values are summed as what
// separates them from a base b that no later token has touched: the mean before the chunk, or the first value of all,
//   m_c = sum_j v_j / C,   b <- b + (m_c - b) / c,   o_i = b + sum_{j <= i in chunk} (v_j - b) / N_i
// for chunks c = 1, 2, ... of C tokens, with N_i the tokens up to i; nothing reads the mean of the last, ragged chunk.
// Backward, with Y_i = do_i F / N_i and F the first N_i of the chunk:
//   s_c = sum_i Y_i / F,   a <- a + s_c (last chunk first),   dv_j = a + sum_{i >= j in chunk} Y_i / F
// Sums over the tokens of a chunk are products with ones. Blocks are pairs of a chunk and D columns of the values.
#include "kernels/core/token_weights.hpp"

namespace assay::tile {

/// Mean of every chunk's values and, of the first chunk, its first; backward, sum of its weighted cotangents.
template <ExecutorTypes B, int C, int D, bool Backward>
struct ChunkMeans {
  using Real = typename B::Real;
  struct Args {
    typename B::In x;
    typename B::RowIn count;
    typename B::Out means, first;  // one row for each chunk, for each head
    int chunks, blocks;
  };
  struct Smem {
    std::conditional_t<Backward, typename B::template Tile<"dO", C, D>, typename B::template Tile<"V", C, D>> x;
    TileIf<Backward, typename B::template Tile<"Yc", C, D>> Y;
    typename B::template Tile<"ones", C, C> ones;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunk = block / a.blocks, v0 = block % a.blocks * D, before = chunk * C;
    const auto copy = [](auto, auto x) { return x; };
    const auto times = [](auto x, auto y) { return x * y; };
    const Real from = Real(before + 1);
    b.pipeline(
        Shape<2>{}, 1, [&](int, int) { b.load(s.x, a.x, head, before, v0); },
        [&](int, int) {
          auto one = b.acc("X"_s, Shape<C, C>{});
          one.map("X"_s, [](auto x) { return x + 1; });
          b.put(s.ones, one);
          auto X = b.acc("X"_s, Shape<C, D>{});
          X.zip("X"_s, copy, s.x);
          if constexpr (Backward) {
            X.map("X"_s, times, token_weights<C>(b, a.count, before));
            b.put(s.Y, X);
          }
          b.sync();
          auto mean = b.ab("mean"_s, s.ones, chosen<Backward>(s.Y, s.x));
          mean.map("mean"_s, [&](auto x) { return x / (Backward ? from : Real(C)); });
          b.store("mean"_s, a.means, head * a.chunks + chunk, 0, mean, v0);
          if (!Backward && chunk == 0) b.store("S"_s, a.first, head, 0, X, v0);
        });
  }
};

/// The base of every chunk, first chunk first, or what later chunks give to dv, last chunk first.
template <ExecutorTypes B, int C, int D, bool Backward>
struct MeanPass {
  using Real = typename B::Real;
  struct Args {
    typename B::RowIn first, means;
    typename B::RowOut bases;
    int chunks;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const int v0 = block * D;
    const auto plus = [](auto x, auto y) { return x + y; };
    auto S = b.row("S"_s, Shape<D>{}, 0);
    if constexpr (!Backward) S = b.load_row("S"_s, Shape<D>{}, a.first, head, v0);
    for (int i = 0; i < a.chunks; ++i) {
      const int chunk = Backward ? a.chunks - 1 - i : i, at = head * a.chunks + chunk;
      b.store_row("S"_s, a.bases, at, v0, S);
      const auto mean = b.load_row("mean"_s, Shape<D>{}, a.means, at, v0);
      if constexpr (Backward) {
        S = b.rows("S"_s, plus, S, mean);
      } else {
        const int chunks = b.planted("base_counts_as_chunk"_s, chunk + 1, chunk + 2);
        const auto step = b.rows(
            "mean"_s, [](auto m, auto x) { return m - x; }, mean, S);
        const auto weight = b.row("weight"_s, Shape<D>{}, Real(1) / Real(chunks));
        S = b.rows(
            "S"_s, plus, S,
            b.rows(
                "mean"_s, [&](auto y, auto w) { return b.planted("mean_not_carried"_s, y * w, y); }, step, weight));
      }
    }
  }
};

/// What the tokens read.
template <ExecutorTypes B, int C, int D>
struct MeanReads {
  struct Args {
    typename B::In v;
    typename B::RowIn bases, count;
    typename B::Out o;
    int chunks, blocks;
  };
  struct Smem {
    typename B::template Tile<"V", C, D> V;
    typename B::template Tile<"Vc", C, D> Vc;
    typename B::template Tile<"ones", C, C> lower;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunk = block / a.blocks, v0 = block % a.blocks * D;
    const auto minus = [](auto, auto x, auto base) { return x - base; };
    const auto plus = [](auto x, auto y) { return x + y; };
    b.pipeline(
        Shape<2>{}, 1, [&](int, int) { b.load(s.V, a.v, head, chunk * C, v0); },
        [&](int, int) {
          const auto base = b.load_col("S"_s, Shape<1, D>{}, a.bases, head * a.chunks + chunk, v0);
          auto X = b.acc("X"_s, Shape<C, D>{});
          X.zip("X"_s, minus, s.V, base);
          b.put(s.Vc, X);
          auto one = b.acc("X"_s, Shape<C, C>{});
          one.map("X"_s, [](auto x) { return x + 1; });
          one.mask([&](int r, int c) { return r >= c + b.planted("own_value_unread"_s, 0, 1); }, 0);
          b.put(s.lower, one);
          b.sync();
          auto O = b.ab("O"_s, s.lower, s.Vc);
          const auto over = [&](auto x, auto n) { return x / b.planted("counts_from_two"_s, n, n + 1); };
          O.map("o"_s, over, b.load_row("count"_s, Shape<C>{}, a.count, 0, chunk * C));
          O.map("o"_s, plus, base);
          b.store("out"_s, a.o, head, chunk * C, O, v0);
        });
  }
};

/// dv of a chunk's tokens.
template <ExecutorTypes B, int C, int D>
struct MeanGradients {
  using Real = typename B::Real;
  struct Args {
    typename B::In o_cotangent;
    typename B::RowIn later, count;
    typename B::Out dv;
    int chunks, blocks;
  };
  struct Smem {
    typename B::template Tile<"dO", C, D> dO;
    typename B::template Tile<"Yc", C, D> Y;
    typename B::template Tile<"ones", C, C> lower;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunk = block / a.blocks, v0 = block % a.blocks * D;
    const Real from = Real(chunk * C + 1);
    const auto weighted = [&](auto, auto y, auto w) { return b.planted("dv_unweighted"_s, y * w, y); };
    const auto with_later = [&](auto x, auto y) { return x + b.planted("dv_without_later_chunks"_s, y, y * 0); };
    b.pipeline(
        Shape<2>{}, 1, [&](int, int) { b.load(s.dO, a.o_cotangent, head, chunk * C, v0); },
        [&](int, int) {
          auto Y = b.acc("X"_s, Shape<C, D>{});
          Y.zip("X"_s, weighted, s.dO, token_weights<C>(b, a.count, chunk * C));
          b.put(s.Y, Y);
          auto one = b.acc("X"_s, Shape<C, C>{});
          one.map("X"_s, [](auto x) { return x + 1; });
          one.mask([&](int r, int c) { return r >= c + b.planted("dv_without_own_row"_s, 0, 1); }, 0);
          b.put(s.lower, one);
          b.sync();
          auto dV = b.atb("dV"_s, s.lower, s.Y);
          dV.map("dV"_s, [&](auto x) { return x / from; });
          dV.map("dV"_s, with_later, b.load_col("S"_s, Shape<1, D>{}, a.later, head * a.chunks + chunk, v0));
          b.store("out"_s, a.dv, head, chunk * C, dV, v0);
        });
  }
};

inline constexpr SiteTable::Init value_averaging_site_list[] = {
    {"V", Role::operand},        {"dO", Role::operand},    {"Vc", Role::operand},    {"Yc", Role::operand},
    {"ones", Role::operand},     {"count", Role::gate},    {"weight", Role::gate},   {"X", Role::accumulator},
    {"mean", Role::accumulator}, {"S", Role::accumulator}, {"O", Role::accumulator}, {"o", Role::accumulator},
    {"dV", Role::accumulator},   {"out", Role::output}};
inline constexpr SiteTable value_averaging_sites{value_averaging_site_list};

}  // namespace assay::tile
