#pragma once
// FALCON-2-lite, chunkwise: the programs of kernels/core/gated_delta.hpp with errors of the undecayed state, on the
// step sizes and decays of kernels/core/falcon_gain.hpp. And the published form (falcon-family.md 4.3, Algorithm 10),
// the rule without decays on inputs renormalised by running products d of a chunk's decays: with S the state before it
//   A = diag(eta / gamma) strict_lower(X X^T),   U = (I + A)^{-1} diag(eta / gamma) (V_i / d_{i-1} - X S)
//   O_i = d_i (Q S + lower(Q X^T) U)_i,   S <- d_C (S + X^T U)
#include "kernels/core/falcon_gain.hpp"
#include "kernels/core/gated_delta.hpp"

namespace assay::tile {

inline constexpr SiteTable falcon2_lite_sites = gated_delta_sites.with(falcon_gain_site_list);

/// One block per head and per DV value columns; `block` counts the latter.
template <ExecutorTypes B, int C, int DK, int DV, int ST>
struct RenormalizedForward {
  struct Args {
    typename B::In q, x, v;
    typename B::RowIn eta, gamma;
    typename B::In initial_state;
    typename B::Out o, final_state;
    int len, group;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q[ST];
    typename B::template Tile<"K", C, DK> X[ST];
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"S0", DK, DV> S0;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"A", C, C> A;
    typename B::template Tile<"Tc", C, C> T;
    typename B::template Tile<"Wc", C, DV> W;
    typename B::template Tile<"Uc", C, DV> U;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = head / a.group, v0 = block * DV;
    const auto copy = [](auto, auto x) { return x; };
    const auto times = [](auto x, auto y) { return x * y; };
    const auto over = [](auto x, auto y) { return x / y; };
    const auto minus_read = [](auto read, auto v, auto d) { return v / d - read; };
    auto S = b.acc("S"_s, Shape<DK, DV>{});
    b.load(s.S0, a.initial_state, head, 0, v0);
    b.pipeline(
        Shape<ST>{}, imax(1, ceil_div(a.len, C)),
        [&](int j, int st) {
          b.load(s.Q[st], a.q, shared, j * C);
          b.load(s.X[st], a.x, shared, j * C);
          b.load(s.V[st], a.v, head, j * C, v0);
        },
        [&](int j, int st) {
          auto& Q = s.Q[st];
          auto& X = s.X[st];
          const auto step = b.rows("eta"_s, over, b.load_row("eta"_s, Shape<C>{}, a.eta, head, j * C),
                                   b.decays("decay"_s, Shape<C>{}, a.gamma, head, j * C));
          if (j == 0) S.zip("S"_s, copy, s.S0);
          b.put(s.S, S);
          auto A = b.abt("XX"_s, X, X);
          A.map("A"_s, times, step);
          A.mask([](int r, int c) { return r > c; }, 0);
          b.put(s.A, A);
          b.sync();
          b.unit_lower_inverse("T"_s, s.T, s.A);
          auto W = b.ab("W"_s, X, s.S);
          W.zip("W"_s, minus_read, s.V[st], b.decay_prefix("decay"_s, Shape<C>{}, a.gamma, head, j * C, 1));
          W.map("W"_s, times, step);
          b.put(s.W, W);
          b.sync();
          b.put(s.U, b.ab("U"_s, s.T, s.W));
          auto P = b.abt("QX"_s, Q, X);
          P.mask([](int r, int c) { return r >= c; }, 0);
          auto O = b.ab("O"_s, Q, s.S);
          b.sync();
          b.mma(O, b.cast("P"_s, P), s.U);
          O.map("O"_s, times, b.decay_prefix("decay"_s, Shape<C>{}, a.gamma, head, j * C));
          b.store("out"_s, a.o, head, j * C, O, v0);
          b.mma_atb(S, X, s.U);
          S.map("S"_s, times, b.decay_total("decay"_s, Shape<DK>{}, a.gamma, head, j * C, C));
        });
    b.store("final"_s, a.final_state, head, 0, S, v0);
  }
};

inline constexpr SiteTable::Init renormalized_site_list[] = {
    {"Q", Role::operand},     {"K", Role::operand},     {"V", Role::operand},      {"Sc", Role::operand},
    {"Tc", Role::operand},    {"P", Role::operand},     {"Wc", Role::operand},     {"Uc", Role::operand},
    {"beta", Role::gate},     {"decay", Role::gate},    {"S0", Role::accumulator}, {"XX", Role::accumulator},
    {"A", Role::accumulator}, {"T", Role::accumulator}, {"QX", Role::accumulator}, {"W", Role::accumulator},
    {"U", Role::accumulator}, {"O", Role::accumulator}, {"S", Role::accumulator},  {"final", Role::accumulator},
    {"out", Role::output}};
inline constexpr SiteTable renormalized_sites = SiteTable(renormalized_site_list).with(falcon_gain_site_list);

}  // namespace assay::tile
