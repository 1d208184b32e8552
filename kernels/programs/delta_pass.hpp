#pragma once
// The passes of a delta rule along the sequence, when all that does not depend on the state is made before (and what
// nothing later depends on, after) for all chunks at once: the keys that read the state X, those that write it Z, the
// inverse T of every chunk's triangular system, the total decays a_C of every channel. S the state before a chunk,
//   U = T diag(beta) (V - X S),   S <- a_C S + Z^T U
// Backward, last chunk first, G the cotangent of the state after the chunk, dU0 and W what its own reads give the
// cotangents of U and of the state before it (the adjoint of the outputs),
//   dU = dU0 + Z G,   E = T^T dU,   F = -diag(beta) E,   G <- a_C G + W + X^T F
// Blocks are DV columns of the values of a head. States lie in memory as operands: DK rows for each chunk.
#include "kernels/core/functions.hpp"
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// The inverses of the systems lie in memory as C rows for each chunk.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct DeltaPass {
  struct Args {
    typename B::In reads, writes, v, inverse, start;
    typename B::RowIn beta, totals;
    typename B::Out u, states, end;
    int len;
  };
  struct Smem {
    typename B::template Tile<"Xc", C, DK> X[ST];
    typename B::template Tile<"Zc", C, DK> Z[ST];
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"Tc", C, C> T[ST];
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Wc", C, DV> W;
    typename B::template Tile<"U", C, DV> U;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunks = imax(1, ceil_div(a.len, C)), v0 = block * DV;
    const auto start = [&](auto zero, auto x) { return b.planted("initial_state_ignored"_s, x, zero); };
    auto S = b.acc("S"_s, Shape<DK, DV>{});
    b.pipeline(
        Shape<ST>{}, chunks,
        [&](int j, int st) {
          b.load(s.X[st], a.reads, head, j * C);
          b.load(s.Z[st], a.writes, head, j * C);
          b.load(s.V[st], a.v, head, j * C, v0);
          b.load(s.T[st], a.inverse, head, j * C);
        },
        [&](int j, int st) {
          const auto beta = b.load_row("beta"_s, Shape<C>{}, a.beta, head, j * C);
          const auto total = b.load_row("decay"_s, Shape<DK>{}, a.totals, head, j * DK);
          if (j == 0 || b.planted("state_not_carried"_s, false, true)) {
            auto S0 = b.load_acc("S0"_s, Shape<DK, DV>{}, a.start, head, 0, v0);
            S.zip("S"_s, start, S0);
          }
          b.put(s.S, S);
          b.store("Sc"_s, a.states, head, j * DK, S, v0);
          b.sync();
          auto W = b.ab("W"_s, s.X[st], s.S);
          W.zip("W"_s, taken_from, s.V[st]);
          W.map("W"_s, times, beta);
          b.put(s.W, W);
          b.sync();
          auto U = b.ab("R"_s, s.T[st], s.W);
          U.map("U"_s, same);  // rounded once for those who read it here and there
          b.store("U"_s, a.u, head, j * C, U, v0);
          b.put(s.U, U);
          b.sync();
          S.map("S"_s, times, total);
          b.mma_atb(S, s.Z[st], s.U);
        });
    b.store("end"_s, a.end, head, 0, S, v0);
  }
};

template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct DeltaAdjointPass {
  struct Args {
    typename B::In reads, writes, du, updates, inverse, start;
    typename B::RowIn beta, totals;
    typename B::Out errors, adjoints, end;
    int len;
  };
  struct Smem {
    typename B::template Tile<"Xc", C, DK> X[ST];
    typename B::template Tile<"Zc", C, DK> Z[ST];
    typename B::template Tile<"dU", C, DV> dU0[ST];
    typename B::template Tile<"dGc", DK, DV> dG[ST];
    typename B::template Tile<"Tc", C, C> T[ST];
    typename B::template Tile<"Sc", DK, DV> G;
    typename B::template Tile<"dUc", C, DV> dU;
    typename B::template Tile<"Fc", C, DV> F;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunks = imax(1, ceil_div(a.len, C)), v0 = block * DV;
    const auto start = [&](auto zero, auto x) { return b.planted("final_cotangent_dropped"_s, x, zero); };
    const auto carried = [&](auto x, auto decay) { return b.planted("adjoint_not_decayed"_s, x * decay, x); };
    auto G = b.acc("S"_s, Shape<DK, DV>{});
    b.pipeline(
        Shape<ST>{}, chunks,
        [&](int i, int st) {
          const int j = chunks - 1 - i;
          b.load(s.X[st], a.reads, head, j * C);
          b.load(s.Z[st], a.writes, head, j * C);
          b.load(s.dU0[st], a.du, head, j * C, v0);
          b.load(s.dG[st], a.updates, head, j * DK, v0);
          b.load(s.T[st], a.inverse, head, j * C);
        },
        [&](int i, int st) {
          const int j = chunks - 1 - i;
          const auto beta = b.load_row("beta"_s, Shape<C>{}, a.beta, head, j * C);
          const auto total = b.load_row("decay"_s, Shape<DK>{}, a.totals, head, j * DK);
          if (i == 0 || b.planted("adjoint_not_carried"_s, false, true)) {
            auto G0 = b.load_acc("S0"_s, Shape<DK, DV>{}, a.start, head, 0, v0);
            G.zip("S"_s, start, G0);
          }
          b.put(s.G, G);
          b.store("Sc"_s, a.adjoints, head, j * DK, G, v0);
          b.sync();
          auto dU = b.ab("dU"_s, s.Z[st], s.G);
          dU.zip("dU"_s, plus, s.dU0[st]);
          b.put(s.dU, dU);
          b.sync();
          auto E = b.atb("E"_s, s.T[st], s.dU);
          b.store("E"_s, a.errors, head, j * C, E, v0);
          E.map("X"_s, negative_times, beta);
          b.put(s.F, E);
          b.sync();
          G.map("S"_s, carried, total);
          G.zip("S"_s, plus, s.dG[st]);
          b.mma_atb(G, s.X[st], s.F);
        });
    b.store("end"_s, a.end, head, 0, G, v0);
  }
};

inline constexpr SiteTable::Init delta_pass_site_list[] = {
    {"Xc", Role::operand},    {"Zc", Role::operand},   {"Tc", Role::operand}, {"Wc", Role::operand},
    {"dUc", Role::operand},   {"Fc", Role::operand},   {"beta", Role::gate},  {"dbeta", Role::gate},
    {"R", Role::accumulator}, {"E", Role::accumulator}};

}  // namespace assay::tile
