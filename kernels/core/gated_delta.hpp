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
//   dQ = scale a o dO S^T + M K,   dK = (z o U) G^T + M^T Q + N^T X,   dX = (a' o F) S^T + N K
//   G <- a_C G + Q^T (scale a o dO) + X^T (a' o F)
// and each term is a term of the gradient of the log of every gate in its product:
//   dlog_decay_r = sum_{j < r <= i} (dP o P)_ij + sum_{j < r <= i - lag} (dL o L)_ij + sum_{i >= r} (scale a o dO
//   S^T)_i . q_i
//                + sum_{i - lag >= r} F_i . (a' o X S)_i + sum_{j < r} U_j . (z o K G)_j + a_C <S, G>
// The systems of all chunks are solved at once, before the passes along the sequence that need their inverses. The
// forward pass keeps the state before every chunk; launch code sums the gradients of shared heads.
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// T of every chunk, as C rows each. Blocks are chunks.
template <ExecutorTypes B, int C, int DK, bool Predicts>
struct GatedDeltaSystem {
  struct Args {
    typename B::In k, p;  // p: keys of the prediction, if there are any
    typename B::RowIn beta, log_decay;
    typename B::Out inverse;
    int lag, group, shared_heads;
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
    const auto copy = [](auto, auto x) { return x; };
    const auto times = [](auto x, auto y) { return x * y; };
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
          b.decay_ratios("decay"_s, s.D1, a.log_decay, head, chunk * C, a.lag);
          b.sync();
          auto A = b.abt("KK"_s, chosen<Predicts>(s.X, s.K), s.K);
          A.zip("L"_s, times, s.D1);
          A.map("A"_s, times_beta, b.load_row("beta"_s, Shape<C>{}, a.beta, head, chunk * C),
                b.load_col("beta"_s, Shape<1, C>{}, a.beta, head, chunk * C));
          A.mask([](int r, int c) { return r > c; }, 0);
          b.put(s.A, A);
          b.sync();
          b.unit_lower_inverse("T"_s, s.T, s.A);
          b.sync();
          A.zip("T"_s, copy, s.T);
          b.store("Tc"_s, a.inverse, head, chunk * C, A);
        });
  }
};

/// One block per head and per DV columns of the values; `block` counts the latter.
template <ExecutorTypes B, int C, int DK, int DV, int ST, bool Predicts>
struct GatedDeltaForward {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, v, p, inverse;  // p: keys of the prediction, if there are any
    typename B::RowIn beta, log_decay;
    typename B::In initial_state;
    typename B::Out o, final_state;
    typename B::Out states;  // before every chunk, DK rows each; no rows: not kept
    Real scale;
    int len, lag, group, shared_heads;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q[ST];
    typename B::template Tile<"K", C, DK> K[ST];
    TileIf<Predicts, typename B::template Tile<"Kp", C, DK>> X[ST];
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"Tc", C, C> T[ST];
    typename B::template Tile<"S0", DK, DV> S0;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"D", C, C> D;  // ratios of scores
    typename B::template Tile<"Wc", C, DV> W;
    typename B::template Tile<"Uc", C, DV> U;
    typename B::template Tile<"zUc", C, DV> zU;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = b.planted("head_modulo"_s, head / a.group, head % a.shared_heads), v0 = block * DV;
    const auto start = [&](auto zero, auto s0) { return b.planted("initial_state_ignored"_s, s0, zero); };
    const auto times = [](auto x, auto y) { return x * y; };
    const auto minus_read = [](auto read, auto v) { return v - read; };
    const auto scaled = [&](auto x) { return x * b.planted("scale_twice"_s, a.scale, a.scale + a.scale); };
    auto S = b.acc("S"_s, Shape<DK, DV>{});
    b.load(s.S0, a.initial_state, head, 0, v0);
    b.pipeline(
        Shape<ST>{}, imax(1, ceil_div(a.len, C)),
        [&](int j, int st) {
          b.load(s.Q[st], a.q, shared, j * C);
          b.load(s.K[st], a.k, shared, j * C);
          if constexpr (Predicts) b.load(s.X[st], a.p, shared, j * C);
          b.load(s.V[st], a.v, head, j * C, v0);
          b.load(s.T[st], a.inverse, head, j * C);
        },
        [&](int j, int st) {
          auto& Q = s.Q[st];
          auto& K = s.K[st];
          auto& X = chosen<Predicts>(s.X[st], K);
          const int n = imin(C, a.len - j * C), lag = b.planted("decay_index_of_read"_s, a.lag, 1 - a.lag);
          auto beta = b.load_row("beta"_s, Shape<C>{}, a.beta, head, j * C);
          auto to_row = b.decay_prefix("decay"_s, Shape<C>{}, a.log_decay, head, j * C);         // a
          auto to_error = b.decay_prefix("decay"_s, Shape<C>{}, a.log_decay, head, j * C, lag);  // a'
          auto to_end = b.decay_suffix("decay"_s, Shape<C>{}, a.log_decay, head, j * C);         // z
          auto total = b.decay_total("decay"_s, Shape<DK>{}, a.log_decay, head, j * C,           // a_C
                                     b.planted("tail_decay"_s, C, n < C ? n - 1 : C));
          b.decay_ratios("decay"_s, s.D, a.log_decay, head, j * C, b.planted("decay_index_of_scores"_s, 0, 1));
          if (j == 0 || b.planted("state_not_carried"_s, false, true)) S.zip("S"_s, start, s.S0);
          b.store("H"_s, a.states, head, j * DK, S, v0);
          b.put(s.S, S);
          b.sync();

          auto W = b.ab("W"_s, X, s.S);
          W.map("W"_s, times, to_error);
          W.zip("W"_s, minus_read, s.V[st]);
          W.map("W"_s, times, beta);
          b.put(s.W, W);
          auto P = b.abt("QK"_s, Q, K);
          P.zip("PD"_s, times, s.D);
          P.mask([&](int r, int c) { return r >= c + b.planted("scores_exclude_self"_s, 0, 1); }, 0);
          auto O = b.ab("O"_s, Q, s.S);
          O.map("O"_s, times, to_row);
          b.sync();
          auto U = b.ab("U"_s, s.T[st], s.W);
          b.put(s.U, U);
          U.map("U"_s, times, to_end);
          b.put(s.zU, U);
          b.sync();
          b.mma(O, b.cast("P"_s, P), s.U);
          O.map("o"_s, scaled);
          b.store("out"_s, a.o, head, j * C, O, v0);
          S.map("S"_s, times, total);
          b.mma_atb(S, K, s.zU);
        });
    b.store("final"_s, a.final_state, head, 0, S, v0);
  }
};

/// Cotangents in, gradients out; dq, dk, dbeta and dlog_decay are this block's part, the value columns v0.. of its
/// head.
template <ExecutorTypes B, int C, int DK, int DV, int ST, bool Predicts>
struct GatedDeltaBackward {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, v, p, inverse;  // p: keys of the prediction, if there are any
    typename B::RowIn beta, log_decay;
    typename B::In states, o_cotangent, final_cotangent;
    typename B::Out dq, dk, dv, dp, initial_gradient;
    typename B::RowOut dbeta, dlog_decay;
    Real scale;
    int len, lag, group, blocks, key_parts;  // key_parts: of dk for each head, those of the blocks first
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q[ST];
    typename B::template Tile<"K", C, DK> K[ST];
    TileIf<Predicts, typename B::template Tile<"Kp", C, DK>> X[ST];
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"dO", C, DV> dO[ST];
    typename B::template Tile<"H", DK, DV> H[ST];
    typename B::template Tile<"Tc", C, C> T[ST];
    typename B::template Tile<"dfinal", DK, DV> dfinal;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Gc", DK, DV> G;
    typename B::template Tile<"D", C, C> D;
    typename B::template Tile<"D1", C, C> D1;
    typename B::template Tile<"P", C, C> P;
    typename B::template Tile<"Wc", C, DV> W;
    typename B::template Tile<"Uc", C, DV> U;
    typename B::template Tile<"zUc", C, DV> zU;
    typename B::template Tile<"dUc", C, DV> dU;
    typename B::template Tile<"adOc", C, DV> adO;
    typename B::template Tile<"Fc", C, DV> F;
    typename B::template Tile<"aFc", C, DV> aF;
    typename B::template Tile<"Mc", C, C> M;
    typename B::template Tile<"Nc", C, C> N;
    typename B::template Tile<"dPP", C, C> dPP;
    typename B::template Tile<"dLL", C, C> dLL;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = head / a.group, part = head * a.blocks + block, v0 = block * DV;
    const int chunks = imax(1, ceil_div(a.len, C));
    const auto start = [&](auto zero, auto g) { return b.planted("final_cotangent_dropped"_s, g, zero); };
    const auto copy = [](auto, auto x) { return x; };
    const auto negative = [](auto x) { return -x; };
    const auto times = [](auto x, auto y) { return x * y; };
    const auto minus = [](auto x, auto y) { return x - y; };
    const auto minus_read = [](auto read, auto v) { return v - read; };
    const auto scaled = [&](auto x) { return x * a.scale; };
    const auto scaled_plus = [&](auto x, auto y) { return x * a.scale + y; };
    const auto scaled_times = [&](auto, auto x, auto decay) { return x * a.scale * decay; };
    const auto dq_scaled = [&](auto x, auto decay) {
      return x * b.planted("dq_scale_twice"_s, a.scale, a.scale + a.scale) * decay;
    };
    const auto carried = [&](auto g, auto decay) { return b.planted("adjoint_not_decayed"_s, g * decay, g); };
    const auto sum = [&](auto state, auto scores, auto errors, auto row, auto read, auto end) {
      return b.planted("dlog_decay_without_state"_s, state, state * 0) +
             b.planted("dlog_decay_without_errors"_s, errors, errors * 0) + scores + row + read + end;
    };
    const auto lower = [](int r, int c) { return r >= c; };
    const auto strictly_lower = [](int r, int c) { return r > c; };
    auto G = b.acc("G"_s, Shape<DK, DV>{});
    b.load(s.dfinal, a.final_cotangent, head, 0, v0);
    b.pipeline(
        Shape<ST>{}, chunks,
        [&](int i, int st) {
          const int j = chunks - 1 - i;
          b.load(s.Q[st], a.q, shared, j * C);
          b.load(s.K[st], a.k, shared, j * C);
          if constexpr (Predicts) b.load(s.X[st], a.p, shared, j * C);
          b.load(s.V[st], a.v, head, j * C, v0);
          b.load(s.dO[st], a.o_cotangent, head, j * C, v0);
          b.load(s.H[st], a.states, head, j * DK, v0);
          b.load(s.T[st], a.inverse, head, j * C);
        },
        [&](int i, int st) {
          const int j = chunks - 1 - i;
          auto& Q = s.Q[st];
          auto& K = s.K[st];
          auto& X = chosen<Predicts>(s.X[st], K);
          auto& dO = s.dO[st];
          auto beta = b.load_row("beta"_s, Shape<C>{}, a.beta, head, j * C);
          auto to_row = b.decay_prefix("decay"_s, Shape<C>{}, a.log_decay, head, j * C);           // a
          auto to_error = b.decay_prefix("decay"_s, Shape<C>{}, a.log_decay, head, j * C, a.lag);  // a'
          auto to_end = b.decay_suffix("decay"_s, Shape<C>{}, a.log_decay, head, j * C);           // z
          auto total = b.decay_total("decay"_s, Shape<DK>{}, a.log_decay, head, j * C, C);         // a_C
          b.decay_ratios("decay"_s, s.D, a.log_decay, head, j * C);
          b.decay_ratios("decay"_s, s.D1, a.log_decay, head, j * C, a.lag);
          if (i == 0) G.zip("G"_s, start, s.dfinal);
          b.put(s.G, G);
          auto S = b.acc("S"_s, Shape<DK, DV>{});
          S.zip("S"_s, copy, s.H[st]);
          b.put(s.S, S);
          b.sync();

          // The forward chunk again.
          auto L = b.abt("KK"_s, X, K);
          L.zip("L"_s, times, s.D1);
          L.mask(strictly_lower, 0);
          auto P = b.abt("QK"_s, Q, K);
          P.zip("PD"_s, times, s.D);
          P.mask(lower, 0);
          b.put(s.P, P);
          auto XS = b.ab("W"_s, X, s.S);
          XS.map("W"_s, times, to_error);
          auto R = XS;
          R.zip("W"_s, minus_read, s.V[st]);
          auto W = R;
          W.map("W"_s, times, beta);
          b.put(s.W, W);
          b.sync();
          auto KG = b.ab("KG"_s, K, s.G);
          KG.map("KG"_s, times, to_end);
          auto dU = b.atb("dU"_s, s.P, dO);
          dU.zip("dU"_s, scaled_plus, KG);
          b.put(s.dU, dU);
          b.sync();
          auto U = b.ab("U"_s, s.T[st], s.W);
          b.put(s.U, U);
          auto E = b.atb("E"_s, s.T[st], s.dU);
          b.sync();

          auto LU = b.acc("LU"_s, Shape<C, DV>{});
          b.mma(LU, b.cast("Lc"_s, L), s.U);
          R.zip("R"_s, minus, LU);
          if (b.planted("dbeta_of_value"_s, false, true)) R.zip("R"_s, copy, s.V[st]);
          b.store_row("dbeta"_s, a.dbeta, part, j * C, b.dot("dbeta"_s, E, R));
          auto F = E;
          F.map("dV"_s, times, beta);
          b.store("out"_s, a.dv, head, j * C, F, v0);
          F.map("F"_s, negative);
          b.put(s.F, F);
          auto from_read = b.dot("from"_s, F, XS), from_end = b.dot("from"_s, U, KG);
          F.map("aF"_s, times, to_error);
          b.put(s.aF, F);
          U.map("U"_s, times, to_end);
          b.put(s.zU, U);
          auto dP = b.abt("dP"_s, dO, s.U);
          dP.map("dP"_s, scaled);
          dP.mask(lower, 0);
          P.zip("dPP"_s, times, dP);
          b.put(s.dPP, P);
          dP.zip("M"_s, times, s.D);
          b.put(s.M, dP);
          b.sync();
          auto dL = b.abt("dL"_s, s.F, s.U);
          dL.mask(strictly_lower, 0);
          L.zip("dLL"_s, times, dL);
          b.put(s.dLL, L);
          dL.zip("N"_s, times, s.D1);
          b.put(s.N, dL);
          auto dQ = b.abt("dQ"_s, dO, s.S);
          dQ.map("dQ"_s, dq_scaled, to_row);
          auto q = b.acc("from"_s, Shape<C, DK>{});
          q.zip("from"_s, copy, Q);
          auto from_row = b.dot("from"_s, q, dQ);
          b.mma(dQ, s.M, K);
          b.store("part"_s, a.dq, part, j * C, dQ);
          b.sync();
          auto dK = b.abt("dK"_s, s.zU, s.G);
          auto own = b.acc("dK"_s, Shape<C, DK>{});
          auto& dX = chosen<Predicts>(own, dK);
          if (b.planted("dk_without_read"_s, true, false)) b.mma_abt(dX, s.aF, s.S);
          b.mma_atb(dK, s.M, Q);
          b.mma(dX, s.N, K);
          b.mma_atb(dK, s.N, X);
          b.store("part"_s, a.dk, head * a.key_parts + block, j * C, dK);
          if constexpr (Predicts) b.store("part"_s, a.dp, part, j * C, dX);

          auto from_state = b.rows("from"_s, times, b.dot("from"_s, S, G), total);
          auto in_state = b.gates_of_total("gates"_s, Shape<C>{}, from_state);
          auto in_scores = b.gates_of_ratios("gates"_s, s.dPP);
          auto in_errors = b.gates_of_ratios("gates"_s, s.dLL, a.lag);
          auto in_row = b.gates_of_prefix("gates"_s, from_row, b.planted("dlog_decay_index"_s, 0, 1));
          auto in_read = b.gates_of_prefix("gates"_s, from_read, a.lag);
          auto in_end = b.gates_of_suffix("gates"_s, from_end);
          auto dlog_decay = b.rows("gates"_s, sum, in_state, in_scores, in_errors, in_row, in_read, in_end);
          b.store_row("dlog_decay"_s, a.dlog_decay, part, j * C, dlog_decay);

          auto adO = b.acc("adO"_s, Shape<C, DV>{});
          adO.zip("adO"_s, scaled_times, dO, to_row);
          b.put(s.adO, adO);
          b.sync();
          G.map("G"_s, carried, total);
          b.mma_atb(G, Q, s.adO);
          b.mma_atb(G, X, s.aF);
        });
    b.store("initial"_s, a.initial_gradient, head, 0, G, v0);
  }
};

inline constexpr SiteTable::Init gated_delta_site_list[] = {
    {"Q", Role::operand},         {"K", Role::operand},           {"V", Role::operand},
    {"dO", Role::operand},        {"Sc", Role::operand},          {"Tc", Role::operand},
    {"P", Role::operand},         {"Wc", Role::operand},          {"Uc", Role::operand},
    {"zUc", Role::operand},       {"Gc", Role::operand},          {"dUc", Role::operand},
    {"Lc", Role::operand},        {"adOc", Role::operand},        {"Fc", Role::operand},
    {"aFc", Role::operand},       {"Mc", Role::operand},          {"Nc", Role::operand},
    {"beta", Role::gate},         {"decay", Role::gate},          {"D", Role::gate},
    {"D1", Role::gate},           {"dbeta", Role::gate},          {"dlog_decay", Role::gate},
    {"scale", Role::gate},        {"from", Role::accumulator},    {"gates", Role::accumulator},
    {"dPP", Role::accumulator},   {"dLL", Role::accumulator},     {"S0", Role::accumulator},
    {"H", Role::accumulator},     {"dfinal", Role::accumulator},  {"KK", Role::accumulator},
    {"L", Role::accumulator},     {"A", Role::accumulator},       {"T", Role::accumulator},
    {"QK", Role::accumulator},    {"PD", Role::accumulator},      {"W", Role::accumulator},
    {"U", Role::accumulator},     {"O", Role::accumulator},       {"o", Role::accumulator},
    {"S", Role::accumulator},     {"G", Role::accumulator},       {"KG", Role::accumulator},
    {"dU", Role::accumulator},    {"E", Role::accumulator},       {"LU", Role::accumulator},
    {"R", Role::accumulator},     {"dV", Role::accumulator},      {"F", Role::accumulator},
    {"aF", Role::accumulator},    {"dP", Role::accumulator},      {"dL", Role::accumulator},
    {"M", Role::accumulator},     {"N", Role::accumulator},       {"dQ", Role::accumulator},
    {"dK", Role::accumulator},    {"adO", Role::accumulator},     {"part", Role::accumulator},
    {"final", Role::accumulator}, {"initial", Role::accumulator}, {"out", Role::output}};
inline constexpr SiteTable gated_delta_sites{gated_delta_site_list};

}  // namespace assay::tile
