#pragma once
// The delta rule, with a decay per token or without, chunkwise (delta-family.md 3.3, falcon-family.md 4.6): the tile
// programs of DeltaNet, gated DeltaNet and Comba. With alpha_l = exp(log_decay_l), for a chunk of C tokens and the
// state S before it, all decays are running products, so that alpha = 0 is an ordinary gate:
//   D_ij = prod_{j < l <= i} alpha_l,   a_i = prod_{l <= i} alpha_l,   z_j = prod_{l > j} alpha_l,   a_C = prod_l
//   alpha_l D1_ij = prod_{j < l <= i - lag} alpha_l,   a'_i = prod_{l <= i - lag} alpha_l
// where lag is 0 if the error is taken on the decayed state and 1 if on the undecayed one. The error reads the state
// with X, which is K itself or, where the rule predicts, a key of its own. Then
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
// A rule without decays has ones for all of them and takes no product with them. Published kernels of it make the
// inverse, with A = diag(beta) L, by squaring operands again and again,
//   T = (I - A)(I + A^2)(I + A^4) ... (I + A^(C/2))
// which is products only, but powers of A are as large as binomials of C (`Doubling`).
// Only the states and their cotangents G walk along the sequence. Before each of the two passes, programs that run on
// all chunks at once make what does not depend on the state: the inverses of the systems and the products of decays;
// what the outputs give the cotangents, dU0 = scale P^T dO and dG = Q^T (scale a o dO). After each, others read what
// the pass kept of every chunk: outputs, and gradients of its tokens. Launch code sums those of shared heads.
// Blocks of the passes are DV columns of the values of a head; those of outputs are pairs of a chunk and DV columns, in
// this order. States and cotangents lie in memory as DK rows for each chunk, as operands.
#include "kernels/core/functions.hpp"
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// A rule without decays, with them, and with a key of its own that the error is read with, too.
enum class DeltaRule { plain, decays, predicts };
TILE_HD constexpr bool has_decays(DeltaRule rule) { return rule != DeltaRule::plain; }
TILE_HD constexpr bool predicts(DeltaRule rule) { return rule == DeltaRule::predicts; }

/// The products of a chunk's decays that lie in memory from that row on. Nothing where there are none.
template <DeltaRule Rule, class Ex, Size R, class In>
TILE_FN auto decays_from(Ex& b, Shape<R> shape, const In& in, int head, int row) {
  if constexpr (has_decays(Rule))
    return b.load_row("decay"_s, shape, in, head, row);
  else
    return Nothing{};
}
template <class St, class Acc, class Row>
TILE_FN void decay(St site, Acc& x, const Row& row) {
  if constexpr (!std::is_same_v<Row, Nothing>) x.map(site, times, row);
}

/// T of every chunk, as C rows each, and its products of decays: a, a' and z of every token, and a_C DK times for every
/// chunk. Blocks are chunks.
template <ExecutorTypes B, Size C, Size DK, DeltaRule Rule, bool Doubling = false>
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
    TileIf<predicts(Rule), typename B::template Tile<"Kp", C, DK>> X;
    TileIf<has_decays(Rule), typename B::template Tile<"D1", C, C>> D1;
    TileIf<!Doubling, typename B::template Tile<"A", C, C>> A;
    TileIf<Doubling, typename B::template Tile<"powerc", C, C>> power;
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
          if constexpr (predicts(Rule)) b.load(s.X, a.p, shared, chunk * C);
          if constexpr (has_decays(Rule)) put_decays(b, s, a, head, chunk);
        },
        [&](int, int) {
          auto A = b.abt("KK"_s, chosen<predicts(Rule)>(s.X, s.K), s.K);
          if constexpr (has_decays(Rule)) A.zip("L"_s, times, s.D1);
          const auto of_column = b.load_col("beta"_s, Shape<1, C>{}, a.beta, head, chunk * C);
          A.map("A"_s, times_beta, b.load_row("beta"_s, Shape<C>{}, a.beta, head, chunk * C), of_column);
          A.mask(strictly_lower, 0);
          if constexpr (Doubling) {
            invert_by_doubling(b, s, A);
          } else {
            b.put(s.A, A);
            b.sync();
            b.unit_lower_inverse("T"_s, s.T, s.A);
          }
          b.sync();
          A.zip("T"_s, copy, s.T);
          b.store("Tc"_s, a.inverse, head, chunk * C, A);
        });
  }

 private:
  template <class Ex>
  TILE_FN static void put_decays(Ex& b, Smem& s, const Args& a, int head, int chunk) {
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
  }
  template <class Ex, class Acc>
  TILE_FN static void invert_by_doubling(Ex& b, Smem& s, const Acc& A) {
    const auto negative_of = [&](auto, auto x) { return b.planted("sum_of_powers"_s, -x, x); };
    auto N = A, T = b.acc("T"_s, Shape<C, C>{});
    T.zip("T"_s, negative_of, N);
    b.put(s.power, T);
    T.mask([](int r, int c) { return r != c; }, 1);
    b.put(s.T, T);
    for (int n = 2; n < b.planted("last_power_dropped"_s, C, C / 2); n *= 2) {
      b.sync();
      auto square = b.ab("power"_s, s.power, s.power);
      b.sync();
      b.put(s.power, square);
      b.sync();
      b.mma(T, s.T, s.power);
      b.sync();
      b.put(s.T, T);
    }
  }
};

/// The state before every chunk, and its U.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST, DeltaRule Rule>
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
    TileIf<predicts(Rule), typename B::template Tile<"Kp", C, DK>> X[ST];
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"Tc", C, C> T[ST];
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Wc", C, DV> W;
    std::conditional_t<has_decays(Rule), typename B::template Tile<"zUc", C, DV>,
                       typename B::template Tile<"Uc", C, DV>>
        zU;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = b.planted("head_modulo"_s, head / a.group, head % a.shared_heads), v0 = block * DV;
    const int chunks = b.planted("tail_dropped"_s, ceil_div(a.len, C), a.len / C);
    const auto start = [&](auto zero, auto s0) { return b.planted("initial_state_ignored"_s, s0, zero); };
    auto S = b.acc("S"_s, Shape<DK, DV>{});
    b.pipeline(
        Shape<ST>{}, imax(1, chunks),
        [&](int j, int st) {
          b.load(s.K[st], a.k, shared, j * C);
          if constexpr (predicts(Rule)) b.load(s.X[st], a.p, shared, j * C);
          b.load(s.V[st], a.v, head, j * C, v0);
          b.load(s.T[st], a.inverse, head, j * C);
        },
        [&](int j, int st) {
          auto& K = s.K[st];
          auto& X = chosen<predicts(Rule)>(s.X[st], K);
          auto beta = b.load_row("beta"_s, Shape<C>{}, a.beta, head, j * C);
          auto to_error = decays_from<Rule>(b, Shape<C>{}, a.to_error, head, j * C);
          auto to_end = decays_from<Rule>(b, Shape<C>{}, a.to_end, head, j * C);
          auto total = decays_from<Rule>(b, Shape<DK>{}, a.totals, head, j * DK);
          if (j == 0 || b.planted("state_not_carried"_s, false, true)) {
            auto S0 = b.load_acc("S0"_s, Shape<DK, DV>{}, a.initial_state, head, 0, v0);
            S.zip("S"_s, start, S0);
          }
          b.put(s.S, S);
          b.store("Sc"_s, a.states, head, j * DK, S, v0);
          b.sync();
          auto W = b.ab("W"_s, X, s.S);
          decay("W"_s, W, to_error);
          W.zip("W"_s, taken_from, s.V[st]);
          W.map("W"_s, times, beta);
          b.put(s.W, W);
          b.sync();
          auto U = b.ab("U"_s, s.T[st], s.W);
          if constexpr (!has_decays(Rule)) U.map("Uc"_s, same);  // rounded once for those who read it here and there
          b.store("Uc"_s, a.u, head, j * C, U, v0);
          decay("U"_s, U, to_end);
          b.put(s.zU, U);
          b.sync();
          decay("S"_s, S, total);
          b.mma_atb(S, K, s.zU);
        });
    b.store("final"_s, a.final_state, head, 0, S, v0);
  }
};

/// The outputs that the queries read.
template <ExecutorTypes B, Size C, Size DK, Size DV, DeltaRule Rule>
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
    typename B::template InTurn<TileIf<has_decays(Rule), typename B::template Tile<"D", C, C>>,
                                typename B::template Tile<"P", C, C>>
        of_pairs;
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
          b.load(s.S, a.states, head, chunk * DK, v0);
          if constexpr (has_decays(Rule))
            b.decay_ratios("decay"_s, s.of_pairs.first, a.log_decay, head, chunk * C,
                           b.planted("decay_index_of_scores"_s, 0, 1));
        },
        [&](int, int) {
          auto P = b.abt("QK"_s, s.Q, s.K);
          if constexpr (has_decays(Rule)) P.zip("PD"_s, times, s.of_pairs.first);
          P.mask([&](int r, int c) { return r >= c + b.planted("scores_exclude_self"_s, 0, 1); }, 0);
          b.sync();
          b.put(s.of_pairs.second, P);
          b.sync();
          auto O = b.ab("O"_s, s.Q, s.S);
          decay("O"_s, O, decays_from<Rule>(b, Shape<C>{}, a.to_row, head, chunk * C));
          b.mma(O, s.of_pairs.second, s.U);
          O.map("o"_s, scaled);
          b.store("out"_s, a.o, head, chunk * C, O, v0);
        });
  }
};

/// Their adjoint, a head's values in steps of DV columns: dU0, dG, dQ, M's part of dK, and the gates of the decays in P
/// and to a row. Blocks are chunks.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST, DeltaRule Rule>
struct GatedDeltaReads {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, u, states, o_cotangent;
    typename B::RowIn log_decay, to_row;
    typename B::Out dq, dq_parts, dk, du, updates;
    typename B::RowOut dlog_decay;
    Real scale;
    int group, steps;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"dO", C, DV> dO[ST];
    typename B::template Tile<"Uc", C, DV> U[ST];
    typename B::template Tile<"Sc", DK, DV> S[ST];
    TileIf<has_decays(Rule), typename B::template Tile<"adOc", C, DV>> adO;
    TileIf<has_decays(Rule),
           typename B::template InTurn<typename B::template Tile<"D", C, C>, typename B::template Tile<"dPP", C, C>>>
        of_pairs;
    typename B::template InTurn<typename B::template Tile<"P", C, C>, typename B::template Tile<"Mc", C, C>> scores;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int shared = head / a.group, row0 = chunk * C;
    const auto scaled = [&](auto x) { return x * a.scale; };
    auto P = b.acc("QK"_s, Shape<C, C>{}), dP = b.acc("dP"_s, Shape<C, C>{});
    auto dQ = b.acc("dQ"_s, Shape<C, DK>{});
    const auto to_row = decays_from<Rule>(b, Shape<C>{}, a.to_row, head, row0);
    b.pipeline(
        Shape<ST>{}, a.steps,
        [&](int j, int st) {
          if (j == 0) b.load(s.Q, a.q, shared, row0), b.load(s.K, a.k, shared, row0);
          b.load(s.dO[st], a.o_cotangent, head, row0, j * DV);
          b.load(s.U[st], a.u, head, row0, j * DV);
          b.load(s.S[st], a.states, head, chunk * DK, j * DV);
        },
        [&](int j, int st) {
          if (j == 0) put_scores(b, s, a, head, row0, P);
          if constexpr (has_decays(Rule)) {
            const auto scaled_times = [&](auto, auto x, auto decay) { return x * a.scale * decay; };
            auto adO = b.acc("adO"_s, Shape<C, DV>{});
            adO.zip("adO"_s, scaled_times, s.dO[st], to_row);
            b.put(s.adO, adO);
          }
          b.sync();
          auto dG = b.atb("G"_s, s.Q, chosen<has_decays(Rule)>(s.adO, s.dO[st]));
          if constexpr (!has_decays(Rule)) dG.map("G"_s, scaled);
          b.store("dGc"_s, a.updates, head, chunk * DK, dG, j * DV);
          auto dU = b.atb("dU"_s, s.scores.first, s.dO[st]);
          dU.map("dU"_s, scaled);
          b.store("dU"_s, a.du, head, row0, dU, j * DV);
          b.mma_abt(dP, s.dO[st], s.U[st]);
          b.mma_abt(dQ, s.dO[st], s.S[st]);
        });
    dP.map("dP"_s, scaled);
    auto in_scores = through_scores(b, s, a, head, row0, P, dP);
    auto from_row = through_reads(b, s, a, head, row0, to_row, dQ);
    if constexpr (has_decays(Rule)) {
      auto in_row = b.gates_of_prefix("gates"_s, from_row, b.planted("dlog_decay_index"_s, 0, 1));
      b.store_row("gates"_s, a.dlog_decay, head, row0, b.rows("gates"_s, plus, in_scores, in_row));
    }
  }

 private:
  template <class Ex, class Scores>
  TILE_FN static void put_scores(Ex& b, Smem& s, const Args& a, int head, int row0, Scores& P) {
    if constexpr (has_decays(Rule)) {
      b.decay_ratios("decay"_s, s.of_pairs.first, a.log_decay, head, row0);
      b.sync();
    }
    b.mma_abt(P, s.Q, s.K);
    if constexpr (has_decays(Rule)) P.zip("PD"_s, times, s.of_pairs.first);
    P.mask(lower, 0);
    b.put(s.scores.first, P);
  }
  /// M, its part of dK, and the gates of the ratios in P.
  template <class Ex, class Scores>
  TILE_FN static auto through_scores(Ex& b, Smem& s, const Args& a, int head, int row0, Scores& P, Scores& dP) {
    dP.mask(lower, 0);
    if constexpr (has_decays(Rule)) {
      P.zip("dPP"_s, times, dP);
      dP.zip("M"_s, times, s.of_pairs.first);
      b.put(s.of_pairs.second, P);
    }
    b.put(s.scores.second, dP);
    b.sync();
    b.store("dKc"_s, a.dk, head, row0, b.atb("dK"_s, s.scores.second, s.Q));
    if constexpr (has_decays(Rule))
      return b.gates_of_ratios("gates"_s, s.of_pairs.second);
    else
      return Nothing{};
  }
  /// dQ, and the terms of the decays to a row.
  template <class Ex, class Row, class Keys>
  TILE_FN static auto through_reads(Ex& b, Smem& s, const Args& a, int head, int row0, const Row& to_row, Keys& dQ) {
    const auto scale = b.planted("dq_scale_twice"_s, a.scale, a.scale + a.scale);
    const auto through_row = [&] {
      if constexpr (has_decays(Rule)) {
        dQ.map(
            "dQ"_s, [&](auto x, auto decay) { return x * scale * decay; }, to_row);
        auto q = in_registers(b, "from"_s, s.Q);
        return b.dot("from"_s, q, dQ);
      } else {
        dQ.map("dQ"_s, [&](auto x) { return x * scale; });
        return Nothing{};
      }
    };
    auto from_row = through_row();
    b.mma(dQ, s.scores.second, s.K);
    if (a.group == 1)
      b.store("out"_s, a.dq, head, row0, dQ);
    else
      b.store("part"_s, a.dq_parts, head, row0, dQ);
    return from_row;
  }
};

/// G after every chunk, last chunk first, and its E.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST, DeltaRule Rule>
struct GatedDeltaAdjoints {
  struct Args {
    typename B::In k, p, inverse, du, updates, final_cotangent;
    typename B::RowIn beta, to_error, to_end, totals;
    typename B::Out errors, adjoints, initial_gradient;
    int len, group;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> K[ST];
    TileIf<predicts(Rule), typename B::template Tile<"Kp", C, DK>> X[ST];
    typename B::template Tile<"Tc", C, C> T[ST];
    typename B::template Tile<"dU", C, DV> dU0[ST];
    typename B::template Tile<"dGc", DK, DV> dG[ST];
    typename B::template Tile<"Gc", DK, DV> G;
    typename B::template Tile<"dUc", C, DV> dU;
    std::conditional_t<has_decays(Rule), typename B::template Tile<"aFc", C, DV>,
                       typename B::template Tile<"Fc", C, DV>>
        aF;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = head / a.group, v0 = block * DV, chunks = imax(1, ceil_div(a.len, C));
    const auto start = [&](auto zero, auto g) { return b.planted("final_cotangent_dropped"_s, g, zero); };
    auto G = b.acc("G"_s, Shape<DK, DV>{});
    b.pipeline(
        Shape<ST>{}, chunks,
        [&](int i, int st) {
          const int j = chunks - 1 - i;
          b.load(s.K[st], a.k, shared, j * C);
          if constexpr (predicts(Rule)) b.load(s.X[st], a.p, shared, j * C);
          b.load(s.T[st], a.inverse, head, j * C);
          b.load(s.dU0[st], a.du, head, j * C, v0);
          b.load(s.dG[st], a.updates, head, j * DK, v0);
        },
        [&](int i, int st) {
          const int j = chunks - 1 - i;
          auto& K = s.K[st];
          auto& X = chosen<predicts(Rule)>(s.X[st], K);
          auto beta = b.load_row("beta"_s, Shape<C>{}, a.beta, head, j * C);
          auto to_error = decays_from<Rule>(b, Shape<C>{}, a.to_error, head, j * C);
          auto to_end = decays_from<Rule>(b, Shape<C>{}, a.to_end, head, j * C);
          auto total = decays_from<Rule>(b, Shape<DK>{}, a.totals, head, j * DK);
          if (i == 0 || b.planted("adjoint_not_carried"_s, false, true)) {
            auto dfinal = b.load_acc("dfinal"_s, Shape<DK, DV>{}, a.final_cotangent, head, 0, v0);
            G.zip("G"_s, start, dfinal);
          }
          b.put(s.G, G);
          b.store("Gc"_s, a.adjoints, head, j * DK, G, v0);
          b.sync();
          auto dU = b.ab("KG"_s, K, s.G);
          decay("KG"_s, dU, to_end);
          dU.zip("dU"_s, plus, s.dU0[st]);
          b.put(s.dU, dU);
          b.sync();
          auto E = b.atb("E"_s, s.T[st], s.dU);
          b.store("E"_s, a.errors, head, j * C, E, v0);
          E.map("dV"_s, times, beta);
          E.map("F"_s, negative);
          decay("aF"_s, E, to_error);
          b.put(s.aF, E);
          b.sync();
          if constexpr (has_decays(Rule)) {
            const auto carried = [&](auto g, auto factor) { return b.planted("adjoint_not_decayed"_s, g * factor, g); };
            G.map("G"_s, carried, total);
          }
          G.zip("G"_s, plus, s.dG[st]);
          b.mma_atb(G, X, s.aF);
        });
    b.store("initial"_s, a.initial_gradient, head, 0, G, v0);
  }
};

/// The other gradients of a chunk's tokens, a head's values in steps of DV columns. Those of keys are this head's part,
/// unless no other shares them (`keys_whole`). Blocks are chunks.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST, DeltaRule Rule>
struct GatedDeltaGradients {
  struct Args {
    typename B::In k, v, p, u, states, adjoints, errors, dk_reads;  // p: keys of the prediction, if there are any
    typename B::RowIn beta, log_decay, to_error, to_end, totals, dlog_decay_reads;
    typename B::Out dk, dp, dk_parts, dp_parts, dv;
    typename B::RowOut dbeta, dlog_decay;
    int lag, group, steps, key_parts;  // key_parts: of dk for each head, this program's first
    bool keys_whole;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> K;
    [[no_unique_address]] TileIf<predicts(Rule), typename B::template Tile<"Kp", C, DK>> X;
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"Uc", C, DV> U[ST];
    typename B::template Tile<"Sc", DK, DV> S[ST];
    typename B::template Tile<"Gc", DK, DV> G[ST];
    typename B::template Tile<"Fc", C, DV> F;
    TileIf<has_decays(Rule),
           typename B::template InTurn<typename B::template Tile<"D1", C, C>, typename B::template Tile<"dLL", C, C>>>
        of_pairs;
    typename B::template InTurn<typename B::template Tile<"Lc", C, C>, typename B::template Tile<"Nc", C, C>> scores;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const Place at{head, head / a.group, chunk * C, chunk * DK};
    auto dL = b.acc("dL"_s, Shape<C, C>{});
    auto dX = b.acc("dX"_s, Shape<C, DK>{}), dK = b.acc("dK"_s, Shape<C, DK>{});
    auto of_state = terms(b, Shape<DK>{});
    auto of_end = terms(b, Shape<C>{}), of_read = terms(b, Shape<C>{});
    auto of_beta = b.partial("dbeta"_s, Shape<C>{});
    const auto beta = b.load_row("beta"_s, Shape<C>{}, a.beta, head, at.row0);
    const auto to_error = decays_from<Rule>(b, Shape<C>{}, a.to_error, head, at.row0);
    const auto to_end = decays_from<Rule>(b, Shape<C>{}, a.to_end, head, at.row0);
    const Rows<decltype(beta), decltype(to_error)> rows{beta, to_error, to_end};
    b.pipeline(
        Shape<ST>{}, a.steps, [&](int j, int st) { load(b, s, a, at, j, st); },
        [&](int j, int st) {
          if (j == 0) put_scores(b, s, a, at);
          of_errors(b, s, a, at, j, st, rows, of_end, of_read, of_beta);
          if constexpr (has_decays(Rule)) {
            auto SG = in_registers(b, "from"_s, s.S[st]);
            SG.zip("from"_s, times, s.G[st]);
            of_state.fold(b.row("from"_s, Shape<DK>{}, 1), SG);
          }
          b.sync();
          b.mma_abt(dL, s.F, s.U[st]);
          b.mma_abt(dX, s.F, s.S[st]);
          b.mma_abt(dK, s.U[st], s.G[st]);
        });
    b.store_row("dbeta"_s, a.dbeta, head, at.row0, of_beta.total());
    auto in_errors = through_system(b, s, a, at, rows, dL, dX, dK);
    if constexpr (has_decays(Rule)) store_gates(b, a, at, of_state, of_end, of_read, in_errors);
  }

 private:
  struct Place {
    int head, shared, row0, state0;
  };
  template <class Row, class Decays>
  struct Rows {
    const Row& beta;
    const Decays &to_error, &to_end;
  };
  TILE_FN static auto& error_keys(Smem& s) { return chosen<predicts(Rule)>(s.X, s.K); }
  /// Sums of terms of the gradient of decays.
  template <class Ex, Size R>
  TILE_FN static auto terms(Ex& b, Shape<R> shape) {
    if constexpr (has_decays(Rule))
      return b.partial("from"_s, shape);
    else
      return Nothing{};
  }

  template <class Ex>
  TILE_FN static void load(Ex& b, Smem& s, const Args& a, const Place& at, int j, int st) {
    if (j == 0) {
      b.load(s.K, a.k, at.shared, at.row0);
      if constexpr (predicts(Rule)) b.load(s.X, a.p, at.shared, at.row0);
    }
    b.load(s.V[st], a.v, at.head, at.row0, j * DV);
    b.load(s.U[st], a.u, at.head, at.row0, j * DV);
    b.load(s.S[st], a.states, at.head, at.state0, j * DV);
    b.load(s.G[st], a.adjoints, at.head, at.state0, j * DV);
  }
  template <class Ex>
  TILE_FN static void put_scores(Ex& b, Smem& s, const Args& a, const Place& at) {
    if constexpr (has_decays(Rule)) {
      b.decay_ratios("decay"_s, s.of_pairs.first, a.log_decay, at.head, at.row0, a.lag);
      b.sync();
    }
    auto L = b.abt("KK"_s, error_keys(s), s.K);
    if constexpr (has_decays(Rule)) L.zip("L"_s, times, s.of_pairs.first);
    L.mask(strictly_lower, 0);
    b.put(s.scores.first, L);
    b.sync();
  }
  /// The errors of the forward pass and their cotangents: dV, F, and terms of dbeta, of the decays to the end and of
  /// those to the errors.
  template <class Ex, class Row, class Decays, class Terms, class Partial>
  TILE_FN static void of_errors(Ex& b, Smem& s, const Args& a, const Place& at, int j, int st,
                                const Rows<Row, Decays>& rows, Terms& of_end, Terms& of_read, Partial& of_beta) {
    const auto one = b.row("dbeta"_s, Shape<C>{}, 1);
    if constexpr (has_decays(Rule)) {
      auto KG = b.ab("KG"_s, s.K, s.G[st]);
      KG.map("KG"_s, times, rows.to_end);
      KG.zip("from"_s, times, s.U[st]);
      of_end.fold(one, KG);
    }
    auto XS = b.ab("W"_s, error_keys(s), s.S[st]);
    decay("W"_s, XS, rows.to_error);
    auto E = b.load_acc("E"_s, Shape<C, DV>{}, a.errors, at.head, at.row0, j * DV), F = E;
    F.map("dV"_s, times, rows.beta);
    b.store("out"_s, a.dv, at.head, at.row0, F, j * DV);
    F.map("F"_s, negative);
    b.put(s.F, F);
    if constexpr (has_decays(Rule)) {
      F.zip("from"_s, times, XS);
      of_read.fold(one, F);
    }
    auto R = in_registers(b, "W"_s, s.V[st]);
    auto LU = b.ab("LU"_s, s.scores.first, s.U[st]);
    if (!b.planted("dbeta_of_value"_s, false, true)) {
      R.zip("W"_s, minus, XS);
      R.zip("R"_s, minus, LU);
    }
    R.zip("dbeta"_s, times, E);
    of_beta.fold(one, R);
  }
  /// dK, dp where there are keys of a prediction, and the gates of the ratios in L.
  template <class Ex, class Row, class Decays, class Scores, class Keys>
  TILE_FN static auto through_system(Ex& b, Smem& s, const Args& a, const Place& at, const Rows<Row, Decays>& rows,
                                     Scores& dL, Keys& dX, Keys& dK) {
    if (b.planted("solve_gradient_sign"_s, false, true)) dL.map("dL"_s, negative);
    dL.mask(strictly_lower, 0);
    if constexpr (has_decays(Rule)) {
      auto L = in_registers(b, "dLL"_s, s.scores.first);
      L.zip("dLL"_s, times, dL);
      dL.zip("N"_s, times, s.of_pairs.first);
      b.put(s.of_pairs.second, L);
    }
    b.put(s.scores.second, dL);
    b.sync();
    decay("dX"_s, dX, rows.to_error);
    if (b.planted("dk_without_read"_s, false, true)) dX.map("dX"_s, [](auto x) { return x * 0; });
    b.mma(dX, s.scores.second, s.K);
    decay("dK"_s, dK, rows.to_end);
    b.mma_atb(dK, s.scores.second, error_keys(s));
    if constexpr (predicts(Rule))
      store_keys(b, a, a.dp, a.dp_parts, at, at.head, dX);
    else
      dK.zip("dK"_s, plus, dX);
    auto of_reads = b.load_acc("dKc"_s, Shape<C, DK>{}, a.dk_reads, at.head, at.row0);
    dK.zip("dK"_s, plus, of_reads);
    store_keys(b, a, a.dk, a.dk_parts, at, at.head * a.key_parts, dK);
    if constexpr (has_decays(Rule))
      return b.gates_of_ratios("gates"_s, s.of_pairs.second, a.lag);
    else
      return Nothing{};
  }
  template <class Ex, class OfState, class Terms, class Row>
  TILE_FN static void store_gates(Ex& b, const Args& a, const Place& at, OfState& of_state, Terms& of_end,
                                  Terms& of_read, const Row& in_errors) {
    auto total = b.load_row("decay"_s, Shape<DK>{}, a.totals, at.head, at.state0);
    auto in_state = b.gates_of_total("gates"_s, Shape<C>{}, b.rows("from"_s, times, of_state.total(), total));
    auto in_read = b.gates_of_prefix("gates"_s, of_read.total(), a.lag);
    auto in_end = b.gates_of_suffix("gates"_s, of_end.total());
    const auto sum = [&](auto state, auto reads, auto errors, auto read, auto end) {
      return b.planted("dlog_decay_without_state"_s, state, state * 0) +
             b.planted("dlog_decay_without_errors"_s, errors, errors * 0) + reads + read + end;
    };
    auto in_reads = b.load_row("gates"_s, Shape<C>{}, a.dlog_decay_reads, at.head, at.row0);
    b.store_row("dlog_decay"_s, a.dlog_decay, at.head, at.row0,
                b.rows("gates"_s, sum, in_state, in_reads, in_errors, in_read, in_end));
  }
  template <class Ex, class Keys>
  TILE_FN static void store_keys(Ex& b, const Args& a, const typename B::Out& whole, const typename B::Out& parts,
                                 const Place& at, int part, const Keys& d) {
    if (a.keys_whole)
      b.store("out"_s, whole, at.head, at.row0, d);
    else
      b.store("part"_s, parts, part, at.row0, d);
  }
};

inline constexpr SiteTable::Init delta_site_list[] = {
    {"Q", Role::operand},          {"K", Role::operand},           {"V", Role::operand},
    {"dO", Role::operand},         {"Sc", Role::operand},          {"Tc", Role::operand},
    {"P", Role::operand},          {"Wc", Role::operand},          {"Uc", Role::operand},
    {"Gc", Role::operand},         {"dGc", Role::operand},         {"dUc", Role::operand},
    {"Lc", Role::operand},         {"Fc", Role::operand},          {"Mc", Role::operand},
    {"Nc", Role::operand},         {"dKc", Role::operand},         {"beta", Role::gate},
    {"dbeta", Role::gate},         {"scale", Role::gate},          {"S0", Role::accumulator},
    {"dfinal", Role::accumulator}, {"KK", Role::accumulator},      {"A", Role::accumulator},
    {"T", Role::accumulator},      {"QK", Role::accumulator},      {"W", Role::accumulator},
    {"U", Role::accumulator},      {"O", Role::accumulator},       {"o", Role::accumulator},
    {"S", Role::accumulator},      {"G", Role::accumulator},       {"KG", Role::accumulator},
    {"dU", Role::accumulator},     {"E", Role::accumulator},       {"LU", Role::accumulator},
    {"R", Role::accumulator},      {"dV", Role::accumulator},      {"F", Role::accumulator},
    {"dP", Role::accumulator},     {"dL", Role::accumulator},      {"dQ", Role::accumulator},
    {"dK", Role::accumulator},     {"dX", Role::accumulator},      {"part", Role::accumulator},
    {"final", Role::accumulator},  {"initial", Role::accumulator}, {"out", Role::output}};
inline constexpr SiteTable delta_sites{delta_site_list};

/// With decays.
inline constexpr SiteTable::Init delta_decay_site_list[] = {
    {"zUc", Role::operand},     {"adOc", Role::operand},     {"aFc", Role::operand},
    {"decay", Role::gate},      {"D", Role::gate},           {"D1", Role::gate},
    {"dlog_decay", Role::gate}, {"from", Role::accumulator}, {"gates", Role::accumulator},
    {"dPP", Role::accumulator}, {"dLL", Role::accumulator},  {"L", Role::accumulator},
    {"PD", Role::accumulator},  {"aF", Role::accumulator},   {"M", Role::accumulator},
    {"N", Role::accumulator},   {"adO", Role::accumulator}};
inline constexpr SiteTable gated_delta_sites = delta_sites.with(delta_decay_site_list);

/// With the inverse by doubling.
inline constexpr SiteTable::Init delta_power_site_list[] = {{"powerc", Role::operand}, {"power", Role::accumulator}};

}  // namespace assay::tile
