#pragma once
// Values summed under their keys with one decay per token and key channel, and read by the query (delta-family.md 3.3):
// the tile programs of gated linear attention and, around its triangular system, of Kimi Delta Attention. A ratio of
// decays is a number for every channel, so that scores are no matrix product of queries and keys; they are summed
// channel by channel, every ratio a running product, and alpha = 0 is an ordinary gate:
//   P_ij = sum_d q_id k_jd prod_{j < l <= i} alpha_ld (j <= i),   L_ij = sum_d k_id k_jd prod_{j < l <= i} alpha_ld
//   (j < i), a_id = prod_{l <= i} alpha_ld,   z_jd = prod_{l > j} alpha_ld,   a_Cd = prod_l alpha_ld
// Chunks of C tokens, all at once but for one pass over the states. With U the values that are written, s a scale per
// token, and the state S before a chunk
//   W = (z o K)^T U,   S <- a_C S + W,   O = s o ((a o Q) S + P U)
// Backward, G the cotangent of the state after the chunk and Y = s o dO:
//   W = (a o Q)^T Y,   dU = P^T Y + (z o K) G,   G <- a_C G + W,   dP = lower(Y U^T)
//   dQ = a o Y S^T + dP applied to K,   dK = z o U G^T + dP applied to Q
// where "applied" means with the ratios of its scores. Where errors are written, E the gradient of the system's right
// side (kernels/programs/delta_pass.hpp):
//   dV = diag(beta) E,   F = -dV,   R = V - (a o K) S - L U,   dbeta = rowsum(E o R),   dL = strict_lower(F U^T)
//   dK += a o F S^T + dL applied to K, from the left and from the right
// and each term is a term of the gradient of the log of every gate in its product:
//   dlog_decay_r = the terms of dP and dL with j < r <= i + sum_{i >= r} q_i (a o Y S^T)_i + k_i (a o F S^T)_i
//                + sum_{j < r} k_j (z o U G^T)_j + a_C <S, G>
// What depends on no values is made once a chunk, in memory: a block that holds a tile of decays leaves room for few
// others, and chains along a chunk wait for each other. Blocks are pairs of a chunk and DV columns of the values, in
// this order. States lie in memory as operands: DK rows for each chunk.
#include <type_traits>

#include "kernels/core/functions.hpp"
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// What the other programs need of a chunk whatever its values: a and z, the queries and keys under them, the scores P,
/// a_C. Blocks are chunks. `Errors`: keys read the state, too.
template <ExecutorTypes B, Size C, Size DK, bool Errors>
struct ChannelDecays {
  struct Args {
    typename B::In q, k, log_decay;
    typename B::Out aq, ak, zk, scores, a, z;
    typename B::RowOut totals;  // DK for each chunk
    int len, group, shared_heads;
    bool backward;  // a and z are wanted
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"alpha", C, DK> alpha;
    typename B::template Tile<"alpha", C, DK> decays;  // a, then z
    typename B::template Tile<"P", C, C> P;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int shared = b.planted("head_modulo"_s, head / a.group, head % a.shared_heads);
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.q, shared, chunk * C);
          b.load(s.K, a.k, shared, chunk * C);
        },
        [&](int, int) {
          b.channel_decays("alpha"_s, s.alpha, a.log_decay, head, chunk * C);
          b.sync();
          b.channel_prefix("decay"_s, s.decays, s.alpha);
          b.channel_scores("QK"_s, "decay"_s, s.P, s.Q, s.K, s.alpha, b.planted("decay_index_of_scores"_s, 0, 1));
          const int n = imin(C, a.len - chunk * C), count = b.planted("tail_decay"_s, C, n < C ? n - 1 : n);
          b.store_row("decay"_s, a.totals, head, chunk * DK, b.channel_total("decay"_s, Shape<DK>{}, s.alpha, count));
          b.sync();
          auto P = in_registers(b, "QK"_s, s.P);
          P.mask([&](int r, int c) { return r >= c + b.planted("scores_exclude_self"_s, 0, 1); }, 0);
          b.store("Pc"_s, a.scores, head, chunk * C, P);
          const auto under_decays = [&](auto site, auto& tile, const auto& to) {
            auto x = in_registers(b, "X"_s, tile);
            x.zip("X"_s, times, s.decays);
            b.store(site, to, head, chunk * C, x);
          };
          under_decays("aQc"_s, s.Q, a.aq);
          if constexpr (Errors) under_decays("Xc"_s, s.K, a.ak);
          if (a.backward) b.store("decay"_s, a.a, head, chunk * C, in_registers(b, "decay"_s, s.decays));
          b.sync();
          b.channel_suffix("decay"_s, s.decays, s.alpha);
          b.sync();
          under_decays("zKc"_s, s.K, a.zk);
          if (a.backward) b.store("decay"_s, a.z, head, chunk * C, in_registers(b, "decay"_s, s.decays));
        });
  }
};

/// The sum that every chunk adds to the state.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct ChannelUpdates {
  struct Args {
    typename B::In zk, v;
    typename B::Out updates;
    int blocks;
  };
  struct Smem {
    typename B::template Tile<"zKc", C, DK> zK;
    typename B::template Tile<"V", C, DV> V;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunk = block / a.blocks, v0 = block % a.blocks * DV;
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.zK, a.zk, head, chunk * C);
          b.load(s.V, a.v, head, chunk * C, v0);
        },
        [&](int, int) { b.store("W"_s, a.updates, head, chunk * DK, b.atb("W"_s, s.zK, s.V), v0); });
  }
};

/// The outputs that the queries read.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct ChannelOutputs {
  struct Args {
    typename B::In aq, scores, u, states;
    typename B::RowIn scale;
    typename B::Out o;
    int blocks;
  };
  struct Smem {
    typename B::template Tile<"aQc", C, DK> aQ;
    typename B::template Tile<"Pc", C, C> P;
    typename B::template Tile<"U", C, DV> U;
    typename B::template Tile<"Sc", DK, DV> S;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunk = block / a.blocks, v0 = block % a.blocks * DV;
    const auto scaled = [&](auto x, auto scale) { return b.planted("scale_forgotten"_s, x * scale, x); };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.aQ, a.aq, head, chunk * C);
          b.load(s.P, a.scores, head, chunk * C);
          b.load(s.U, a.u, head, chunk * C, v0);
          b.load(s.S, a.states, head, chunk * DK, v0);
        },
        [&](int, int) {
          auto O = b.ab("O"_s, s.aQ, s.S);
          b.mma(O, s.P, s.U);
          O.map("o"_s, scaled, b.load_row("scale"_s, Shape<C>{}, a.scale, head, chunk * C));
          b.store("out"_s, a.o, head, chunk * C, O, v0);
        });
  }
};

/// Their adjoint: what they give the cotangent of the state and, within the chunk, the values.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct ChannelReads {
  struct Args {
    typename B::In aq, scores, o_cotangent;
    typename B::RowIn scale;
    typename B::Out updates, du;
    int blocks;
  };
  struct Smem {
    typename B::template Tile<"aQc", C, DK> aQ;
    typename B::template Tile<"Pc", C, C> P;
    typename B::template Tile<"Yc", C, DV> Y;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunk = block / a.blocks, v0 = block % a.blocks * DV;
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.aQ, a.aq, head, chunk * C);
          b.load(s.P, a.scores, head, chunk * C);
        },
        [&](int, int) {
          auto Y = b.load_acc("dO"_s, Shape<C, DV>{}, a.o_cotangent, head, chunk * C, v0);
          Y.map("X"_s, times, b.load_row("scale"_s, Shape<C>{}, a.scale, head, chunk * C));
          b.put(s.Y, Y);
          b.sync();
          b.store("W"_s, a.updates, head, chunk * DK, b.atb("W"_s, s.aQ, s.Y), v0);
          b.store("dU"_s, a.du, head, chunk * C, b.atb("dU"_s, s.P, s.Y), v0);
        });
  }
};

/// What goes through the states of the gradients of a chunk's tokens, and the cotangents of the scores: this block's
/// part, the value columns v0.. of its head. `Errors`: what is written are errors, not the values themselves.
template <ExecutorTypes B, Size C, Size DK, Size DV, bool Errors>
struct ChannelGradients {
  struct Args {
    typename B::In keys, a, z, u, states, adjoints, o_cotangent;  // keys: z o K or, with errors, a o K
    typename B::RowIn scale;
    typename B::In du;               // without errors: dU of the reads
    typename B::In v, errors, read;  // with errors: V, E and L
    typename B::RowIn beta;
    typename B::Out dq, dk, dx, dp, dl, dv;  // dx: of keys that are read with
    typename B::RowOut ends, dbeta;          // ends: rowsum(S o G), DK for each chunk
    int blocks;
  };
  struct Smem {
    typename B::template Tile<"zKc", C, DK> keys;
    typename B::template Tile<"U", C, DV> U;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Sc", DK, DV> G;
    typename B::template Tile<"Yc", C, DV> Y;
    TileIf<Errors, typename B::template Tile<"Fc", C, DV>> F;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunk = block / a.blocks;
    const Place at{head, head * a.blocks + block % a.blocks, block % a.blocks * DV, chunk * C};
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.keys, a.keys, head, at.row0);
          b.load(s.U, a.u, head, at.row0, at.v0);
          b.load(s.S, a.states, head, chunk * DK, at.v0);
          b.load(s.G, a.adjoints, head, chunk * DK, at.v0);
        },
        [&](int, int) {
          put_cotangents(b, s, a, at);
          b.store_row("from"_s, a.ends, at.part, chunk * DK, b.dot("from"_s, s.S, s.G));
          store_scores(b, s, a, at);
          by_reads(b, s, a, at);
          by_writes(b, s, a, at);
        });
  }

 private:
  struct Place {
    int head, part, v0, row0;
  };

  /// The cotangents of the reads and, with errors, dV = beta E and F = -dV.
  template <class Ex>
  TILE_FN static void put_cotangents(Ex& b, Smem& s, const Args& a, const Place& at) {
    auto Y = b.load_acc("dO"_s, Shape<C, DV>{}, a.o_cotangent, at.head, at.row0, at.v0);
    Y.map("X"_s, times, b.load_row("scale"_s, Shape<C>{}, a.scale, at.head, at.row0));
    b.put(s.Y, Y);
    if constexpr (Errors) {
      auto dV = b.load_acc("E"_s, Shape<C, DV>{}, a.errors, at.head, at.row0, at.v0);
      dV.map("X"_s, times, b.load_row("beta"_s, Shape<C>{}, a.beta, at.head, at.row0));
      b.store("out"_s, a.dv, at.head, at.row0, dV, at.v0);
      dV.map("X"_s, negative);
      b.put(s.F, dV);
    }
    b.sync();
  }
  template <class Ex>
  TILE_FN static void store_scores(Ex& b, Smem& s, const Args& a, const Place& at) {
    auto dP = b.abt("dP"_s, s.Y, s.U);
    dP.mask(lower, 0);
    b.store("dP"_s, a.dp, at.part, at.row0, dP);
    if constexpr (Errors) {
      auto dL = b.abt("dL"_s, s.F, s.U);
      dL.mask(strictly_lower, 0);
      b.store("dL"_s, a.dl, at.part, at.row0, dL);
    }
  }
  /// Of what reads the state before the chunk: queries and, with errors, keys.
  template <class Ex>
  TILE_FN static void by_reads(Ex& b, Smem& s, const Args& a, const Place& at) {
    const auto to_query = [&](auto x, auto decay) { return b.planted("dq_not_decayed"_s, x * decay, x); };
    auto decays = b.load_acc("decay"_s, Shape<C, DK>{}, a.a, at.head, at.row0);
    auto dQ = b.abt("dQ"_s, s.Y, s.S);
    dQ.zip("dQ"_s, to_query, decays);
    b.store("part"_s, a.dq, at.part, at.row0, dQ);
    if constexpr (Errors) {
      auto dX = b.abt("dX"_s, s.F, s.S);
      dX.zip("dX"_s, times, decays);
      b.store("part"_s, a.dx, at.part, at.row0, dX);
      store_dbeta(b, s, a, at);
    }
  }
  template <class Ex>
  TILE_FN static void store_dbeta(Ex& b, Smem& s, const Args& a, const Place& at) {
    auto V = b.load_acc("V"_s, Shape<C, DV>{}, a.v, at.head, at.row0, at.v0);
    auto R = b.ab("R"_s, s.keys, s.S);
    R.zip("R"_s, taken_from, V);
    auto L = b.load_acc("KK"_s, Shape<C, C>{}, a.read, at.head, at.row0);
    L.mask(strictly_lower, 0);
    auto LU = b.acc("LU"_s, Shape<C, DV>{});
    b.mma(LU, b.cast("Lc"_s, L), s.U);
    R.zip("R"_s, minus, LU);
    if (b.planted("dbeta_of_value"_s, false, true)) R.zip("R"_s, copy, V);
    auto E = b.load_acc("E"_s, Shape<C, DV>{}, a.errors, at.head, at.row0, at.v0);
    b.store_row("dbeta"_s, a.dbeta, at.part, at.row0, b.dot("dbeta"_s, E, R));
  }
  /// Of what is written to the state after it.
  template <class Ex>
  TILE_FN static void by_writes(Ex& b, Smem& s, const Args& a, const Place& at) {
    auto decays = b.load_acc("decay"_s, Shape<C, DK>{}, a.z, at.head, at.row0);
    auto dK = b.abt("dK"_s, s.U, s.G);
    dK.zip("dK"_s, times, decays);
    b.store("part"_s, a.dk, at.part, at.row0, dK);
    if constexpr (!Errors) {
      auto dV = b.ab("dV"_s, s.keys, s.G);
      if (b.planted("dv_without_later_reads"_s, false, true)) dV.map("dV"_s, [](auto x) { return x * 0; });
      auto dU = b.load_acc("dU"_s, Shape<C, DV>{}, a.du, at.head, at.row0, at.v0);
      dV.zip("dV"_s, plus, dU);
      b.store("out"_s, a.dv, at.head, at.row0, dV, at.v0);
    }
  }
};

/// The gradients of a chunk's queries and keys in the channels c0.. of a head, and of its log decays: the sums of the
/// parts through the states, and what goes through the scores.
template <ExecutorTypes B, Size C, Size DK, bool Errors>
struct ChannelScoreGradients {
  struct Args {
    typename B::In q, k, log_decay, dq_parts, dk_parts, dx_parts, dp_parts, dl_parts;
    typename B::RowIn ends;
    typename B::Out dq, dk, dlog_decay;
    int group, parts, columns, dim;  // parts of a head, blocks of channels of a chunk, rows of `ends` of one
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"alpha", C, DK> alpha;
    typename B::template Tile<"terms", C, DK> left;   // terms of rows of a, then dQ
    typename B::template Tile<"terms", C, DK> right;  // terms of rows of z, then dK
    typename B::template Tile<"terms", C, DK> dg;
    typename B::template Tile<"P", C, C> dP;
    TileIf<Errors, typename B::template Tile<"P", C, C>> dL;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const Place at{head, block / a.columns, block / a.columns * C, block % a.columns * DK};
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.q, head / a.group, at.row0, at.c0);
          b.load(s.K, a.k, head / a.group, at.row0, at.c0);
        },
        [&](int, int) {
          put_decays(b, s, a, at);
          put_scores(b, s, a, at);
          auto dQ = sum_of_parts(b, "part"_s, Shape<C, DK>{}, a, a.dq_parts, at, at.c0);
          auto dK = sum_of_parts(b, "part"_s, Shape<C, DK>{}, a, a.dk_parts, at, at.c0);
          put_terms(b, s, a, at, dQ, dK);
          b.sync();
          b.channel_gates("gates"_s, s.dg, s.left, s.right);
          b.sync();
          b.put(s.left, dQ);
          b.put(s.right, dK);
          b.sync();
          through_scores(b, s);
          store(b, s, a, at, dQ, dK);
        });
  }

 private:
  struct Place {
    int head, chunk, row0, c0;
  };

  template <class Ex, class St, class Sh>
  TILE_FN static auto sum_of_parts(Ex& b, St st, Sh shape, const Args& a, const typename B::In& parts, const Place& at,
                                   int col0 = 0) {
    auto sum = b.load_acc(st, shape, parts, at.head * a.parts, at.row0, col0);
    for (int p = 1; p < a.parts; ++p) {
      auto part = b.load_acc(st, shape, parts, at.head * a.parts + p, at.row0, col0);
      sum.zip(st, plus, part);
    }
    return sum;
  }
  template <class Ex>
  TILE_FN static void put_decays(Ex& b, Smem& s, const Args& a, const Place& at) {
    auto alpha = b.load_acc("alpha"_s, Shape<C, DK>{}, a.log_decay, at.head, at.row0, at.c0);
    alpha.map("alpha"_s, [](auto x) { return ex2(x * decltype(x)(0x1.71547652b82fep+0)); });
    b.put(s.alpha, alpha);
  }
  template <class Ex>
  TILE_FN static void put_scores(Ex& b, Smem& s, const Args& a, const Place& at) {
    b.put(s.dP, sum_of_parts(b, "dP"_s, Shape<C, C>{}, a, a.dp_parts, at));
    if constexpr (Errors) b.put(s.dL, sum_of_parts(b, "dL"_s, Shape<C, C>{}, a, a.dl_parts, at));
  }
  /// The terms of the decays in what goes through the states; with errors, dK takes what keys that are read with have.
  template <class Ex, class Keys>
  TILE_FN static void put_terms(Ex& b, Smem& s, const Args& a, const Place& at, Keys& dQ, Keys& dK) {
    auto k = in_registers(b, "X"_s, s.K);
    auto row_terms = dQ;
    row_terms.zip("from"_s, times, s.Q);
    auto end_terms = dK;
    end_terms.zip("from"_s, times, k);
    b.put(s.right, end_terms);
    if constexpr (Errors) {
      auto dX = sum_of_parts(b, "part"_s, Shape<C, DK>{}, a, a.dx_parts, at, at.c0);
      if (b.planted("dk_without_read"_s, true, false)) dK.zip("dK"_s, plus, dX);
      dX.zip("from"_s, times, k);
      row_terms.zip("from"_s, plus, dX);
    }
    b.put(s.left, row_terms);
  }
  template <class Ex>
  TILE_FN static void through_scores(Ex& b, Smem& s) {
    b.channel_adjoint("adjoint"_s, "decay"_s, s.dP, s.Q, s.K, s.alpha, s.left, s.right, s.dg);
    b.sync();
    if constexpr (Errors) {
      b.channel_adjoint("adjoint"_s, "decay"_s, s.dL, s.K, s.K, s.alpha, s.right, s.right, s.dg);
      b.sync();
    }
  }
  template <class Ex, class Keys>
  TILE_FN static void store(Ex& b, Smem& s, const Args& a, const Place& at, Keys& dQ, Keys& dK) {
    const auto with_state = [&](auto x, auto state) { return b.planted("dlog_decay_without_state"_s, x + state, x); };
    dQ.zip("part"_s, copy, s.left);
    b.store("part"_s, a.dq, at.head, at.row0, dQ, at.c0);
    dK.zip("part"_s, copy, s.right);
    b.store("part"_s, a.dk, at.head, at.row0, dK, at.c0);
    const int part = at.head * a.parts, end = at.chunk * a.dim + at.c0;
    auto ends = b.load_row("from"_s, Shape<DK>{}, a.ends, part, end);
    for (int p = 1; p < a.parts; ++p)
      ends = b.rows("from"_s, plus, ends, b.load_row("from"_s, Shape<DK>{}, a.ends, part + p, end));
    auto state_terms = b.rows("from"_s, times, ends, b.channel_total("decay"_s, Shape<DK>{}, s.alpha, C));
    auto dg = in_registers(b, "gates"_s, s.dg);
    dg.map("gates"_s, with_state, b.column_of(state_terms));
    b.store("dlog_decay"_s, a.dlog_decay, at.head, at.row0, dg, at.c0);
  }
};

inline constexpr SiteTable::Init channel_site_list[] = {
    {"Q", Role::operand},           {"K", Role::operand},         {"V", Role::operand},
    {"U", Role::operand},           {"dO", Role::operand},        {"Sc", Role::operand},
    {"Pc", Role::operand},          {"aQc", Role::operand},       {"zKc", Role::operand},
    {"Yc", Role::operand},          {"scale", Role::gate},        {"decay", Role::gate},
    {"alpha", Role::gate},          {"dlog_decay", Role::gate},   {"X", Role::accumulator},
    {"W", Role::accumulator},       {"S0", Role::accumulator},    {"S", Role::accumulator},
    {"QK", Role::accumulator},      {"P", Role::accumulator},     {"O", Role::accumulator},
    {"o", Role::accumulator},       {"dP", Role::accumulator},    {"dU", Role::accumulator},
    {"dV", Role::accumulator},      {"dQ", Role::accumulator},    {"dK", Role::accumulator},
    {"from", Role::accumulator},    {"terms", Role::accumulator}, {"gates", Role::accumulator},
    {"adjoint", Role::accumulator}, {"part", Role::accumulator},  {"end", Role::accumulator},
    {"out", Role::output}};
inline constexpr SiteTable channel_sites{channel_site_list};

}  // namespace assay::tile
