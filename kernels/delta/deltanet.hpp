#pragma once
// DeltaNet, chunkwise (falcon-family.md 4.6 with gamma = 1: no square roots, any real beta). For a chunk of C tokens
// with write features X and the state S before it:
//   L = strict_lower(X X^T),  T = (I + diag(beta) L)^{-1} by forward substitution,  P = lower(Q X^T)
//   U = T diag(beta) (V - X S),   O = scale (Q S + P U),   S <- S + X^T U
// The systems of all chunks are solved at once, before the pass along the sequence that needs their inverses; outputs
// are computed on its way or, of all chunks at once, after it. Backward, last chunk first, G the cotangent of the state
// after the chunk:
//   dU = scale P^T dO + X G,   E = T^T dU,   R = V - X S - L U,   dV = diag(beta) E,   dbeta = rowsum(E o R)
//   F = -dV is the cotangent of the read X S,   dP = scale lower(dO U^T),   dL = strict_lower(F U^T)
//   dQ = scale dO S^T + dP X,   dX = U G^T + F S^T + dP^T Q + (dL + dL^T) X,   G <- G + scale Q^T dO + X^T F
// The forward pass keeps the state before every chunk where it is needed. Launch code makes X (the keys, or the keys
// one row later under next-latent alignment) and sums the gradients of shared heads. With A = diag(beta) L, published
// kernels take
//   T = (I - A)(I + A^2)(I + A^4) ... (I + A^(C/2))
// by squaring operands again and again: products only, but powers of A are as large as binomials of C (Doubling).
#include "kernels/core/functions.hpp"
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// T of every chunk, as C rows each. Blocks are chunks.
template <ExecutorTypes B, Size C, Size DK, bool Doubling = false>
struct DeltaNetSystem {
  struct Args {
    typename B::In x;
    typename B::RowIn beta;
    typename B::Out inverse;
    int group, shared_heads;
  };
  struct Smem {
    typename B::template Tile<"X", C, DK> X;
    TileIf<!Doubling, typename B::template Tile<"A", C, C>> A;
    TileIf<Doubling, typename B::template Tile<"Nc", C, C>> power;
    typename B::template Tile<"Tc", C, C> T;
  };

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

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int shared = b.planted("head_modulo"_s, head / a.group, head % a.shared_heads);
    const auto times_beta = [&](auto x, auto row, auto column) {
      return x * b.planted("beta_of_column"_s, row, column);
    };
    b.pipeline(
        Shape<2>{}, 1, [&](int, int) { b.load(s.X, a.x, shared, chunk * C); },
        [&](int, int) {
          auto A = b.abt("XX"_s, s.X, s.X);
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
};

/// lower(Q X^T).
template <class Ex, class Queries, class Features>
TILE_FN auto lower_scores(Ex& b, const Queries& Q, const Features& X) {
  auto P = b.abt("QX"_s, Q, X);
  P.mask([&](int r, int c) { return r >= c + b.planted("scores_exclude_self"_s, 0, 1); }, 0);
  return P;
}
/// Stores scale (Q S + P U), O being Q S.
template <class Ex, class Args, class Acc, class Scores, class Updates>
TILE_FN void store_outputs(Ex& b, const Args& a, Acc& O, const Scores& P, const Updates& U, int head, int row0,
                           int v0) {
  const auto scaled = [&](auto x) { return x * b.planted("scale_forgotten"_s, a.scale, decltype(a.scale){1}); };
  b.mma(O, b.cast("P"_s, P), U);
  O.map("o"_s, scaled);
  b.store("out"_s, a.o, head, row0, O, v0);
}

/// One block per head and per DV columns of the values; `block` counts the latter. With outputs on its way, or U of
/// every chunk for those that follow.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST, bool WithOutputs>
struct DeltaNetForward {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, x, v, inverse;
    typename B::RowIn beta;
    typename B::In initial_state;
    typename B::Out o, u, final_state;
    typename B::Out states;  // before every chunk, DK rows each; no rows: not kept
    Real scale;
    int len, group, shared_heads;
  };
  struct Smem {
    TileIf<WithOutputs, typename B::template Tile<"Q", C, DK>> Q[ST];
    typename B::template Tile<"X", C, DK> X[ST];
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"Tc", C, C> T[ST];
    typename B::template Tile<"S0", DK, DV> S0;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Wc", C, DV> W;
    typename B::template Tile<"Uc", C, DV> U;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = b.planted("head_modulo"_s, head / a.group, head % a.shared_heads), v0 = block * DV;
    const int chunks = b.planted("tail_dropped"_s, ceil_div(a.len, C), a.len / C);
    const auto start = [&](auto zero, auto s0) { return b.planted("initial_state_ignored"_s, s0, zero); };
    auto S = b.acc("S"_s, Shape<DK, DV>{});
    b.load(s.S0, a.initial_state, head, 0, v0);
    b.pipeline(
        Shape<ST>{}, imax(1, chunks),
        [&](int j, int st) {
          if constexpr (WithOutputs) b.load(s.Q[st], a.q, shared, j * C);
          b.load(s.X[st], a.x, shared, j * C);
          b.load(s.V[st], a.v, head, j * C, v0);
          b.load(s.T[st], a.inverse, head, j * C);
        },
        [&](int j, int st) {
          auto& X = s.X[st];
          auto beta = b.load_row("beta"_s, Shape<C>{}, a.beta, head, j * C);
          if (j == 0 || b.planted("state_not_carried"_s, false, true)) S.zip("S"_s, start, s.S0);
          b.store("H"_s, a.states, head, j * DK, S, v0);
          b.put(s.S, S);
          auto P = b.acc("QX"_s, Shape<C, C>{});
          if constexpr (WithOutputs) P = lower_scores(b, s.Q[st], X);
          b.sync();
          auto W = b.ab("W"_s, X, s.S);
          W.zip("W"_s, taken_from, s.V[st]);
          W.map("W"_s, times, beta);
          b.put(s.W, W);
          b.sync();
          auto U = b.ab("U"_s, s.T[st], s.W);
          if constexpr (WithOutputs) {
            b.put(s.U, U);
            auto O = b.ab("O"_s, s.Q[st], s.S);
            b.sync();
            store_outputs(b, a, O, P, s.U, head, j * C, v0);
          } else {
            U.map("Uc"_s, same);  // rounded once for those who read it here and there
            b.put(s.U, U);
            b.store("Uc"_s, a.u, head, j * C, U, v0);
            b.sync();
          }
          b.mma_atb(S, X, s.U);
        });
    b.store("final"_s, a.final_state, head, 0, S, v0);
  }
};

/// Outputs of all chunks at once. Blocks are pairs of a chunk and DV columns of the values, in this order.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct DeltaNetOutputs {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, x, u, states;
    typename B::Out o;
    Real scale;
    int group, shared_heads, blocks;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"X", C, DK> X;
    typename B::template Tile<"Uc", C, DV> U;
    typename B::template Tile<"Sc", DK, DV> S;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = b.planted("head_modulo"_s, head / a.group, head % a.shared_heads);
    const int chunk = block / a.blocks, v0 = block % a.blocks * DV;
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.q, shared, chunk * C);
          b.load(s.X, a.x, shared, chunk * C);
          b.load(s.U, a.u, head, chunk * C, v0);
        },
        [&](int, int) {
          b.put(s.S, b.load_acc("H"_s, Shape<DK, DV>{}, a.states, head, chunk * DK, v0));
          auto P = lower_scores(b, s.Q, s.X);
          b.sync();
          auto O = b.ab("O"_s, s.Q, s.S);
          store_outputs(b, a, O, P, s.U, head, chunk * C, v0);
        });
  }
};

/// Cotangents in, gradients out; dq, dx and dbeta are this block's part, the value columns v0.. of its head.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct DeltaNetBackward {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, x, v, inverse;
    typename B::RowIn beta;
    typename B::In states, o_cotangent, final_cotangent;
    typename B::Out dq, dx, dv, initial_gradient;
    typename B::RowOut dbeta;
    Real scale;
    int len, group, blocks;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q[ST];
    typename B::template Tile<"X", C, DK> X[ST];
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"dO", C, DV> dO[ST];
    typename B::template Tile<"H", DK, DV> H[ST];
    typename B::template Tile<"Tc", C, C> T[ST];
    typename B::template Tile<"dfinal", DK, DV> dfinal;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Gc", DK, DV> G;
    typename B::template Tile<"P", C, C> P;
    typename B::template Tile<"Wc", C, DV> W;
    typename B::template Tile<"Uc", C, DV> U;
    typename B::template Tile<"dUc", C, DV> dU;
    typename B::template Tile<"Fc", C, DV> F;
    typename B::template Tile<"dPc", C, C> dP;
    typename B::template Tile<"dLc", C, C> dL;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = head / a.group, part = head * a.blocks + block, v0 = block * DV;
    const int chunks = imax(1, ceil_div(a.len, C));
    const auto start = [&](auto zero, auto g) { return b.planted("final_cotangent_dropped"_s, g, zero); };
    const auto plus_scaled = [&](auto x, auto y) { return x + y * a.scale; };
    auto G = b.acc("G"_s, Shape<DK, DV>{});
    b.load(s.dfinal, a.final_cotangent, head, 0, v0);
    b.pipeline(
        Shape<ST>{}, chunks,
        [&](int i, int st) {
          const int j = chunks - 1 - i;
          b.load(s.Q[st], a.q, shared, j * C);
          b.load(s.X[st], a.x, shared, j * C);
          b.load(s.V[st], a.v, head, j * C, v0);
          b.load(s.dO[st], a.o_cotangent, head, j * C, v0);
          b.load(s.H[st], a.states, head, j * DK, v0);
          b.load(s.T[st], a.inverse, head, j * C);
        },
        [&](int i, int st) {
          const int j = chunks - 1 - i;
          auto beta = b.load_row("beta"_s, Shape<C>{}, a.beta, head, j * C);
          if (i == 0 || b.planted("adjoint_not_carried"_s, false, true)) G.zip("G"_s, start, s.dfinal);
          b.put(s.G, G);
          b.put(s.S, in_registers(b, "S"_s, s.H[st]));
          auto [E, R] = errors_and_cotangents(b, s, a, st, beta);
          b.store_row("dbeta"_s, a.dbeta, part, j * C, b.dot("dbeta"_s, E, R));
          E.map("dV"_s, times, beta);
          b.store("out"_s, a.dv, head, j * C, E, v0);
          E.map("F"_s, negative);
          b.put(s.F, E);
          gradients_of_keys(b, s, a, st, part, j * C);
          auto QdO = b.atb("QdO"_s, s.Q[st], s.dO[st]);
          G.zip("G"_s, plus_scaled, QdO);
          b.mma_atb(G, s.X[st], s.F);
        });
    b.store("initial"_s, a.initial_gradient, head, 0, G, v0);
  }

 private:
  /// The forward chunk again: E, and the errors R that dbeta takes. P and U are then on their tiles.
  template <class Ex, class Row>
  TILE_FN static auto errors_and_cotangents(Ex& b, Smem& s, const Args& a, int st, const Row& beta) {
    auto& X = s.X[st];
    auto L = b.abt("XX"_s, X, X);
    L.mask(strictly_lower, 0);
    auto P = b.abt("QX"_s, s.Q[st], X);
    P.mask(lower, 0);
    b.put(s.P, P);
    b.sync();
    auto R = b.ab("W"_s, X, s.S);
    R.zip("W"_s, taken_from, s.V[st]);
    auto W = R;
    W.map("W"_s, times, beta);
    b.put(s.W, W);
    auto dU = b.atb("dU"_s, s.P, s.dO[st]);
    dU.map("dU"_s, [&](auto x) { return x * a.scale; });
    b.mma(dU, X, s.G);
    b.put(s.dU, dU);
    b.sync();
    b.put(s.U, b.ab("U"_s, s.T[st], s.W));
    auto E = b.atb("E"_s, s.T[st], s.dU);
    b.sync();
    auto LU = b.acc("LU"_s, Shape<C, DV>{});
    b.mma(LU, b.cast("Lc"_s, L), s.U);
    R.zip("R"_s, minus, LU);
    if (b.planted("dbeta_of_value"_s, false, true)) R.zip("R"_s, copy, s.V[st]);
    return Two<decltype(E), decltype(R)>{E, R};
  }
  /// dQ, and dX through the scores, the system and the state.
  template <class Ex>
  TILE_FN static void gradients_of_keys(Ex& b, Smem& s, const Args& a, int st, int part, int row0) {
    auto& Q = s.Q[st];
    auto& dO = s.dO[st];
    auto& X = s.X[st];
    auto dP = b.abt("dP"_s, dO, s.U);
    dP.map("dP"_s, [&](auto x) { return x * a.scale; });
    dP.mask(lower, 0);
    b.put(s.dP, dP);
    b.sync();
    auto dL = b.abt("dL"_s, s.F, s.U);
    dL.map("dL"_s, [&](auto x) { return b.planted("solve_gradient_sign"_s, x, -x); });
    dL.mask(strictly_lower, 0);
    b.put(s.dL, dL);
    auto dQ = b.abt("dQ"_s, dO, s.S);
    dQ.map("dQ"_s, [&](auto x) { return x * b.planted("dq_unscaled"_s, a.scale, Real{1}); });
    b.mma(dQ, s.dP, X);
    b.store("part"_s, a.dq, part, row0, dQ);
    auto dX = b.abt("dX"_s, s.U, s.G);
    if (b.planted("dk_without_read"_s, true, false)) b.mma_abt(dX, s.F, s.S);
    b.mma_atb(dX, s.dP, Q);
    b.sync();
    b.mma(dX, s.dL, X);
    b.mma_atb(dX, s.dL, X);
    b.store("part"_s, a.dx, part, row0, dX);
  }
};

inline constexpr SiteTable::Init deltanet_site_list[] = {
    {"Q", Role::operand},        {"X", Role::operand},         {"V", Role::operand},
    {"dO", Role::operand},       {"Sc", Role::operand},        {"Tc", Role::operand},
    {"P", Role::operand},        {"Wc", Role::operand},        {"Uc", Role::operand},
    {"Gc", Role::operand},       {"dUc", Role::operand},       {"Lc", Role::operand},
    {"Fc", Role::operand},       {"dPc", Role::operand},       {"dLc", Role::operand},
    {"beta", Role::gate},        {"dbeta", Role::gate},        {"scale", Role::gate},
    {"S0", Role::accumulator},   {"H", Role::accumulator},     {"dfinal", Role::accumulator},
    {"XX", Role::accumulator},   {"A", Role::accumulator},     {"T", Role::accumulator},
    {"QX", Role::accumulator},   {"W", Role::accumulator},     {"U", Role::accumulator},
    {"O", Role::accumulator},    {"o", Role::accumulator},     {"S", Role::accumulator},
    {"G", Role::accumulator},    {"dU", Role::accumulator},    {"E", Role::accumulator},
    {"LU", Role::accumulator},   {"R", Role::accumulator},     {"dV", Role::accumulator},
    {"F", Role::accumulator},    {"dP", Role::accumulator},    {"dL", Role::accumulator},
    {"dQ", Role::accumulator},   {"dX", Role::accumulator},    {"QdO", Role::accumulator},
    {"part", Role::accumulator}, {"final", Role::accumulator}, {"initial", Role::accumulator},
    {"out", Role::output}};
inline constexpr SiteTable deltanet_sites{deltanet_site_list};

/// With the inverse by doubling.
inline constexpr SiteTable::Init deltanet_power_site_list[] = {{"Nc", Role::operand}, {"power", Role::accumulator}};
inline constexpr SiteTable deltanet_neumann_sites = deltanet_sites.with(deltanet_power_site_list);

}  // namespace assay::tile
