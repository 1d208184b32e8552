#pragma once
// Affine linear attention, chunkwise (lla-family.md section 7): what a token reads is a mean of values, tilted by how
// far their keys lie from the mean key along its probe. Nothing is summed raw: keys and values of a chunk count from a
// base (c, b) that no later token has touched, the means before the chunk or, in the first one, the first key and
// value. With n tokens before a chunk, N_i = n + p_i up to its token i and X the covariance of values and keys before
// it,
//   T_ij = rho_i . (k_j - c),   t_i = sum_{j <= i} T_ij / N_i = rho_i . (kbar_i - c)
//   o_i = (S + sum_{j <= i} v_j) / N_i - (n X rho_i + sum_{j <= i} (T_ij - t_i)(v_j - b)) / N_i
// Chunks are merged pairwise, m their own means, n_c their tokens and X_c their covariance, w = n_c / (n + n_c):
//   X <- (1 - w) X + w X_c + w (1 - w) (m_v - b)(m_k - c)^T
// Backward, with F = n + 1, Y_i = do_i F / N_i, and kbar, vbar the means of the whole sequence:
//   d_i = rho_i . (kbar_i - kbar),   A_ij = Y_i . (v_j - b),   e_i = Y_i . (vbar_i - vbar)
//   Q <- Q + sum_i Y_i rho_i^T / F,   f <- f + sum_i (1 + d_i) Y_i / F,   h <- h + sum_i e_i rho_i / F
// last chunk first, from what the final moments' cotangents say; with them as they are after a chunk, and
// B_ij = A_ij - sum_{j <= i} A_ij / N_i:
//   P_ij = 1 - (T_ij - t_i),   drho = -(n Y X + B (K - c)) / F,   dK = h - (V - vbar) Q - B^T rho / F,   dV = f - (K -
//   kbar) Q^T + P^T Y / F
// Sums over the tokens of a chunk are products with ones. Blocks are pairs of a chunk and DV columns of the values;
// covariances lie in memory as [V][K] for each chunk.
#include "kernels/core/functions.hpp"
#include "kernels/programs/token_weights.hpp"

namespace assay::tile {

/// Sums and covariance of every chunk and, of the first one, its first token. Heads are those of keys and values.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct ChunkMoments {
  using Real = typename B::Real;
  struct Args {
    typename B::In k, v;
    typename B::Out sum_k, sum_v, first_k, first_v, covariance;
    int len, chunks, blocks;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"V", C, DV> V;
    typename B::template Tile<"Kc", C, DK> Kc;
    typename B::template Tile<"Vc", C, DV> Vc;
    typename B::template Tile<"ones", C, C> ones;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunk = block / a.blocks, v0 = block % a.blocks * DV, at = head * a.chunks + chunk;
    const int tokens = imin(C, a.len - chunk * C), counted = b.planted("ragged_chunk_is_full"_s, tokens, C);
    const Real n = Real(imax(1, counted));
    const auto over_count = [&](auto x) { return x / n; };
    const auto inside = [&](int r, int) { return r < tokens; };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.K, a.k, head, chunk * C);
          b.load(s.V, a.v, head, chunk * C, v0);
        },
        [&](int, int) {
          auto one = b.acc("X"_s, Shape<C, C>{});
          one.map("X"_s, [](auto x) { return x + 1; });
          b.put(s.ones, one);
          b.sync();
          auto keys = in_registers(b, "X"_s, s.K);
          if (block == 0) b.store("mean"_s, a.first_k, head, 0, keys);
          auto mean_k = b.ab("sum"_s, s.ones, s.K);
          if (v0 == 0) b.store("sum"_s, a.sum_k, at, 0, mean_k);
          mean_k.map("mean"_s, over_count);
          keys.zip("X"_s, minus, mean_k);
          keys.mask(inside, 0);
          b.put(s.Kc, keys);

          auto values = in_registers(b, "X"_s, s.V);
          if (chunk == 0) b.store("mean"_s, a.first_v, head, 0, values, v0);
          auto mean_v = b.ab("sum"_s, s.ones, s.V);
          b.store("sum"_s, a.sum_v, at, 0, mean_v, v0);
          mean_v.map("mean"_s, over_count);
          values.zip("X"_s, minus, mean_v);
          values.mask(inside, 0);
          b.put(s.Vc, values);
          b.sync();
          auto covariance = b.atb("W"_s, s.Vc, s.Kc);
          covariance.map("W"_s, over_count);
          b.store("W"_s, a.covariance, at, v0, covariance);
        });
  }
};

/// Bases and covariance before every chunk, first chunk first, and the moments of the whole sequence.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct MomentPass {
  using Real = typename B::Real;
  struct Args {
    typename B::In covariance;
    typename B::RowIn sum_k, sum_v, first_k, first_v;
    typename B::Out states, final_scatter;
    typename B::RowOut base_k, base_v, before_v, final_k, final_v;
    int len, chunks;
  };
  struct Smem {
    typename B::template Tile<"W", DV, DK> W[ST];
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int v0 = block * DV;
    const auto plus_apart = [&](auto x, auto dv, auto dk) {
      return x + b.planted("means_apart_forgotten"_s, dv * dk, dv * 0);
    };
    auto c = b.load_row("mean"_s, Shape<DK>{}, a.first_k, head, 0);
    auto v = b.load_row("mean"_s, Shape<DV>{}, a.first_v, head, v0);
    auto sk = b.row("sum"_s, Shape<DK>{}, 0);
    auto sv = b.row("sum"_s, Shape<DV>{}, 0);
    auto X = b.acc("S"_s, Shape<DV, DK>{});
    b.pipeline(
        Shape<ST>{}, a.chunks, [&](int i, int st) { b.load(s.W[st], a.covariance, head * a.chunks + i, v0); },
        [&](int i, int st) {
          const int at = head * a.chunks + i, before = imin(i * C, a.len), all = imax(1, imin(before + C, a.len));
          const Real own = Real(all - before) / Real(all);
          const Real weight = b.planted("chunks_weigh_alike"_s, own, Real(1) / Real(i + 1));
          b.store("Xc"_s, a.states, at, v0, X);
          if (block == 0) b.store_row("mean"_s, a.base_k, at, 0, c);
          b.store_row("mean"_s, a.base_v, at, v0, v);
          b.store_row("sum"_s, a.before_v, at, v0, sv);
          const auto over_own = [&](auto x) { return x / Real(all - before); };
          const auto over_all = [&](auto x) { return x / Real(all); };
          const auto own_k = b.load_row("sum"_s, Shape<DK>{}, a.sum_k, at, 0);
          const auto own_v = b.load_row("sum"_s, Shape<DV>{}, a.sum_v, at, v0);
          const auto dk = b.rows("mean"_s, minus, b.rows("mean"_s, over_own, own_k), c);
          const auto dv = b.rows("mean"_s, minus, b.rows("mean"_s, over_own, own_v), v);
          const auto of_v = b.row("weight"_s, Shape<DV>{}, weight);
          const auto rest = b.row("weight"_s, Shape<DV>{}, Real(before) / Real(all));
          X.map("S"_s, times, rest);
          X.zip("S"_s, plus_times, s.W[st], of_v);
          X.map("S"_s, plus_apart, b.rows("mean"_s, times, b.rows("mean"_s, times, dv, of_v), rest), b.column_of(dk));
          sk = b.rows("sum"_s, plus, sk, own_k);
          sv = b.rows("sum"_s, plus, sv, own_v);
          c = b.rows("mean"_s, over_all, sk);
          v = b.rows("mean"_s, over_all, sv);
        });
    X.map("end"_s, [&](auto x) { return x * Real(a.len); });
    b.store("end"_s, a.final_scatter, head, v0, X);
    if (block == 0) b.store_row("end"_s, a.final_k, head, 0, c);
    b.store_row("end"_s, a.final_v, head, v0, v);
  }
};

/// The outputs that the probes read.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct TiltedReads {
  using Real = typename B::Real;
  struct Args {
    typename B::In rho, k, v, states;
    typename B::RowIn base_k, base_v, before_v, count;
    typename B::Out o;
    typename B::RowOut tilt;  // t_i
    int chunks, group, shared_heads, blocks;
  };
  struct Smem {
    typename B::template Tile<"rho", C, DK> rho;
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"V", C, DV> V;
    typename B::template Tile<"Xc", DV, DK> X;
    typename B::template Tile<"Kc", C, DK> Kc;
    typename B::template Tile<"Vc", C, DV> Vc;
    typename B::template Tile<"ones", C, C> lower;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = b.planted("head_modulo"_s, head / a.group, head % a.shared_heads);
    const int chunk = block / a.blocks, v0 = block % a.blocks * DV, at = shared * a.chunks + chunk, before = chunk * C;
    const auto read = [&](int r, int c) { return r >= c + b.planted("own_pair_unread"_s, 0, 1); };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.rho, a.rho, head, before);
          b.load(s.K, a.k, shared, before);
          b.load(s.V, a.v, shared, before, v0);
          b.load(s.X, a.states, at, v0);
        },
        [&](int, int) {
          auto keys = b.acc("X"_s, Shape<C, DK>{});
          keys.zip("X"_s, copy_minus, s.K, b.load_col("mean"_s, Shape<1, DK>{}, a.base_k, at, 0));
          b.put(s.Kc, keys);
          auto values = b.acc("X"_s, Shape<C, DV>{});
          values.zip("X"_s, copy_minus, s.V, b.load_col("mean"_s, Shape<1, DV>{}, a.base_v, at, v0));
          b.put(s.Vc, values);
          auto one = b.acc("X"_s, Shape<C, C>{});
          one.map("X"_s, [](auto x) { return x + 1; });
          one.mask(read, 0);
          b.put(s.lower, one);
          b.sync();

          const auto n = b.load_row("count"_s, Shape<C>{}, a.count, 0, before);
          auto D = b.abt("T"_s, s.rho, s.Kc);
          D.mask(lower, 0);
          auto sum = b.partial("t"_s, Shape<C>{});
          sum.fold(b.row("t"_s, Shape<C>{}, 1), D);
          const auto tilt = b.rows("t"_s, over, sum.total(), n);
          if (v0 == 0) b.store_row("t"_s, a.tilt, head, before, tilt);
          D.map(
              "P"_s, [&](auto x, auto t) { return b.planted("keys_not_centred"_s, x - t, x); }, tilt);
          D.mask(read, 0);
          auto R = b.abt("O"_s, s.rho, s.X);
          R.map("O"_s, [&](auto x) { return b.planted("covariance_added"_s, x, -x) * Real(before); });
          b.mma(R, b.cast("Dc"_s, D), s.Vc);
          R.map("o"_s, over, n);
          auto O = b.ab("O"_s, s.lower, s.V);
          O.map("O"_s, plus, b.load_col("sum"_s, Shape<1, DV>{}, a.before_v, at, v0));
          O.map("o"_s, over, n);
          O.zip(
              "o"_s, [](auto x, auto y) { return x - y; }, R);
          b.store("out"_s, a.o, head, before, O, v0);
        });
  }
};

/// The sum that every chunk adds to the adjoint moments.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct AdjointMoments {
  using Real = typename B::Real;
  struct Args {
    typename B::In rho, v, o_cotangent;
    typename B::RowIn base_k, base_v, final_k, final_v, tilt, count;
    typename B::Out Q, f, h;  // h: a part for each block of values
    int chunks, group, blocks;
  };
  struct Smem {
    typename B::template Tile<"rho", C, DK> rho;
    typename B::template Tile<"V", C, DV> V;
    typename B::template Tile<"dO", C, DV> dO;
    typename B::template Tile<"Vc", C, DV> Vc;
    typename B::template Tile<"Yc", C, DV> Y;
    typename B::template Tile<"Yd", C, DV> Yd;
    typename B::template Tile<"Re", C, DK> Re;
    typename B::template Tile<"ones", C, C> ones;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = head / a.group, chunk = block / a.blocks, v0 = block % a.blocks * DV, before = chunk * C;
    const int at = shared * a.chunks + chunk, own = head * a.chunks + chunk;
    const int part = (head * a.blocks + block % a.blocks) * a.chunks + chunk;
    const Real from = Real(before + 1);
    const auto over_from = [&](auto x) { return x / from; };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.rho, a.rho, head, before);
          b.load(s.V, a.v, shared, before, v0);
          b.load(s.dO, a.o_cotangent, head, before, v0);
        },
        [&](int, int) {
          const auto n = b.load_row("count"_s, Shape<C>{}, a.count, 0, before);
          const auto base = b.load_col("mean"_s, Shape<1, DV>{}, a.base_v, at, v0);
          auto one = b.acc("X"_s, Shape<C, C>{});
          one.map("X"_s, [](auto x) { return x + 1; });
          b.put(s.ones, one);
          auto values = b.acc("X"_s, Shape<C, DV>{});
          values.zip("X"_s, copy_minus, s.V, base);
          b.put(s.Vc, values);
          auto Y = in_registers(b, "X"_s, s.dO);
          Y.map("X"_s, times, token_weights<C>(b, a.count, before));
          b.put(s.Y, Y);
          b.sync();

          auto Q = b.atb("W"_s, s.Y, s.rho);
          Q.map("W"_s, over_from);
          b.store("W"_s, a.Q, own, v0, Q);
          auto A = b.abt("A"_s, s.Y, s.Vc);
          A.mask(lower, 0);
          auto sum = b.partial("e"_s, Shape<C>{});
          sum.fold(b.row("e"_s, Shape<C>{}, 1), A);
          const auto in_chunk = b.rows("e"_s, over, sum.total(), n);

          auto to_mean = b.acc("X"_s, Shape<C, DV>{});
          to_mean.map("X"_s, copy_minus, base, b.load_col("mean"_s, Shape<1, DV>{}, a.final_v, shared, v0));
          const auto e = b.rows("e"_s, plus, in_chunk, b.dot("e"_s, Y, to_mean));
          auto rho = b.acc("X"_s, Shape<C, DK>{}), of_keys = b.acc("X"_s, Shape<C, DK>{});
          rho.zip("X"_s, copy, s.rho);
          const auto final_k = b.load_col("mean"_s, Shape<1, DK>{}, a.final_k, shared, 0);
          of_keys.map("X"_s, copy_minus, b.load_col("mean"_s, Shape<1, DK>{}, a.base_k, at, 0), final_k);
          const auto along = b.dot("t"_s, rho, of_keys);
          const auto d = b.rows("t"_s, plus, b.load_row("t"_s, Shape<C>{}, a.tilt, head, before), along);
          const auto one_more = [&](auto x) { return 1 + b.planted("later_keys_not_centred"_s, x, x * 0); };
          Y.map("X"_s, times, b.rows("t"_s, one_more, d));
          b.put(s.Yd, Y);
          rho.map("X"_s, times, e);
          b.put(s.Re, rho);
          b.sync();
          auto f = b.ab("f"_s, s.ones, s.Yd);
          f.map("f"_s, over_from);
          b.store("f"_s, a.f, own, 0, f, v0);
          auto h = b.ab("f"_s, s.ones, s.Re);
          h.map("f"_s, over_from);
          b.store("f"_s, a.h, part, 0, h);
        });
  }
};

/// Adjoint moments after every chunk, last chunk first.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct AdjointPass {
  using Real = typename B::Real;
  struct Args {
    typename B::In final_scatter, Q;
    typename B::RowIn final_k, final_v, f, h;
    typename B::Out states;
    typename B::RowOut after_f, after_h;
    int len, chunks, blocks;
  };
  struct Smem {
    typename B::template Tile<"S0", DV, DK> start;
    typename B::template Tile<"W", DV, DK> W[ST];
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int v0 = block * DV, parts = (head * a.blocks + block) * a.chunks;
    const Real n = Real(imax(1, a.len));
    const auto over_count = [&](auto x) { return x / n; };
    auto f = b.rows("f"_s, over_count, b.load_row("S0"_s, Shape<DV>{}, a.final_v, head, v0));
    auto h = b.rows("f"_s, over_count, b.load_row("S0"_s, Shape<DK>{}, a.final_k, head, 0));
    if (block > 0) h = b.row("f"_s, Shape<DK>{}, 0);
    auto Q = b.acc("S"_s, Shape<DV, DK>{});
    b.load(s.start, a.final_scatter, head, v0);
    b.pipeline(
        Shape<ST>{}, a.chunks, [&](int i, int st) { b.load(s.W[st], a.Q, head * a.chunks + a.chunks - 1 - i, v0); },
        [&](int i, int st) {
          const int chunk = a.chunks - 1 - i, at = head * a.chunks + chunk;
          if (i == 0)
            Q.zip(
                "S"_s, [&](auto zero, auto x) { return b.planted("final_cotangent_dropped"_s, -x, zero); }, s.start);
          b.store("Qc"_s, a.states, at, v0, Q);
          b.store_row("f"_s, a.after_f, at, v0, f);
          b.store_row("f"_s, a.after_h, parts + chunk, 0, h);
          Q.zip("S"_s, plus, s.W[st]);
          f = b.rows("f"_s, plus, f, b.load_row("f"_s, Shape<DV>{}, a.f, at, v0));
          h = b.rows("f"_s, plus, h, b.load_row("f"_s, Shape<DK>{}, a.h, parts + chunk, 0));
        });
  }
};

/// Gradients of a chunk's tokens: dv of this head, drho and dk this block's part, the value columns v0.. of its head.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct TiltedGradients {
  using Real = typename B::Real;
  struct Args {
    typename B::In rho, k, v, o_cotangent, states, adjoints;
    typename B::RowIn base_k, base_v, final_k, final_v, f, h, tilt, count;
    typename B::Out drho, dk, dv;
    int chunks, group, blocks;
  };
  struct Smem {
    typename B::template Tile<"rho", C, DK> rho;
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"V", C, DV> V;
    typename B::template Tile<"dO", C, DV> dO;
    typename B::template Tile<"Xc", DV, DK> X;
    typename B::template Tile<"Qc", DV, DK> Q;
    typename B::template Tile<"Kc", C, DK> Kc;  // from the base
    typename B::template Tile<"Kc", C, DK> Km;  // from the mean
    typename B::template Tile<"Vc", C, DV> Vc;
    typename B::template Tile<"Vc", C, DV> Vm;
    typename B::template Tile<"Yc", C, DV> Y;
    typename B::template Tile<"Pc", C, C> P;
    typename B::template Tile<"Bc", C, C> Bs;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = head / a.group, chunk = block / a.blocks, v0 = block % a.blocks * DV, before = chunk * C;
    const int at = shared * a.chunks + chunk, own = head * a.chunks + chunk;
    const int part = head * a.blocks + block % a.blocks;
    const Real from = Real(before + 1);
    const auto over_from = [&](auto x) { return x / from; };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.rho, a.rho, head, before);
          b.load(s.K, a.k, shared, before);
          b.load(s.V, a.v, shared, before, v0);
          b.load(s.dO, a.o_cotangent, head, before, v0);
          b.load(s.X, a.states, at, v0);
          b.load(s.Q, a.adjoints, own, v0);
        },
        [&](int, int) {
          const auto n = b.load_row("count"_s, Shape<C>{}, a.count, 0, before);
          put_centred(b, s.K, a.base_k, at, 0, s.Kc);
          put_centred(b, s.K, a.final_k, shared, 0, s.Km);
          put_centred(b, s.V, a.base_v, at, v0, s.Vc);
          put_centred(b, s.V, a.final_v, shared, v0, s.Vm);
          auto Y = b.acc("X"_s, Shape<C, DV>{});
          Y.zip("X"_s, copy_times, s.dO, token_weights<C>(b, a.count, before));
          b.put(s.Y, Y);
          b.sync();

          put_scores(b, s, a, head, before, n);

          auto dV = b.atb("dV"_s, s.P, s.Y);
          dV.map("dV"_s, over_from);
          auto later_v = b.abt("dV"_s, s.Km, s.Q);
          later_v.map("dV"_s, taken_from, b.load_col("f"_s, Shape<1, DV>{}, a.f, own, v0));
          dV.zip(
              "dV"_s, [&](auto x, auto y) { return x + b.planted("dv_without_later_reads"_s, y, y * 0); }, later_v);
          b.store("part"_s, a.dv, head, before, dV, v0);
          auto dK = b.atb("dK"_s, s.Bs, s.rho);
          dK.map("dK"_s, over_from);
          auto later_k = b.ab("dK"_s, s.Vm, s.Q);
          later_k.map("dK"_s, taken_from, b.load_col("f"_s, Shape<1, DK>{}, a.h, part * a.chunks + chunk, 0));
          dK.zip(
              "dK"_s, [](auto x, auto y) { return y - x; }, later_k);
          b.store("part"_s, a.dk, part, before, dK);
          auto R = b.ab("dR"_s, s.Y, s.X);
          R.map("dR"_s, [&](auto x) { return b.planted("drho_without_state"_s, x, x * 0) * Real(before); });
          b.mma(R, s.Bs, s.Kc);
          R.map("dR"_s, [&](auto x) { return -x / from; });
          b.store("part"_s, a.drho, part, before, R);
        });
  }

 private:
  /// P and B, what a query's read weighs values and keys of its chunk with.
  template <class Ex, class Row>
  TILE_FN static void put_scores(Ex& b, Smem& s, const Args& a, int head, int before, const Row& n) {
    auto P = b.abt("T"_s, s.rho, s.Kc);
    P.map("P"_s, minus, b.load_row("t"_s, Shape<C>{}, a.tilt, head, before));
    P.map("P"_s, [](auto x) { return 1 - x; });
    P.mask(lower, 0);
    b.put(s.P, P);
    auto A = b.abt("A"_s, s.Y, s.Vc);
    A.mask(lower, 0);
    auto sum = b.partial("e"_s, Shape<C>{});
    sum.fold(b.row("e"_s, Shape<C>{}, 1), A);
    const auto centred = [&](auto x, auto mean) { return x - b.planted("values_not_centred"_s, mean, mean * 0); };
    A.map("B"_s, centred, b.rows("e"_s, over, sum.total(), n));
    A.mask(lower, 0);
    b.put(s.Bs, A);
    b.sync();
  }
  template <class Ex, class Tile, class Mean, class Centred>
  TILE_FN static void put_centred(Ex& b, Tile& tile, const Mean& mean, int head, int col0, Centred& centred) {
    auto x = b.acc("X"_s, Shape<Tile::rows, Tile::cols>{});
    x.zip("X"_s, copy_minus, tile, b.load_col("mean"_s, Shape<1, Tile::cols>{}, mean, head, col0));
    b.put(centred, x);
  }
};

inline constexpr SiteTable::Init affine_linear_attention_site_list[] = {
    {"rho", Role::operand},     {"K", Role::operand},      {"V", Role::operand},        {"dO", Role::operand},
    {"Kc", Role::operand},      {"Vc", Role::operand},     {"ones", Role::operand},     {"Xc", Role::operand},
    {"Pc", Role::operand},      {"Dc", Role::operand},     {"Yc", Role::operand},       {"Yd", Role::operand},
    {"Re", Role::operand},      {"Qc", Role::operand},     {"Bc", Role::operand},       {"count", Role::gate},
    {"weight", Role::gate},     {"X", Role::accumulator},  {"mean", Role::accumulator}, {"sum", Role::accumulator},
    {"W", Role::accumulator},   {"S0", Role::accumulator}, {"S", Role::accumulator},    {"T", Role::accumulator},
    {"t", Role::accumulator},   {"P", Role::accumulator},  {"O", Role::accumulator},    {"o", Role::accumulator},
    {"A", Role::accumulator},   {"e", Role::accumulator},  {"f", Role::accumulator},    {"B", Role::accumulator},
    {"dV", Role::accumulator},  {"dK", Role::accumulator}, {"dR", Role::accumulator},   {"part", Role::accumulator},
    {"end", Role::accumulator}, {"out", Role::output}};
inline constexpr SiteTable affine_linear_attention_sites{affine_linear_attention_site_list};

}  // namespace assay::tile
