#pragma once
// Value averaging, chunkwise, in three phases as the other sums: what every chunk adds, one pass over the chunks, what
// the tokens read. The sum S before a chunk is no operand of a product and is kept as wide as an accumulator:
//   S <- S + sum_j v_j,   o_i = (S + sum_{j <= i in chunk} v_j) / N_i
// with N_i the tokens up to i. Backward, last chunk first, with n tokens before the chunk, F = n + 1 and Y_i = do_i F /
// N_i:
//   a <- a + sum_i Y_i / F,   dv_j = a + sum_{i >= j in chunk} Y_i / F
// Sums over the tokens of a chunk are products with ones. Blocks are pairs of a chunk and D columns of the values.
#include "kernels/core/functions.hpp"
#include "kernels/programs/token_weights.hpp"

namespace assay::tile {

/// Sum of every chunk's values; backward, of its weighted cotangents.
template <ExecutorTypes B, Size C, Size D, bool Backward>
struct TokenSums {
  using Real = typename B::Real;
  struct Args {
    typename B::In x;
    typename B::RowIn count;
    typename B::Out sums;  // one row for each chunk, for each head
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
    const Real from = Real(before + 1);
    b.pipeline(
        Shape<2>{}, 1, [&](int, int) { b.load(s.x, a.x, head, before, v0); },
        [&](int, int) {
          auto one = b.acc("X"_s, Shape<C, C>{});
          one.map("X"_s, [](auto x) { return x + 1; });
          b.put(s.ones, one);
          if constexpr (Backward) {
            auto Y = b.acc("X"_s, Shape<C, D>{});
            Y.zip("X"_s, copy_times, s.x, token_weights<C>(b, a.count, before));
            b.put(s.Y, Y);
          }
          b.sync();
          auto sum = b.ab("S"_s, s.ones, chosen<Backward>(s.Y, s.x));
          if constexpr (Backward) sum.map("S"_s, [&](auto x) { return x / from; });
          b.store("S"_s, a.sums, head * a.chunks + chunk, 0, sum, v0);
        });
  }
};

/// The sum before every chunk, first chunk first, or what later chunks give to dv, last chunk first.
template <ExecutorTypes B, Size D, bool Backward>
struct SumPass {
  struct Args {
    typename B::RowIn sums;
    typename B::RowOut before;
    int chunks;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const auto carried_plus = [&](auto x, auto y) {
      return Backward ? x + y : b.planted("sum_not_carried"_s, x, x * 0) + y;
    };
    auto S = b.row("S"_s, Shape<D>{}, 0);
    for (int i = 0; i < a.chunks; ++i) {
      const int at = head * a.chunks + (Backward ? a.chunks - 1 - i : i);
      b.store_row("S"_s, a.before, at, block * D, S);
      S = b.rows("S"_s, carried_plus, S, b.load_row("S"_s, Shape<D>{}, a.sums, at, block * D));
    }
  }
};

/// The outputs that the tokens read.
template <ExecutorTypes B, Size C, Size D>
struct MeanReads {
  struct Args {
    typename B::In v;
    typename B::RowIn sums, count;
    typename B::Out o;
    int chunks, blocks;
  };
  struct Smem {
    typename B::template Tile<"V", C, D> V;
    typename B::template Tile<"ones", C, C> lower;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunk = block / a.blocks, v0 = block % a.blocks * D, before = chunk * C;
    const auto over_count = [&](auto x, auto n) { return x / b.planted("counts_from_two"_s, n, n + 1); };
    b.pipeline(
        Shape<2>{}, 1, [&](int, int) { b.load(s.V, a.v, head, before, v0); },
        [&](int, int) {
          auto one = b.acc("X"_s, Shape<C, C>{});
          one.map("X"_s, [](auto x) { return x + 1; });
          one.mask([&](int r, int c) { return r >= c + b.planted("own_value_unread"_s, 0, 1); }, 0);
          b.put(s.lower, one);
          b.sync();
          auto O = b.ab("O"_s, s.lower, s.V);
          O.map("O"_s, plus, b.load_col("S"_s, Shape<1, D>{}, a.sums, head * a.chunks + chunk, v0));
          O.map("o"_s, over_count, b.load_row("count"_s, Shape<C>{}, a.count, 0, before));
          b.store("out"_s, a.o, head, before, O, v0);
        });
  }
};

/// dv of a chunk's tokens.
template <ExecutorTypes B, Size C, Size D>
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
    {"V", Role::operand},     {"dO", Role::operand},    {"Yc", Role::operand},     {"ones", Role::operand},
    {"count", Role::gate},    {"weight", Role::gate},   {"X", Role::accumulator},  {"S", Role::accumulator},
    {"O", Role::accumulator}, {"o", Role::accumulator}, {"dV", Role::accumulator}, {"out", Role::output}};
inline constexpr SiteTable value_averaging_sites{value_averaging_site_list};

}  // namespace assay::tile
