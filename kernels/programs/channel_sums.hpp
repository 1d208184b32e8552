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
// Blocks are pairs of a chunk and DV columns of the values, in this order. States lie in memory as operands: DK rows
// for each chunk.
#include <type_traits>

#include "kernels/core/functions.hpp"
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// The sum that every chunk adds to the state, and the decays of the state in it.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct ChannelUpdates {
  struct Args {
    typename B::In k, v, log_decay;
    typename B::Out updates;
    typename B::RowOut totals;  // DK for each chunk
    int len, group, blocks;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"V", C, DV> V;
    typename B::template Tile<"zKc", C, DK> zK;
    typename B::template Tile<"alpha", C, DK> alpha;
    typename B::template Tile<"alpha", C, DK> z;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunk = block / a.blocks, v0 = block % a.blocks * DV;
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.K, a.k, head / a.group, chunk * C);
          b.load(s.V, a.v, head, chunk * C, v0);
        },
        [&](int, int) {
          b.channel_decays("alpha"_s, s.alpha, a.log_decay, head, chunk * C);
          b.sync();
          b.channel_suffix("decay"_s, s.z, s.alpha);
          const int n = imin(C, a.len - chunk * C), count = b.planted("tail_decay"_s, C, n < C ? n - 1 : n);
          if (v0 == 0)
            b.store_row("decay"_s, a.totals, head, chunk * DK, b.channel_total("decay"_s, Shape<DK>{}, s.alpha, count));
          b.sync();
          auto zK = in_registers(b, "X"_s, s.K);
          zK.zip("X"_s, times, s.z);
          b.put(s.zK, zK);
          b.sync();
          b.store("W"_s, a.updates, head, chunk * DK, b.atb("W"_s, s.zK, s.V), v0);
        });
  }
};

/// The outputs that the queries read.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct ChannelOutputs {
  struct Args {
    typename B::In q, k, u, states, log_decay;
    typename B::RowIn scale;
    typename B::Out o;
    int group, shared_heads, blocks;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"U", C, DV> U;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"aQc", C, DK> aQ;
    typename B::template Tile<"alpha", C, DK> alpha;
    typename B::template Tile<"alpha", C, DK> a;
    typename B::template Tile<"P", C, C> P;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = b.planted("head_modulo"_s, head / a.group, head % a.shared_heads);
    const int chunk = block / a.blocks, v0 = block % a.blocks * DV;
    const auto scaled = [&](auto x, auto scale) { return b.planted("scale_forgotten"_s, x * scale, x); };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.q, shared, chunk * C);
          b.load(s.K, a.k, shared, chunk * C);
          b.load(s.U, a.u, head, chunk * C, v0);
          b.load(s.S, a.states, head, chunk * DK, v0);
        },
        [&](int, int) {
          b.channel_decays("alpha"_s, s.alpha, a.log_decay, head, chunk * C);
          b.sync();
          b.channel_prefix("decay"_s, s.a, s.alpha);
          b.channel_scores("QK"_s, "decay"_s, s.P, s.Q, s.K, s.alpha, b.planted("decay_index_of_scores"_s, 0, 1));
          b.sync();
          auto aQ = in_registers(b, "X"_s, s.Q);
          aQ.zip("X"_s, times, s.a);
          b.put(s.aQ, aQ);
          auto P = in_registers(b, "QK"_s, s.P);
          P.mask([&](int r, int c) { return r >= c + b.planted("scores_exclude_self"_s, 0, 1); }, 0);
          b.sync();
          auto O = b.ab("O"_s, s.aQ, s.S);
          b.mma(O, b.cast("Pc"_s, P), s.U);
          O.map("o"_s, scaled, b.load_row("scale"_s, Shape<C>{}, a.scale, head, chunk * C));
          b.store("out"_s, a.o, head, chunk * C, O, v0);
        });
  }
};

/// Their adjoint: what they give the cotangent of the state and, within the chunk, the values.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct ChannelReads {
  struct Args {
    typename B::In q, k, o_cotangent, log_decay;
    typename B::RowIn scale;
    typename B::Out updates, du;
    int group, blocks;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"dO", C, DV> dO;
    typename B::template Tile<"Yc", C, DV> Y;
    typename B::template Tile<"aQc", C, DK> aQ;
    typename B::template Tile<"alpha", C, DK> alpha;
    typename B::template Tile<"alpha", C, DK> a;
    typename B::template Tile<"P", C, C> P;
    typename B::template Tile<"Pc", C, C> Pc;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunk = block / a.blocks, v0 = block % a.blocks * DV;
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.q, head / a.group, chunk * C);
          b.load(s.K, a.k, head / a.group, chunk * C);
          b.load(s.dO, a.o_cotangent, head, chunk * C, v0);
        },
        [&](int, int) {
          b.channel_decays("alpha"_s, s.alpha, a.log_decay, head, chunk * C);
          b.sync();
          b.channel_prefix("decay"_s, s.a, s.alpha);
          b.channel_scores("QK"_s, "decay"_s, s.P, s.Q, s.K, s.alpha);
          auto Y = in_registers(b, "X"_s, s.dO);
          Y.map("X"_s, times, b.load_row("scale"_s, Shape<C>{}, a.scale, head, chunk * C));
          b.put(s.Y, Y);
          b.sync();
          auto aQ = in_registers(b, "X"_s, s.Q);
          aQ.zip("X"_s, times, s.a);
          b.put(s.aQ, aQ);
          auto P = in_registers(b, "QK"_s, s.P);
          b.put(s.Pc, P);
          b.sync();
          b.store("W"_s, a.updates, head, chunk * DK, b.atb("W"_s, s.aQ, s.Y), v0);
          b.store("dU"_s, a.du, head, chunk * C, b.atb("dU"_s, s.Pc, s.Y), v0);
        });
  }
};

/// Gradients of a chunk's tokens. dq, dk, dlog_decay and dbeta are this block's part, the value columns v0.. of its
/// head. `Errors`: what is written are errors, not the values themselves.
template <ExecutorTypes B, Size C, Size DK, Size DV, bool Errors>
struct ChannelGradients {
  struct Args {
    typename B::In q, k, u, states, adjoints, o_cotangent, log_decay;
    typename B::RowIn scale;
    typename B::In du;         // without errors: dU of the reads
    typename B::In v, errors;  // with errors: V and E
    typename B::RowIn beta;
    typename B::Out dq, dk, dv, dlog_decay;
    typename B::RowOut dbeta;
    int group, blocks;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"U", C, DV> U;
    typename B::template Tile<"dO", C, DV> dO;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Sc", DK, DV> G;
    typename B::template Tile<"Yc", C, DV> Y;
    typename B::template Tile<"dU", C, DV> dU;  // or E
    TileIf<Errors, typename B::template Tile<"V", C, DV>> V;
    TileIf<Errors, typename B::template Tile<"Fc", C, DV>> F;
    typename B::template Tile<"zKc", C, DK> weighted;  // z o K, or a o K
    typename B::template Tile<"alpha", C, DK> alpha;
    typename B::template Tile<"alpha", C, DK> a;
    typename B::template Tile<"alpha", C, DK> z;
    typename B::template Tile<"terms", C, DK> left;   // terms of rows of a, then dQ
    typename B::template Tile<"terms", C, DK> right;  // terms of rows of z, then dK
    typename B::template Tile<"terms", C, DK> dg;
    typename B::template Tile<"P", C, C> dP;
    TileIf<Errors, typename B::template Tile<"P", C, C>> L;
    TileIf<Errors, typename B::template Tile<"P", C, C>> dL;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = head / a.group, chunk = block / a.blocks;
    const Place at{head, head * a.blocks + block % a.blocks, block % a.blocks * DV, chunk * C};
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.q, shared, at.row0);
          b.load(s.K, a.k, shared, at.row0);
          b.load(s.U, a.u, head, at.row0, at.v0);
          b.load(s.dO, a.o_cotangent, head, at.row0, at.v0);
          b.load(s.S, a.states, head, chunk * DK, at.v0);
          b.load(s.G, a.adjoints, head, chunk * DK, at.v0);
          if constexpr (Errors) b.load(s.V, a.v, head, at.row0, at.v0);
          b.load(s.dU, Errors ? a.errors : a.du, head, at.row0, at.v0);
        },
        [&](int, int) {
          put_cotangents(b, s, a, at);
          put_decays_and_scores(b, s);
          auto [dQ, dK] = through_states(b, s);
          b.sync();
          b.channel_gates("gates"_s, s.dg, s.left, s.right);
          if constexpr (Errors)
            store_dbeta(b, s, a, at);
          else
            store_dv(b, s, a, at);
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
    int head, part, v0, row0;
  };

  /// The cotangents of the reads and, with errors, dV = beta E and F = -dV.
  template <class Ex>
  TILE_FN static void put_cotangents(Ex& b, Smem& s, const Args& a, const Place& at) {
    b.channel_decays("alpha"_s, s.alpha, a.log_decay, at.head, at.row0);
    auto Y = in_registers(b, "X"_s, s.dO);
    Y.map("X"_s, times, b.load_row("scale"_s, Shape<C>{}, a.scale, at.head, at.row0));
    b.put(s.Y, Y);
    if constexpr (Errors) {
      auto dV = in_registers(b, "X"_s, s.dU);
      dV.map("X"_s, times, b.load_row("beta"_s, Shape<C>{}, a.beta, at.head, at.row0));
      b.store("out"_s, a.dv, at.head, at.row0, dV, at.v0);
      dV.map("X"_s, negative);
      b.put(s.F, dV);
    }
    b.sync();
  }
  template <class Ex>
  TILE_FN static void put_decays_and_scores(Ex& b, Smem& s) {
    b.channel_prefix("decay"_s, s.a, s.alpha);
    b.channel_suffix("decay"_s, s.z, s.alpha);
    auto dP = b.abt("dP"_s, s.Y, s.U);
    dP.mask(lower, 0);
    b.put(s.dP, dP);
    if constexpr (Errors) {
      b.channel_scores("KK"_s, "decay"_s, s.L, s.K, s.K, s.alpha);
      auto dL = b.abt("dL"_s, s.F, s.U);
      dL.mask(strictly_lower, 0);
      b.put(s.dL, dL);
    }
    b.sync();
  }
  /// The parts of dQ and dK through the states, and the terms of their decays.
  template <class Ex>
  TILE_FN static auto through_states(Ex& b, Smem& s) {
    const auto to_query = [&](auto x, auto decay) { return b.planted("dq_not_decayed"_s, x * decay, x); };
    auto k = in_registers(b, "X"_s, s.K);
    auto weighted = k;
    weighted.zip("X"_s, times, chosen<Errors>(s.a, s.z));
    b.put(s.weighted, weighted);
    auto dQ = b.abt("dQ"_s, s.Y, s.S);
    dQ.zip("dQ"_s, to_query, s.a);
    auto row_terms = dQ;
    row_terms.zip("from"_s, times, s.Q);
    auto dK = b.abt("dK"_s, s.U, s.G);
    dK.zip("dK"_s, times, s.z);
    auto end_terms = dK;
    end_terms.zip("from"_s, times, k);
    b.put(s.right, end_terms);
    if constexpr (Errors) {
      auto dX = b.abt("dX"_s, s.F, s.S);
      dX.zip("dX"_s, times, s.a);
      if (b.planted("dk_without_read"_s, true, false)) dK.zip("dK"_s, plus, dX);
      dX.zip("from"_s, times, k);
      row_terms.zip("from"_s, plus, dX);
    }
    b.put(s.left, row_terms);
    return Two<decltype(dQ), decltype(dK)>{dQ, dK};
  }
  template <class Ex>
  TILE_FN static void store_dbeta(Ex& b, Smem& s, const Args& a, const Place& at) {
    auto R = b.ab("R"_s, s.weighted, s.S);
    auto L = in_registers(b, "KK"_s, s.L);
    L.mask(strictly_lower, 0);
    R.zip("R"_s, taken_from, s.V);
    auto LU = b.acc("LU"_s, Shape<C, DV>{});
    b.mma(LU, b.cast("Lc"_s, L), s.U);
    R.zip("R"_s, minus, LU);
    if (b.planted("dbeta_of_value"_s, false, true)) R.zip("R"_s, copy, s.V);
    auto E = in_registers(b, "X"_s, s.dU);
    b.store_row("dbeta"_s, a.dbeta, at.part, at.row0, b.dot("dbeta"_s, E, R));
  }
  template <class Ex>
  TILE_FN static void store_dv(Ex& b, Smem& s, const Args& a, const Place& at) {
    auto dV = b.ab("dV"_s, s.weighted, s.G);
    if (b.planted("dv_without_later_reads"_s, false, true)) dV.map("dV"_s, [](auto x) { return x * 0; });
    dV.zip("dV"_s, plus, s.dU);
    b.store("out"_s, a.dv, at.head, at.row0, dV, at.v0);
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
    b.store("part"_s, a.dq, at.part, at.row0, dQ);
    dK.zip("part"_s, copy, s.right);
    b.store("part"_s, a.dk, at.part, at.row0, dK);
    auto total = b.channel_total("decay"_s, Shape<DK>{}, s.alpha, C);
    auto state_terms = b.rows("from"_s, times, b.dot("from"_s, s.S, s.G), total);
    auto dg = in_registers(b, "gates"_s, s.dg);
    dg.map("gates"_s, with_state, b.column_of(state_terms));
    b.store("dlog_decay"_s, a.dlog_decay, at.part, at.row0, dg);
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
