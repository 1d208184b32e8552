#pragma once
// The delta rule with a decay per token, chunkwise (delta-family.md 3.3, falcon-family.md 4.6): the tile programs of
// gated DeltaNet and Comba. With alpha_l = exp(log_decay_l), for a chunk of C tokens and the state S before it, all
// decays are running products, so that alpha = 0 is an ordinary gate:
//   D_ij = prod_{j < l <= i} alpha_l,   a_i = prod_{l <= i} alpha_l,   z_j = prod_{l > j} alpha_l,   a_C = prod_l
//   alpha_l D1_ij = prod_{j < l <= i - lag} alpha_l,   a'_i = prod_{l <= i - lag} alpha_l
// where lag is 0 if the error is taken on the decayed state and 1 if on the undecayed one. The error reads the state
// with X, which is K itself or, if the rule `Predicts`, a key of its own. Then
//   L = strict_lower(X K^T) o D1,  T = (I + diag(beta) L)^{-1} by forward substitution,  P = lower(Q K^T) o D
//   U = T diag(beta) (V - a' o X S),   O = scale (a o Q S + P U),   S <- a_C S + K^T (z o U)
// Backward, last chunk first, G the cotangent of the state after the chunk:
//   dU = scale P^T dO + z o K G,   E = T^T dU,   R = V - a' o X S - L U,   dV = diag(beta) E,   dbeta = rowsum(E o R)
//   F = -dV,   dP = scale lower(dO U^T),   dL = strict_lower(F U^T),   M = dP o D,   N = dL o D1
//   dQ = scale a o dO S^T + M K,   dK = z o U G^T + M^T Q + N^T X,   dX = a' o F S^T + N K
//   G <- a_C G + Q^T (scale a o dO) + X^T (a' o F)
// and each term is a term of the gradient of the log of every gate in its product:
//   dlog_decay_r = sum_{j < r <= i} (dP o P)_ij + sum_{j < r <= i - lag} (dL o L)_ij + sum_{i >= r} (scale a o dO
//   S^T)_i . q_i
//                + sum_{i - lag >= r} F_i . (a' o X S)_i + sum_{j < r} U_j . (z o K G)_j + a_C <S, G>
// Only the states and their cotangents G walk along the sequence. Before each of the two passes, programs that run on
// all chunks at once make what does not depend on the state: the inverses of the systems and the products of decays;
// what the outputs give the cotangents, dU0 = scale P^T dO and dG = Q^T (scale a o dO). After each, others read what
// the pass kept of every chunk: outputs, and gradients of its tokens. Launch code sums those of shared heads.
// Blocks of the passes are DV columns of the values of a head; the others' are pairs of a chunk and DV columns, in this
// order. States lie in memory as DK rows for each chunk, as wide as they are summed.
#include "kernels/core/functions.hpp"
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// T of every chunk, as C rows each, and its products of decays: a, a' and z of every token, and a_C DK times for every
/// chunk. Blocks are chunks.
template <ExecutorTypes B, Size C, Size DK, bool Predicts>
struct GatedDeltaSystem {
  struct Args {
    typename B::In k, p;  // p: keys of the prediction, if there are any
    typename B::RowIn beta, log_decay;
    typename B::Out inverse;
    typename B::RowOut to_row, to_error, to_end, totals;
    int len, lag, group, shared_heads;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> K;
    TileIf<Predicts, typename B::template Tile<"Kp", C, DK>> X;
    typename B::template Tile<"D1", C, C> D1;
    typename B::template Tile<"A", C, C> A;
    typename B::template Tile<"Tc", C, C> T;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int shared = b.planted("head_modulo"_s, head / a.group, head % a.shared_heads);
    const auto times_beta = [&](auto x, auto row, auto column) {
      return x * b.planted("beta_of_column"_s, row, column);
    };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.K, a.k, shared, chunk * C);
          if constexpr (Predicts) b.load(s.X, a.p, shared, chunk * C);
        },
        [&](int, int) {
          const int n = imin(C, a.len - chunk * C), lag = b.planted("decay_index_of_read"_s, a.lag, 1 - a.lag);
          b.store_row("decay"_s, a.to_row, head, chunk * C,
                      b.decay_prefix("decay"_s, Shape<C>{}, a.log_decay, head, chunk * C));
          b.store_row("decay"_s, a.to_error, head, chunk * C,
                      b.decay_prefix("decay"_s, Shape<C>{}, a.log_decay, head, chunk * C, lag));
          b.store_row("decay"_s, a.to_end, head, chunk * C,
                      b.decay_suffix("decay"_s, Shape<C>{}, a.log_decay, head, chunk * C));
          b.store_row("decay"_s, a.totals, head, chunk * DK,
                      b.decay_total("decay"_s, Shape<DK>{}, a.log_decay, head, chunk * C,
                                    b.planted("tail_decay"_s, C, n < C ? n - 1 : n)));
          b.decay_ratios("decay"_s, s.D1, a.log_decay, head, chunk * C, a.lag);
          b.sync();
          auto A = b.abt("KK"_s, chosen<Predicts>(s.X, s.K), s.K);
          A.zip("L"_s, times, s.D1);
          const auto of_column = b.load_col("beta"_s, Shape<1, C>{}, a.beta, head, chunk * C);
          A.map("A"_s, times_beta, b.load_row("beta"_s, Shape<C>{}, a.beta, head, chunk * C), of_column);
          A.mask(strictly_lower, 0);
          b.put(s.A, A);
          b.sync();
          b.unit_lower_inverse("T"_s, s.T, s.A);
          b.sync();
          A.zip("T"_s, copy, s.T);
          b.store("Tc"_s, a.inverse, head, chunk * C, A);
        });
  }
};

/// The state before every chunk, and its U.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST, bool Predicts>
struct GatedDeltaStates {
  struct Args {
    typename B::In k, v, p, inverse;  // p: keys of the prediction, if there are any
    typename B::RowIn beta, to_error, to_end, totals;
    typename B::In initial_state;
    typename B::Out u, states, final_state;
    int len, group, shared_heads;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> K[ST];
    TileIf<Predicts, typename B::template Tile<"Kp", C, DK>> X[ST];
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"Tc", C, C> T[ST];
    typename B::template Tile<"S0", DK, DV> S0;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Wc", C, DV> W;
    typename B::template Tile<"zUc", C, DV> zU;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = b.planted("head_modulo"_s, head / a.group, head % a.shared_heads), v0 = block * DV;
    const auto start = [&](auto zero, auto s0) { return b.planted("initial_state_ignored"_s, s0, zero); };
    auto S = b.acc("S"_s, Shape<DK, DV>{});
    b.load(s.S0, a.initial_state, head, 0, v0);
    b.pipeline(
        Shape<ST>{}, imax(1, ceil_div(a.len, C)),
        [&](int j, int st) {
          b.load(s.K[st], a.k, shared, j * C);
          if constexpr (Predicts) b.load(s.X[st], a.p, shared, j * C);
          b.load(s.V[st], a.v, head, j * C, v0);
          b.load(s.T[st], a.inverse, head, j * C);
        },
        [&](int j, int st) {
          auto& K = s.K[st];
          auto& X = chosen<Predicts>(s.X[st], K);
          auto beta = b.load_row("beta"_s, Shape<C>{}, a.beta, head, j * C);
          auto to_error = b.load_row("decay"_s, Shape<C>{}, a.to_error, head, j * C);
          auto to_end = b.load_row("decay"_s, Shape<C>{}, a.to_end, head, j * C);
          auto total = b.load_row("decay"_s, Shape<DK>{}, a.totals, head, j * DK);
          if (j == 0 || b.planted("state_not_carried"_s, false, true)) S.zip("S"_s, start, s.S0);
          b.put(s.S, S);
          b.store("H"_s, a.states, head, j * DK, S, v0);
          b.sync();
          auto W = b.ab("W"_s, X, s.S);
          W.map("W"_s, times, to_error);
          W.zip("W"_s, taken_from, s.V[st]);
          W.map("W"_s, times, beta);
          b.put(s.W, W);
          b.sync();
          auto U = b.ab("U"_s, s.T[st], s.W);
          b.store("Uc"_s, a.u, head, j * C, U, v0);
          U.map("U"_s, times, to_end);
          b.put(s.zU, U);
          b.sync();
          S.map("S"_s, times, total);
          b.mma_atb(S, K, s.zU);
        });
    b.store("final"_s, a.final_state, head, 0, S, v0);
  }
};

/// The outputs that the queries read.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct GatedDeltaOutputs {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, u, states;
    typename B::RowIn log_decay, to_row;
    typename B::Out o;
    Real scale;
    int group, shared_heads, blocks;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"Uc", C, DV> U;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"D", C, C> D;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = b.planted("head_modulo"_s, head / a.group, head % a.shared_heads);
    const int chunk = block / a.blocks, v0 = block % a.blocks * DV;
    const auto scaled = [&](auto x) { return x * b.planted("scale_twice"_s, a.scale, a.scale + a.scale); };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.q, shared, chunk * C);
          b.load(s.K, a.k, shared, chunk * C);
          b.load(s.U, a.u, head, chunk * C, v0);
        },
        [&](int, int) {
          b.put(s.S, b.load_acc("H"_s, Shape<DK, DV>{}, a.states, head, chunk * DK, v0));
          b.decay_ratios("decay"_s, s.D, a.log_decay, head, chunk * C, b.planted("decay_index_of_scores"_s, 0, 1));
          b.sync();
          auto P = b.abt("QK"_s, s.Q, s.K);
          P.zip("PD"_s, times, s.D);
          P.mask([&](int r, int c) { return r >= c + b.planted("scores_exclude_self"_s, 0, 1); }, 0);
          auto O = b.ab("O"_s, s.Q, s.S);
          O.map("O"_s, times, b.load_row("decay"_s, Shape<C>{}, a.to_row, head, chunk * C));
          b.mma(O, b.cast("P"_s, P), s.U);
          O.map("o"_s, scaled);
          b.store("out"_s, a.o, head, chunk * C, O, v0);
        });
  }
};

/// Their adjoint: dU0 and dG of every chunk.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct GatedDeltaReads {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, o_cotangent;
    typename B::RowIn log_decay, to_row;
    typename B::Out du, updates;
    Real scale;
    int group, blocks;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"dO", C, DV> dO;
    typename B::template Tile<"D", C, C> D;
    typename B::template Tile<"P", C, C> P;
    typename B::template Tile<"adOc", C, DV> adO;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = head / a.group, chunk = block / a.blocks, v0 = block % a.blocks * DV;
    const auto scaled = [&](auto x) { return x * a.scale; };
    const auto scaled_times = [&](auto, auto x, auto decay) { return x * a.scale * decay; };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.q, shared, chunk * C);
          b.load(s.K, a.k, shared, chunk * C);
          b.load(s.dO, a.o_cotangent, head, chunk * C, v0);
        },
        [&](int, int) {
          b.decay_ratios("decay"_s, s.D, a.log_decay, head, chunk * C);
          auto adO = b.acc("adO"_s, Shape<C, DV>{});
          adO.zip("adO"_s, scaled_times, s.dO, b.load_row("decay"_s, Shape<C>{}, a.to_row, head, chunk * C));
          b.put(s.adO, adO);
          b.sync();
          auto P = b.abt("QK"_s, s.Q, s.K);
          P.zip("PD"_s, times, s.D);
          P.mask(lower, 0);
          b.put(s.P, P);
          b.store("G"_s, a.updates, head, chunk * DK, b.atb("G"_s, s.Q, s.adO), v0);
          b.sync();
          auto dU = b.atb("dU"_s, s.P, s.dO);
          dU.map("dU"_s, scaled);
          b.store("dU"_s, a.du, head, chunk * C, dU, v0);
        });
  }
};

/// G after every chunk, last chunk first, and its E.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST, bool Predicts>
struct GatedDeltaAdjoints {
  struct Args {
    typename B::In k, p, inverse, du, updates, final_cotangent;
    typename B::RowIn beta, to_error, to_end, totals;
    typename B::Out errors, adjoints, initial_gradient;
    int len, group;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> K[ST];
    TileIf<Predicts, typename B::template Tile<"Kp", C, DK>> X[ST];
    typename B::template Tile<"Tc", C, C> T[ST];
    typename B::template Tile<"dU", C, DV> dU0[ST];
    typename B::template Tile<"G", DK, DV> dG[ST];
    typename B::template Tile<"dfinal", DK, DV> dfinal;
    typename B::template Tile<"Gc", DK, DV> G;
    typename B::template Tile<"dUc", C, DV> dU;
    typename B::template Tile<"aFc", C, DV> aF;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = head / a.group, v0 = block * DV, chunks = imax(1, ceil_div(a.len, C));
    const auto start = [&](auto zero, auto g) { return b.planted("final_cotangent_dropped"_s, g, zero); };
    const auto carried = [&](auto g, auto decay) { return b.planted("adjoint_not_decayed"_s, g * decay, g); };
    auto G = b.acc("G"_s, Shape<DK, DV>{});
    b.load(s.dfinal, a.final_cotangent, head, 0, v0);
    b.pipeline(
        Shape<ST>{}, chunks,
        [&](int i, int st) {
          const int j = chunks - 1 - i;
          b.load(s.K[st], a.k, shared, j * C);
          if constexpr (Predicts) b.load(s.X[st], a.p, shared, j * C);
          b.load(s.T[st], a.inverse, head, j * C);
          b.load(s.dU0[st], a.du, head, j * C, v0);
          b.load(s.dG[st], a.updates, head, j * DK, v0);
        },
        [&](int i, int st) {
          const int j = chunks - 1 - i;
          auto& K = s.K[st];
          auto& X = chosen<Predicts>(s.X[st], K);
          auto beta = b.load_row("beta"_s, Shape<C>{}, a.beta, head, j * C);
          auto to_error = b.load_row("decay"_s, Shape<C>{}, a.to_error, head, j * C);
          auto to_end = b.load_row("decay"_s, Shape<C>{}, a.to_end, head, j * C);
          auto total = b.load_row("decay"_s, Shape<DK>{}, a.totals, head, j * DK);
          if (i == 0) G.zip("G"_s, start, s.dfinal);
          b.put(s.G, G);
          b.store("G"_s, a.adjoints, head, j * DK, G, v0);
          b.sync();
          auto dU = b.ab("KG"_s, K, s.G);
          dU.map("KG"_s, times, to_end);
          dU.zip("dU"_s, plus, s.dU0[st]);
          b.put(s.dU, dU);
          b.sync();
          auto E = b.atb("E"_s, s.T[st], s.dU);
          b.store("E"_s, a.errors, head, j * C, E, v0);
          E.map("dV"_s, times, beta);
          E.map("F"_s, negative);
          E.map("aF"_s, times, to_error);
          b.put(s.aF, E);
          b.sync();
          G.map("G"_s, carried, total);
          G.zip("G"_s, plus, s.dG[st]);
          b.mma_atb(G, X, s.aF);
        });
    b.store("initial"_s, a.initial_gradient, head, 0, G, v0);
  }
};

/// Gradients of a chunk's tokens; dq, dk, dbeta and dlog_decay are this block's part, the value columns v0.. of its
/// head.
template <ExecutorTypes B, Size C, Size DK, Size DV, bool Predicts>
struct GatedDeltaGradients {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, v, p, u;  // p: keys of the prediction, if there are any
    typename B::RowIn beta, log_decay, to_row, to_error, to_end, totals;
    typename B::In states, adjoints, errors, o_cotangent;
    typename B::Out dq, dk, dv, dp;
    typename B::RowOut dbeta, dlog_decay;
    Real scale;
    int lag, group, blocks, key_parts;  // key_parts: of dk for each head, those of the blocks first
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> K;
    [[no_unique_address]] TileIf<Predicts, typename B::template Tile<"Kp", C, DK>> X;
    typename B::template Tile<"dO", C, DV> dO;
    typename B::template Tile<"Uc", C, DV> U;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Gc", DK, DV> G;
    typename B::template Tile<"Fc", C, DV> F;
    // D1, dL o L, D, dP o P
    typename B::template InTurn<typename B::template Tile<"D1", C, C>, typename B::template Tile<"dPP", C, C>,
                                typename B::template Tile<"D", C, C>>
        of_pairs;
    typename B::template Tile<"Mc", C, C> M;  // N, then M
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunk = block / a.blocks, shared = head / a.group;
    const Place at{head, head * a.blocks + block % a.blocks, block % a.blocks * DV, chunk * C};
    const auto sum = [&](auto state, auto scores, auto errors, auto row, auto read, auto end) {
      return b.planted("dlog_decay_without_state"_s, state, state * 0) +
             b.planted("dlog_decay_without_errors"_s, errors, errors * 0) + scores + row + read + end;
    };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.q, shared, at.row0);
          b.load(s.K, a.k, shared, at.row0);
          if constexpr (Predicts) b.load(s.X, a.p, shared, at.row0);
          b.load(s.dO, a.o_cotangent, head, at.row0, at.v0);
          b.load(s.U, a.u, head, at.row0, at.v0);
        },
        [&](int, int) {
          auto S = b.load_acc("H"_s, Shape<DK, DV>{}, a.states, head, chunk * DK, at.v0);
          auto G = b.load_acc("G"_s, Shape<DK, DV>{}, a.adjoints, head, chunk * DK, at.v0);
          auto to_error = b.load_row("decay"_s, Shape<C>{}, a.to_error, head, at.row0);
          auto to_end = b.load_row("decay"_s, Shape<C>{}, a.to_end, head, at.row0);
          b.decay_ratios("decay"_s, s.of_pairs.first, a.log_decay, head, at.row0, a.lag);
          b.put(s.S, S);
          b.put(s.G, G);
          auto total = b.load_row("decay"_s, Shape<DK>{}, a.totals, head, chunk * DK);
          auto from_state = b.rows("from"_s, times, b.dot("from"_s, S, G), total);
          b.sync();
          auto L = b.acc("KK"_s, Shape<C, C>{});
          auto [from_end, from_read] = through_errors(b, s, a, at, L, to_error, to_end);
          auto dK = b.acc("dK"_s, Shape<C, DK>{});
          auto in_errors = through_system(b, s, a, at, L, dK, to_error, to_end);
          auto [in_scores, from_row] = through_scores(b, s, a, at, dK, head * a.key_parts + block % a.blocks);
          auto in_state = b.gates_of_total("gates"_s, Shape<C>{}, from_state);
          auto in_row = b.gates_of_prefix("gates"_s, from_row, b.planted("dlog_decay_index"_s, 0, 1));
          auto in_read = b.gates_of_prefix("gates"_s, from_read, a.lag);
          auto in_end = b.gates_of_suffix("gates"_s, from_end);
          b.store_row("dlog_decay"_s, a.dlog_decay, at.part, at.row0,
                      b.rows("gates"_s, sum, in_state, in_scores, in_errors, in_row, in_read, in_end));
        });
  }

 private:
  struct Place {
    int head, part, v0, row0;
  };
  TILE_FN static auto& error_keys(Smem& s) { return chosen<Predicts>(s.X, s.K); }

  /// The errors of the forward pass, and their cotangents: dV, dbeta and L; the terms of the decays to the end and of
  /// those to the errors.
  template <class Ex, class Scores, class Row>
  TILE_FN static auto through_errors(Ex& b, Smem& s, const Args& a, const Place& at, Scores& L, const Row& to_error,
                                     const Row& to_end) {
    auto& X = error_keys(s);
    auto KG = b.ab("KG"_s, s.K, s.G);
    KG.map("KG"_s, times, to_end);
    auto U = in_registers(b, "from"_s, s.U);
    auto from_end = b.dot("from"_s, U, KG);
    auto XS = b.ab("W"_s, X, s.S);
    XS.map("W"_s, times, to_error);
    auto F = b.load_acc("E"_s, Shape<C, DV>{}, a.errors, at.head, at.row0, at.v0);
    F.map("dV"_s, times, b.load_row("beta"_s, Shape<C>{}, a.beta, at.head, at.row0));
    b.store("out"_s, a.dv, at.head, at.row0, F, at.v0);
    F.map("F"_s, negative);
    b.put(s.F, F);
    auto from_read = b.dot("from"_s, F, XS);
    auto R = b.load_acc("V"_s, Shape<C, DV>{}, a.v, at.head, at.row0, at.v0);
    R.zip("W"_s, minus, XS);
    L = b.abt("KK"_s, X, s.K);
    L.zip("L"_s, times, s.of_pairs.first);
    L.mask(strictly_lower, 0);
    auto LU = b.acc("LU"_s, Shape<C, DV>{});
    b.mma(LU, b.cast("Lc"_s, L), s.U);
    R.zip("R"_s, minus, LU);
    if (b.planted("dbeta_of_value"_s, false, true)) R = b.load_acc("V"_s, Shape<C, DV>{}, a.v, at.head, at.row0, at.v0);
    auto E = b.load_acc("E"_s, Shape<C, DV>{}, a.errors, at.head, at.row0, at.v0);
    b.store_row("dbeta"_s, a.dbeta, at.part, at.row0, b.dot("dbeta"_s, E, R));
    b.sync();
    return Two<decltype(from_end), decltype(from_read)>{from_end, from_read};
  }
  /// The system's part of dK, or of dp where there are keys of a prediction, and the gates of the ratios in L.
  template <class Ex, class Scores, class Keys, class Row>
  TILE_FN static auto through_system(Ex& b, Smem& s, const Args& a, const Place& at, Scores& L, Keys& dK,
                                     const Row& to_error, const Row& to_end) {
    auto dL = b.abt("dL"_s, s.F, s.U);
    dL.mask(strictly_lower, 0);
    L.zip("dLL"_s, times, dL);
    dL.zip("N"_s, times, s.of_pairs.first);
    b.put(s.of_pairs.second, L);
    b.put(s.M, dL);
    b.sync();
    auto in_errors = b.gates_of_ratios("gates"_s, s.of_pairs.second, a.lag);
    auto dX = b.abt("dX"_s, s.F, s.S);
    dX.map("dX"_s, times, to_error);
    if (b.planted("dk_without_read"_s, false, true)) dX.map("dX"_s, [](auto x) { return x * 0; });
    b.mma(dX, s.M, s.K);
    dK = b.abt("dK"_s, s.U, s.G);
    dK.map("dK"_s, times, to_end);
    b.mma_atb(dK, s.M, error_keys(s));
    if constexpr (Predicts)
      b.store("part"_s, a.dp, at.part, at.row0, dX);
    else
      dK.zip("dK"_s, plus, dX);
    return in_errors;
  }
  /// dQ and the rest of dK, the gates of the ratios in P, and the terms of the decays to a row.
  template <class Ex, class Keys>
  TILE_FN static auto through_scores(Ex& b, Smem& s, const Args& a, const Place& at, Keys& dK, int key_part) {
    const auto scaled = [&](auto x) { return x * a.scale; };
    const auto dq_scaled = [&](auto x, auto decay) {
      return x * b.planted("dq_scale_twice"_s, a.scale, a.scale + a.scale) * decay;
    };
    b.decay_ratios("decay"_s, s.of_pairs.third, a.log_decay, at.head, at.row0);
    auto dP = b.abt("dP"_s, s.dO, s.U);
    dP.map("dP"_s, scaled);
    dP.mask(lower, 0);
    auto P = b.abt("QK"_s, s.Q, s.K);
    b.sync();
    P.zip("PD"_s, times, s.of_pairs.third);
    P.mask(lower, 0);
    P.zip("dPP"_s, times, dP);
    dP.zip("M"_s, times, s.of_pairs.third);
    b.put(s.of_pairs.second, P);
    b.put(s.M, dP);
    b.sync();
    auto in_scores = b.gates_of_ratios("gates"_s, s.of_pairs.second);
    b.mma_atb(dK, s.M, s.Q);
    b.store("part"_s, a.dk, key_part, at.row0, dK);
    auto dQ = b.abt("dQ"_s, s.dO, s.S);
    dQ.map("dQ"_s, dq_scaled, b.load_row("decay"_s, Shape<C>{}, a.to_row, at.head, at.row0));
    auto q = in_registers(b, "from"_s, s.Q);
    auto from_row = b.dot("from"_s, q, dQ);
    b.mma(dQ, s.M, s.K);
    b.store("part"_s, a.dq, at.part, at.row0, dQ);
    return Two<decltype(in_scores), decltype(from_row)>{in_scores, from_row};
  }
};

inline constexpr SiteTable::Init gated_delta_site_list[] = {{"Q", Role::operand},
                                                            {"K", Role::operand},
                                                            {"V", Role::operand},
                                                            {"dO", Role::operand},
                                                            {"Sc", Role::operand},
                                                            {"Tc", Role::operand},
                                                            {"P", Role::operand},
                                                            {"Wc", Role::operand},
                                                            {"Uc", Role::operand},
                                                            {"zUc", Role::operand},
                                                            {"Gc", Role::operand},
                                                            {"dUc", Role::operand},
                                                            {"Lc", Role::operand},
                                                            {"adOc", Role::operand},
                                                            {"Fc", Role::operand},
                                                            {"aFc", Role::operand},
                                                            {"Mc", Role::operand},
                                                            {"beta", Role::gate},
                                                            {"decay", Role::gate},
                                                            {"D", Role::gate},
                                                            {"D1", Role::gate},
                                                            {"dbeta", Role::gate},
                                                            {"dlog_decay", Role::gate},
                                                            {"scale", Role::gate},
                                                            {"from", Role::accumulator},
                                                            {"gates", Role::accumulator},
                                                            {"dPP", Role::accumulator},
                                                            {"dLL", Role::accumulator},
                                                            {"S0", Role::accumulator},
                                                            {"H", Role::accumulator},
                                                            {"dfinal", Role::accumulator},
                                                            {"KK", Role::accumulator},
                                                            {"L", Role::accumulator},
                                                            {"A", Role::accumulator},
                                                            {"T", Role::accumulator},
                                                            {"QK", Role::accumulator},
                                                            {"PD", Role::accumulator},
                                                            {"W", Role::accumulator},
                                                            {"U", Role::accumulator},
                                                            {"O", Role::accumulator},
                                                            {"o", Role::accumulator},
                                                            {"S", Role::accumulator},
                                                            {"G", Role::accumulator},
                                                            {"KG", Role::accumulator},
                                                            {"dU", Role::accumulator},
                                                            {"E", Role::accumulator},
                                                            {"LU", Role::accumulator},
                                                            {"R", Role::accumulator},
                                                            {"dV", Role::accumulator},
                                                            {"F", Role::accumulator},
                                                            {"aF", Role::accumulator},
                                                            {"dP", Role::accumulator},
                                                            {"dL", Role::accumulator},
                                                            {"M", Role::accumulator},
                                                            {"N", Role::accumulator},
                                                            {"dQ", Role::accumulator},
                                                            {"dK", Role::accumulator},
                                                            {"dX", Role::accumulator},
                                                            {"adO", Role::accumulator},
                                                            {"part", Role::accumulator},
                                                            {"final", Role::accumulator},
                                                            {"initial", Role::accumulator},
                                                            {"out", Role::output}};
inline constexpr SiteTable gated_delta_sites{gated_delta_site_list};

}  // namespace assay::tile
