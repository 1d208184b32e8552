#pragma once
// Values summed under their keys with one decay per token and key channel, and read by the query (delta-family.md 3.3):
// the tile programs of gated linear attention and, around its triangular system, of Kimi Delta Attention. A ratio of
// decays is a number for every channel:
//   P_ij = sum_d q_id k_jd prod_{j < l <= i} alpha_ld (j <= i),   L_ij = sum_d k_id k_jd prod_{j < l <= i} alpha_ld
//   (j < i), a_id = prod_{l <= i} alpha_ld,   z_jd = prod_{l > j} alpha_ld,   a_Cd = prod_l alpha_ld
// No ratio is a quotient, so alpha = 0 is an ordinary gate. Halves of halves of a chunk make scores products of
// matrices: where j is in the first half of 2h tokens and i in the second (Level h), the ratio is the product up to i
// within its half times the product after j within its own. Products of halves of 2h tokens come from those of h.
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
// which go down from a chunk to its tokens as products came up. What depends on no values is made once a chunk, in
// memory. Blocks are chunks, or pairs of a chunk and DV columns of the values, in this order. States lie in memory as
// operands: DK rows for each chunk.
#include <type_traits>

#include "kernels/core/functions.hpp"
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// Whether row i is in the second half of 2h rows.
template <bool Second>
struct OfHalf {
  int h;
  TILE_FN constexpr bool operator()(int i, int) const { return ((i & h) != 0) == Second; }
};

/// Of every row in its half of 2h rows, h = 1 at first: the products of alpha up to it, after it, and of all. Rows and
/// columns beyond the end have alpha = 1.
template <class Acc>
struct HalfDecays {
  Acc up_to, after, all;

  /// Those of twice as many rows. Returns what comes before each row there: the others' product in second halves, 1 in
  /// first ones.
  template <class Ex, class Tile>
  TILE_FN Acc join(Ex& b, Tile& exchange, int h) {
    const auto of_others = b.across(exchange, all, h);
    auto before = of_others, behind = of_others;
    before.mask(OfHalf<true>{h}, 1), behind.mask(OfHalf<false>{h}, 1);
    up_to.zip("decay"_s, times, before);
    after.zip("decay"_s, times, behind);
    all.zip("decay"_s, times, of_others);
    return before;
  }
};
/// The first where rows are in second halves, else the second.
template <class Acc>
TILE_FN Acc by_half(Acc second, const Acc& first, int h) {
  second.mask(OfHalf<true>{h}, first);
  return second;
}
/// Of the logs of alpha.
template <class Acc>
TILE_FN auto half_decays(Acc alpha) {
  alpha.map("alpha"_s, [](auto x) { return ex2(x * decltype(x)(0x1.71547652b82fep+0)); });
  auto ones = alpha;
  ones.map("alpha"_s, [](auto x) { return x * 0 + 1; });
  return HalfDecays<Acc>{alpha, ones, alpha};
}

/// The rows of a chunk in some channels.
template <class Acc>
struct HalfInputs {
  Acc log_decay, q, k;
};
template <class Ex, class Sh, class Args, class Place>
TILE_FN auto half_inputs(Ex& b, Sh shape, const Args& a, const Place& at) {
  auto log_decay = b.load_acc("alpha"_s, shape, a.log_decay, at.head, at.row0, at.c0);
  return HalfInputs<decltype(log_decay)>{log_decay, b.load_acc("Q"_s, shape, a.q, at.shared, at.row0, at.c0),
                                         b.load_acc("K"_s, shape, a.k, at.shared, at.row0, at.c0)};
}
/// Operands of every level: the queries under their decays, where rows are in second halves; the keys under theirs, as
/// they are read there and written in first halves; those without decays, for level 0. What the states are read and
/// written with is stored, and the decays of the chunk.
template <bool Errors, class Ex, class Inputs, class Smem, class Args, class Place>
TILE_FN void half_products(Ex& b, const Inputs& x, Smem& s, const Args& a, const Place& at) {
  auto decays = half_decays(x.log_decay);
  auto of_queries = b.planted("decay_index_of_scores"_s, decays.up_to, decays.after);
  auto of_keys = decays.up_to;
  if constexpr (Errors) of_keys = b.planted("decay_index_of_errors"_s, decays.up_to, decays.after);
  const auto product = [&](auto y, const auto& of) {
    y.zip("X"_s, times, of);
    return y;
  };
  b.put(s.queries[0], x.q), b.put(s.keys[0], x.k);
  const int C = s.decays.rows;
  for (int h = 1, level = 1; h < C; h *= 2, ++level) {
    b.put(s.queries[level], product(x.q, of_queries));
    b.put(s.keys[level], product(x.k, by_half(of_keys, decays.after, h)));
    const auto before = decays.join(b, s.decays, h);
    of_queries.zip("decay"_s, times, before);
    of_keys.zip("decay"_s, times, before);
  }
  b.store("aQc"_s, a.aq, at.head, at.row0, product(x.q, of_queries), at.c0);
  if constexpr (Errors) b.store("Xc"_s, a.ak, at.head, at.row0, product(x.k, of_keys), at.c0);
  b.store("zKc"_s, a.zk, at.head, at.row0, product(x.k, decays.after), at.c0);
  b.put(s.decays, decays.up_to);
  b.sync();
  const int n = imin(C, a.len - at.row0), last = b.planted("tail_decay"_s, C - 1, n < C ? imax(0, n - 2) : C - 1);
  b.store_line("decay"_s, a.totals, at.head, at.total, s.decays, last);
}

/// What the other programs need of a chunk whatever its values: the queries and keys under a and z, the scores P, a_C,
/// made of DC channels at a time. `Errors`: keys read the state, too, and the system of the errors, beta o L, has an
/// inverse. Blocks are chunks.
template <ExecutorTypes B, Size C, Size DK, Size DC, bool Errors>
struct ChannelScores {
  struct Args {
    typename B::In q, k, log_decay;
    typename B::RowIn beta;
    typename B::Out aq, ak, zk, scores, read, inverse;  // read: L
    typename B::RowOut totals;                          // DK for each chunk
    int len, group, shared_heads;
  };
  struct Smem {
    typename B::template Tile<"Xl", C, DC> queries[7];  // of every level
    typename B::template Tile<"Xl", C, DC> keys[7];
    typename B::template Tile<"decay", C, DC> decays;
    TileIf<Errors, typename B::template Tile<"A", C, C>> A;
    TileIf<Errors, typename B::template Tile<"Tc", C, C>> T;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int shared = b.planted("head_modulo"_s, head / a.group, head % a.shared_heads), row0 = chunk * C;
    auto P = b.acc("QK"_s, Shape<C, C>{}), L = b.acc("KK"_s, Shape<C, C>{});
    const auto place = [&](int c0) { return Place{head, shared, row0, c0, chunk * DK + c0}; };
    auto next = half_inputs(b, Shape<C, DC>{}, a, place(0));
    for (int c0 = 0; c0 < DK; c0 += DC) {
      half_products<Errors>(b, next, s, a, place(c0));
      b.sync();
      if (c0 + DC < DK) next = half_inputs(b, Shape<C, DC>{}, a, place(c0 + DC));
      b.mma_abt(Level{0}, P, s.queries[0], s.keys[0]);
      for (int h = 1, level = 1; h < C; h *= 2, ++level) {
        if constexpr (Errors)
          b.mma_abt(Level{h}, P, s.queries[level], L, s.keys[level], s.keys[level]);
        else
          b.mma_abt(Level{h}, P, s.queries[level], s.keys[level]);
      }
      b.sync();
    }
    P.mask([&](int r, int c) { return r >= c + b.planted("scores_exclude_self"_s, 0, 1); }, 0);
    b.store("Pc"_s, a.scores, head, row0, P);
    if constexpr (Errors) invert(b, s, a, head, row0, L);
  }

 private:
  struct Place {
    int head, shared, row0, c0, total;
  };

  template <class Ex, class Reads>
  TILE_FN static void invert(Ex& b, Smem& s, const Args& a, int head, int row0, Reads& L) {
    const auto times_beta = [&](auto x, auto row, auto column) {
      return x * b.planted("beta_of_column"_s, row, column);
    };
    b.store("Lc"_s, a.read, head, row0, L);
    const auto of_column = b.load_col("beta"_s, Shape<1, C>{}, a.beta, head, row0);
    L.map("A"_s, times_beta, b.load_row("beta"_s, Shape<C>{}, a.beta, head, row0), of_column);
    b.put(s.A, L);
    b.sync();
    b.unit_lower_inverse("T"_s, s.T, s.A);
    b.sync();
    b.store("Tc"_s, a.inverse, head, row0, in_registers(b, "KK"_s, s.T));
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

/// Their adjoint where errors are written: what they give the cotangent of the state and, within the chunk, the errors.
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
          b.store("dGc"_s, a.updates, head, chunk * DK, b.atb("W"_s, s.aQ, s.Y), v0);
          b.store("dU"_s, a.du, head, chunk * C, b.atb("dU"_s, s.P, s.Y), v0);
        });
  }
};

/// What goes through the states of the gradients of a chunk's queries and of keys that are written with, not under a
/// and z yet, and the cotangents of the scores, the value columns in steps of DV; without `Errors`, of the values, too.
/// Blocks are chunks, here and below.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST, bool Errors>
struct ChannelGradients {
  struct Args {
    typename B::In zk, u, states, adjoints, o_cotangent, scores;
    typename B::RowIn scale;
    typename B::Out dq, dk, dp, dv;
    typename B::RowOut ends;  // rowsum(S o G), DK for each chunk
    int steps;
  };
  struct Smem {
    TileIf<!Errors, typename B::template Tile<"zKc", C, DK>> zK;
    TileIf<!Errors, typename B::template Tile<"Pc", C, C>> P;
    typename B::template Tile<"U", C, DV> U[ST];
    typename B::template Tile<"Sc", DK, DV> S[ST];
    typename B::template Tile<"Sc", DK, DV> G[ST];
    typename B::template Tile<"Yc", C, DV> Y;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int row0 = chunk * C;
    auto dQ = b.acc("dQ"_s, Shape<C, DK>{}), dK = b.acc("dK"_s, Shape<C, DK>{});
    auto dP = b.acc("dP"_s, Shape<C, C>{});
    auto ends = b.partial("from"_s, Shape<DK>{});
    b.pipeline(
        Shape<ST>{}, a.steps,
        [&](int i, int st) {
          if constexpr (!Errors)
            if (i == 0) b.load(s.zK, a.zk, head, row0), b.load(s.P, a.scores, head, row0);
          b.load(s.U[st], a.u, head, row0, i * DV);
          b.load(s.S[st], a.states, head, chunk * DK, i * DV);
          b.load(s.G[st], a.adjoints, head, chunk * DK, i * DV);
        },
        [&](int i, int st) {
          auto Y = b.load_acc("dO"_s, Shape<C, DV>{}, a.o_cotangent, head, row0, i * DV);
          Y.map("X"_s, times, b.load_row("scale"_s, Shape<C>{}, a.scale, head, row0));
          b.put(s.Y, Y);
          b.sync();
          b.mma_abt(dP, s.Y, s.U[st]);
          b.mma_abt(dQ, s.Y, s.S[st]);
          b.mma_abt(dK, s.U[st], s.G[st]);
          auto terms = in_registers(b, "from"_s, s.S[st]);
          terms.zip("from"_s, times, s.G[st]);
          ends.fold(b.row("from"_s, Shape<DK>{}, 1), terms);
          if constexpr (!Errors) store_dv(b, s, a, head, row0, i, st);
          b.sync();
        });
    b.store("part"_s, a.dq, head, row0, dQ);
    b.store("part"_s, a.dk, head, row0, dK);
    dP.mask(lower, 0);
    b.store("dP"_s, a.dp, head, row0, dP);
    b.store_row("from"_s, a.ends, head, chunk * DK, ends.total());
  }

 private:
  template <class Ex>
  TILE_FN static void store_dv(Ex& b, Smem& s, const Args& a, int head, int row0, int step, int stage) {
    auto dV = b.ab("dV"_s, s.zK, s.G[stage]);
    if (b.planted("dv_without_later_reads"_s, false, true)) dV.map("dV"_s, [](auto x) { return x * 0; });
    b.mma_atb(dV, s.P, s.Y);
    b.store("out"_s, a.dv, head, row0, dV, step * DV);
  }
};

/// Where errors are written: the gradients of the keys that are read with, not under a yet, of the system, of the write
/// strengths and the values, in steps of DV columns.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct ChannelErrorGradients {
  struct Args {
    typename B::In ak, u, states, v, errors, read;  // read: L
    typename B::RowIn beta;
    typename B::Out dx, dl, dv;
    typename B::RowOut dbeta;
    int steps;
  };
  struct Smem {
    typename B::template Tile<"Xc", C, DK> aK;
    typename B::template Tile<"Lc", C, C> L;
    typename B::template Tile<"U", C, DV> U[ST];
    typename B::template Tile<"Sc", DK, DV> S[ST];
    typename B::template Tile<"Fc", C, DV> F;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int row0 = chunk * C;
    auto dX = b.acc("dX"_s, Shape<C, DK>{});
    auto dL = b.acc("dL"_s, Shape<C, C>{});
    auto dbeta = b.partial("dbeta"_s, Shape<C>{});
    b.pipeline(
        Shape<ST>{}, a.steps,
        [&](int i, int st) {
          if (i == 0) b.load(s.aK, a.ak, head, row0), b.load(s.L, a.read, head, row0);
          b.load(s.U[st], a.u, head, row0, i * DV);
          b.load(s.S[st], a.states, head, chunk * DK, i * DV);
        },
        [&](int i, int st) {
          const auto E = b.load_acc("E"_s, Shape<C, DV>{}, a.errors, head, row0, i * DV);
          auto dV = E;
          dV.map("X"_s, times, b.load_row("beta"_s, Shape<C>{}, a.beta, head, row0));
          b.store("out"_s, a.dv, head, row0, dV, i * DV);
          dV.map("X"_s, negative);
          b.put(s.F, dV);
          b.sync();
          b.mma_abt(dL, s.F, s.U[st]);
          b.mma_abt(dX, s.F, s.S[st]);
          auto terms = read_errors(b, s, a, head, row0, i, st);
          terms.zip("dbeta"_s, times, E);
          dbeta.fold(b.row("dbeta"_s, Shape<C>{}, 1), terms);
          b.sync();
        });
    b.store("part"_s, a.dx, head, row0, dX);
    dL.mask(strictly_lower, 0);
    b.store("dL"_s, a.dl, head, row0, dL);
    b.store_row("dbeta"_s, a.dbeta, head, row0, dbeta.total());
  }

 private:
  /// R.
  template <class Ex>
  TILE_FN static auto read_errors(Ex& b, Smem& s, const Args& a, int head, int row0, int step, int stage) {
    auto V = b.load_acc("V"_s, Shape<C, DV>{}, a.v, head, row0, step * DV);
    auto R = b.ab("R"_s, s.aK, s.S[stage]);
    R.zip("R"_s, taken_from, V);
    auto LU = b.ab("LU"_s, s.L, s.U[stage]);
    R.zip("R"_s, minus, LU);
    if (b.planted("dbeta_of_value"_s, false, true)) R.zip("R"_s, copy, V);
    return R;
  }
};

/// The gradients of a chunk's queries, keys and log decays, of DC channels at a time: what goes through the states,
/// under its decays, and through the scores. Blocks are chunks.
template <ExecutorTypes B, Size C, Size DK, Size DC, bool Errors>
struct ChannelScoreGradients {
  struct Args {
    typename B::In q, k, log_decay, dq_states, dk_states, dx, dp, dl;
    typename B::RowIn ends;
    typename B::Out dq, dk, dq_of_heads, dk_of_heads, dlog_decay;
    int group;  // of more heads than one: they have parts
  };
  struct Smem {
    typename B::template Tile<"Q", C, DC> Q[2];
    typename B::template Tile<"K", C, DC> K[2];
    typename B::template Tile<"Xl", C, DC> queries[2];  // of a level, and of the next
    typename B::template Tile<"Xl", C, DC> keys[2];
    typename B::template Tile<"decay", C, DC> decays[7];  // of every level; where rows meet
    typename B::template Tile<"dPc", C, C> dP;
    TileIf<Errors, typename B::template Tile<"dPc", C, C>> dL;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int row0 = chunk * C;
    b.put(s.dP, b.load_acc("dP"_s, Shape<C, C>{}, a.dp, head, row0));
    if constexpr (Errors) b.put(s.dL, b.load_acc("dL"_s, Shape<C, C>{}, a.dl, head, row0));
    b.pipeline(
        Shape<2>{}, DK / DC,
        [&](int i, int st) {
          b.load(s.Q[st], a.q, head / a.group, row0, i * DC);
          b.load(s.K[st], a.k, head / a.group, row0, i * DC);
        },
        [&](int i, int st) {
          of_channels(b, s, a, {head, row0, i * DC, st});
        });
  }

 private:
  struct Place {
    int head, row0, c0, stage;
  };
  /// The gradients of channels, and of the logs of their decays' products in HalfDecays.
  template <class Acc>
  struct Gradients {
    Acc q, k, up_to, after, all;
  };

  template <class Ex>
  TILE_FN static void of_channels(Ex& b, Smem& s, const Args& a, const Place& at) {
    auto& Q = s.Q[at.stage];
    auto& K = s.K[at.stage];
    const auto q = in_registers(b, "X"_s, Q), k = in_registers(b, "X"_s, K);
    auto decays = half_decays(b.load_acc("alpha"_s, Shape<C, DC>{}, a.log_decay, at.head, at.row0, at.c0));
    int level = 0;
    for (int h = 1; h < C; h *= 2, ++level) {
      b.put(s.decays[level], by_half(decays.up_to, decays.after, h));
      decays.join(b, s.decays[6], h);
    }
    b.sync();
    auto d = through_states(b, a, at, decays, q, k);
    b.mma(Level{0}, d.q, s.dP, K);
    b.mma_atb(Level{0}, d.k, s.dP, Q);
    for (int h = C / 2; h > 0; h /= 2) split(b, s, d, q, k, h, --level);
    if (a.group == 1) {
      b.store("out"_s, a.dq, at.head, at.row0, d.q, at.c0);
      b.store("out"_s, a.dk, at.head, at.row0, d.k, at.c0);
    } else {
      b.store("part"_s, a.dq_of_heads, at.head, at.row0, d.q, at.c0);
      b.store("part"_s, a.dk_of_heads, at.head, at.row0, d.k, at.c0);
    }
    store_decays(b, a, at, d, decays.all);
  }
  /// What goes through the states; with errors, the keys' takes what keys that are read with have.
  template <class Ex, class Decays, class X>
  TILE_FN static auto through_states(Ex& b, const Args& a, const Place& at, const Decays& decays, const X& q,
                                     const X& k) {
    const auto to_query = [&](auto x, auto decay) { return b.planted("dq_not_decayed"_s, x * decay, x); };
    const Shape<C, DC> shape{};
    auto dQ = b.load_acc("part"_s, shape, a.dq_states, at.head, at.row0, at.c0);
    dQ.zip("dQ"_s, to_query, decays.up_to);
    auto dK = b.load_acc("part"_s, shape, a.dk_states, at.head, at.row0, at.c0);
    dK.zip("dK"_s, times, decays.after);
    auto up_to = dQ, after = dK;
    up_to.zip("from"_s, times, q);
    after.zip("from"_s, times, k);
    if constexpr (Errors) {
      auto dX = b.load_acc("part"_s, shape, a.dx, at.head, at.row0, at.c0);
      dX.zip("dX"_s, times, decays.up_to);
      if (b.planted("dk_without_read"_s, true, false)) dK.zip("dK"_s, plus, dX);
      dX.zip("from"_s, times, k);
      up_to.zip("from"_s, plus, dX);
    }
    return Gradients<X>{dQ, dK, up_to, after, b.acc("gates"_s, shape)};
  }
  /// From the products of 2h rows to those of h, with what goes through the scores of that level.
  template <class Ex, class D, class X>
  TILE_FN static void split(Ex& b, Smem& s, D& d, const X& q, const X& k, int h, int level) {
    auto from_others = by_half(d.up_to, d.after, h);
    from_others.zip("gates"_s, plus, d.all);
    from_others = b.across(s.decays[6], from_others, h);
    d.all.zip("gates"_s, plus, from_others);
    const auto decays = in_registers(b, "decay"_s, s.decays[level]);
    const int turn = level % 2;
    put_product(b, s.queries[turn], q, decays);
    put_product(b, s.keys[turn], k, decays);
    b.sync();
    auto dQ = b.acc("adjoint"_s, Shape<C, DC>{}), dK = dQ;
    b.mma(Level{h}, dQ, s.dP, s.keys[turn]);
    b.mma_atb(Level{h}, dK, s.dP, s.queries[turn]);
    if constexpr (Errors) {
      b.mma(Level{h}, dK, s.dL, s.keys[turn]);
      b.mma_atb(Level{h}, dK, s.dL, s.keys[turn]);
    }
    dQ.zip("adjoint"_s, times, decays);
    dK.zip("adjoint"_s, times, decays);
    d.q.zip("part"_s, plus, dQ);
    d.k.zip("part"_s, plus, dK);
    dQ.zip("from"_s, times, q);
    dK.zip("from"_s, times, k);
    dQ.zip("from"_s, plus, dK);
    auto first = dQ;
    dQ.mask(OfHalf<true>{h}, 0), first.mask(OfHalf<false>{h}, 0);
    d.up_to.zip("from"_s, plus, dQ);
    d.after.zip("from"_s, plus, first);
  }
  template <class Ex, class Tile, class X>
  TILE_FN static void put_product(Ex& b, Tile& to, X x, const X& decays) {
    x.zip("X"_s, times, decays);
    b.put(to, x);
  }
  template <class Ex, class D, class X>
  TILE_FN static void store_decays(Ex& b, const Args& a, const Place& at, D& d, const X& total) {
    const auto with_state = [&](auto x, auto decay, auto state) {
      return b.planted("dlog_decay_without_state"_s, x + decay * state, x);
    };
    d.all.zip("gates"_s, plus, d.up_to);
    d.all.map("gates"_s, with_state, total,
              b.load_col("from"_s, Shape<1, DC>{}, a.ends, at.head, at.row0 / C * DK + at.c0));
    b.store("dlog_decay"_s, a.dlog_decay, at.head, at.row0, d.all, at.c0);
  }
};

inline constexpr SiteTable::Init channel_site_list[] = {
    {"Q", Role::operand},        {"K", Role::operand},         {"V", Role::operand},
    {"U", Role::operand},        {"dO", Role::operand},        {"Sc", Role::operand},
    {"Pc", Role::operand},       {"aQc", Role::operand},       {"zKc", Role::operand},
    {"dGc", Role::operand},      {"Xl", Role::operand},        {"dPc", Role::operand},
    {"Yc", Role::operand},       {"scale", Role::gate},        {"decay", Role::gate},
    {"alpha", Role::gate},       {"dlog_decay", Role::gate},   {"X", Role::accumulator},
    {"W", Role::accumulator},    {"S0", Role::accumulator},    {"S", Role::accumulator},
    {"QK", Role::accumulator},   {"KK", Role::accumulator},    {"O", Role::accumulator},
    {"o", Role::accumulator},    {"dP", Role::accumulator},    {"dU", Role::accumulator},
    {"dV", Role::accumulator},   {"dQ", Role::accumulator},    {"dK", Role::accumulator},
    {"from", Role::accumulator}, {"gates", Role::accumulator}, {"adjoint", Role::accumulator},
    {"part", Role::accumulator}, {"end", Role::accumulator},   {"out", Role::output}};
inline constexpr SiteTable channel_sites{channel_site_list};

}  // namespace assay::tile
