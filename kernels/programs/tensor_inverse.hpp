#pragma once
// FALCON-3 as it was published (falcon-family.md 4.4, Algorithm 4): the rule without decays on what a chunk's running
// products d renormalise, d' the same up to before the token of a row: features A = (w / gamma) o X, and one inverse on
// two sides
//   C = I + mask o X A^T,   (W, U) = C^{-1} (-X, V / d'),   Z = U + W S
//   O = d o (Q S + lower(Q A^T) Z),   S <- d_C (S + A^T Z)
// Backward, G = d_C times the cotangent of the state after the chunk, dO' = d o dO, R = -X:
//   F = C^{-T} (lower(Q A^T)^T dO' + A G),   H = mask o F Z^T,   J = lower(dO' Z^T)
//   dR = F S^T + H A,   dA = H^T R + Z G^T + J^T Q,   dQ = dO' S^T + J A,   G <- G + Q^T dO' + R^T F
//   dX = (w / gamma) o dA - dR,   dw = dA . X / gamma,   dV = F / d'
//   dlog_gamma_t = sum_{l >= t} dO'_l . (O / d)_l - sum_{l > t} F_l . (V / d')_l + <G, S + A^T Z> - w / gamma dA_t .
//   X_t
#include "kernels/core/functions.hpp"
#include "kernels/programs/falcon_gain.hpp"
#include "kernels/programs/window_rows.hpp"

namespace assay::tile {

/// The shared parts of both passes: the chunk's system, its inverse applied to the features and to the values apart.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct TensorInverse {
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q[ST];
    typename B::template Tile<"K", C, DK> X[ST];
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"Ac", C, DK> A;
    typename B::template Tile<"Rc", C, DK> R;
    typename B::template Tile<"Vc", C, DV> Vd;
    typename B::template Tile<"N", C, C> N;
    typename B::template Tile<"Tc", C, C> T;
    typename B::template Tile<"Wc", C, DK> W;
    typename B::template Tile<"Zc", C, DV> Z;
  };
  struct Inputs {
    BatchInputs<B> in;
    typename B::RowIn decays;  // of a row's token
  };

  template <class Ex>
  TILE_FN static void load(Ex& b, Smem& s, const Inputs& a, int tile, int st, int head, int shared, int v0) {
    b.load(s.Q[st], a.in.q, shared, tile * C);
    b.load(s.X[st], a.in.x, head, tile * C);
    b.load(s.V[st], a.in.v, head, tile * C, v0);
  }
  template <class Ex>
  TILE_FN static auto steps(Ex& b, const Inputs& a, int head, int tile) {
    const auto over_decay = [&](auto weight, auto decay) {
      return weight != 0 ? weight / b.planted("step_not_renormalized"_s, decay, decay * 0 + 1) : weight;
    };
    const auto decay = b.load_row("weight"_s, Shape<C>{}, a.decays, head, tile * C);
    return b.rows("step"_s, over_decay, b.load_row("weight"_s, Shape<C>{}, a.in.weight, head, tile * C), decay);
  }
  /// Z on the tile of the state before the chunk. A barrier has to follow.
  template <class Ex, class State>
  TILE_FN static void put_errors(Ex& b, Smem& s, const Inputs& a, int tile, int st, int head, State& S) {
    const BatchRows& rows = a.in.rows;
    auto A = b.acc("A"_s, Shape<C, DK>{}), R = A;
    A.zip("A"_s, copy, s.X[st]);
    R.zip("A"_s, copy, s.X[st]);
    R.map("A"_s, negative);
    b.put(s.R, R);
    A.map("A"_s, times, steps(b, a, head, tile));
    b.put(s.A, A);
    auto V = in_registers(b, "Vd"_s, s.V[st]);
    V.map("Vd"_s, over, before(b, a, head, tile));
    b.put(s.Vd, V);
    b.sync();
    auto N = b.abt("N"_s, s.X[st], s.A);
    N.mask(
        [&](int r, int c) {
          const bool earlier = rows.token(c) < rows.token(r);
          return b.planted("ranks_of_a_token_interact"_s, earlier, c < r);
        },
        0);
    b.put(s.N, N);
    b.sync();
    b.unit_lower_inverse("T"_s, s.T, s.N);
    b.sync();
    b.put(s.W, b.ab("W"_s, s.T, s.R));
    auto Z = b.ab("U"_s, s.T, s.Vd);
    b.sync();
    b.mma(Z, s.W, S);
    b.put(s.Z, Z);
  }
  /// d', up to before a row's token.
  template <class Ex>
  TILE_FN static auto before(Ex& b, const Inputs& a, int head, int tile) {
    return b.decay_prefix("decay"_s, Shape<C>{}, a.in.gamma, head, tile * C,
                          b.planted("values_over_own_decay"_s, a.in.rows.ranks, 0));
  }
};

/// One block per head and per DV value columns; `block` counts the latter. Tiles are chunks: no window has two.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct TensorForward {
  using Rule = TensorInverse<B, C, DK, DV, ST>;
  struct Args {
    typename Rule::Inputs in;
    typename B::In initial_state;
    typename B::Out o, final_state, states;  // before every tile, DK rows each; no rows: not kept
  };
  struct Smem : Rule::Smem {
    typename B::template Tile<"S0", DK, DV> S0;
    typename B::template Tile<"Sc", DK, DV> S;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const auto& in = a.in.in;
    const int shared = head / in.group, v0 = block * DV;
    const auto restored = [&](auto x, auto d) { return b.planted("state_left_renormalized"_s, x * d, x); };
    auto S = b.acc("S"_s, Shape<DK, DV>{});
    b.load(s.S0, a.initial_state, head, 0, v0);
    b.pipeline(
        Shape<ST>{}, in.rows.tiles(), [&](int j, int st) { Rule::load(b, s, a.in, j, st, head, shared, v0); },
        [&](int j, int st) {
          if (j == 0) S.zip("S"_s, copy, s.S0);
          b.store("Sc"_s, a.states, head, j * DK, S, v0);
          b.put(s.S, S);
          Rule::put_errors(b, s, a.in, j, st, head, s.S);
          auto P = b.abt("QA"_s, s.Q[st], s.A);
          P.mask([&](int r, int c) { return r >= c + b.planted("read_before_write"_s, 0, in.rows.ranks); }, 0);
          auto O = b.ab("O"_s, s.Q[st], s.S);
          b.sync();
          b.mma(O, b.cast("Pc"_s, P), s.Z);
          O.map("O"_s, times, b.decay_prefix("decay"_s, Shape<C>{}, in.gamma, head, j * C));
          b.store("part"_s, a.o, head, j * C, O, v0);
          b.mma_atb(S, s.A, s.Z);
          S.map("S"_s, restored, b.decay_total("decay"_s, Shape<DK>{}, in.gamma, head, j * C, C));
        });
    b.store("final"_s, a.final_state, head, 0, S, v0);
  }
};

/// Cotangents in, gradients out; all but dv are this block's part, the value columns v0.. of its head. `dstep`: what
/// the gradient of a token's decay has from the steps of its rows.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct TensorBackward {
  using Rule = TensorInverse<B, C, DK, DV, ST>;
  struct Args {
    typename Rule::Inputs in;
    typename B::In states, o_cotangent, final_cotangent;
    typename B::Out dq, dx, dv, initial_gradient;
    typename B::RowOut dweight, dlog_gamma, dstep;
    int blocks;
  };
  struct Smem : Rule::Smem {
    typename B::template Tile<"Sc", DK, DV> S[ST];
    typename B::template Tile<"dO", C, DV> dO[ST];
    typename B::template Tile<"dfinal", DK, DV> dfinal;
    typename B::template Tile<"Gc", DK, DV> G;
    typename B::template Tile<"adOc", C, DV> adO;
    typename B::template Tile<"Pc", C, C> P;
    typename B::template Tile<"dZc", C, DV> dZ;
    typename B::template Tile<"Fc", C, DV> F;
    typename B::template Tile<"Hc", C, C> H;
    typename B::template Tile<"Hc", C, C> OZ;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const auto& in = a.in.in;
    const int shared = head / in.group, v0 = block * DV, tiles = in.rows.tiles();
    auto G = b.acc("G"_s, Shape<DK, DV>{});
    b.load(s.dfinal, a.final_cotangent, head, 0, v0);
    b.pipeline(
        Shape<ST>{}, tiles,
        [&](int i, int st) {
          const int j = tiles - 1 - i;
          Rule::load(b, s, a.in, j, st, head, shared, v0);
          b.load(s.dO[st], a.o_cotangent, head, j * C, v0);
          b.load(s.S[st], a.states, head, j * DK, v0);
        },
        [&](int i, int st) {
          const int j = tiles - 1 - i;
          const Place at{head, head * a.blocks + block, j, st, v0};
          if (i == 0) G.zip("G"_s, copy, s.dfinal);
          G.map("G"_s, times, b.decay_total("decay"_s, Shape<DK>{}, in.gamma, head, j * C, C));
          b.put(s.G, G);
          auto adO = in_registers(b, "adO"_s, s.dO[st]);
          adO.map("adO"_s, times, b.decay_prefix("decay"_s, Shape<C>{}, in.gamma, head, j * C));
          b.put(s.adO, adO);
          Rule::put_errors(b, s, a.in, j, st, head, s.S[st]);
          auto F = put_cotangents(b, s, in.rows, st);
          store_keys(b, s, a, at);
          store_decays(b, s, a, at, F, adO, G);
          F.map("F"_s, over_or_zero, Rule::before(b, a.in, head, j));
          b.store("part"_s, a.dv, head, j * C, F, v0);
          b.mma_atb(G, s.Q[st], s.adO);
          b.mma_atb(G, s.R, s.F);
        });
    b.store("initial"_s, a.initial_gradient, head, 0, G, v0);
  }

 private:
  struct Place {
    int head, part, tile, stage, v0;
  };

  /// lower(Q A^T), F and what they give the scores, H and J.
  template <class Ex>
  TILE_FN static auto put_cotangents(Ex& b, Smem& s, const BatchRows& rows, int st) {
    auto P = b.abt("QA"_s, s.Q[st], s.A);
    P.mask(lower, 0);
    b.put(s.P, P);
    b.sync();
    auto dZ = b.atb("dZ"_s, s.P, s.adO);
    b.mma(dZ, s.A, s.G);
    b.put(s.dZ, dZ);
    b.sync();
    const bool transposed = b.planted("inverse_not_transposed"_s, true, false);
    auto F = transposed ? b.atb("F"_s, s.T, s.dZ) : b.ab("F"_s, s.T, s.dZ);
    b.put(s.F, F);
    b.sync();
    auto H = b.abt("H"_s, s.F, s.Z);
    H.mask([&](int r, int c) { return rows.token(c) < rows.token(r); }, 0);
    b.put(s.H, H);
    auto OZ = b.abt("H"_s, s.adO, s.Z);
    OZ.mask(lower, 0);
    b.put(s.OZ, OZ);
    b.sync();
    return F;
  }
  /// dX, dw and dQ.
  template <class Ex>
  TILE_FN static void store_keys(Ex& b, Smem& s, const Args& a, const Place& at) {
    const auto taken = [&](auto ds, auto step) { return b.planted("decay_of_step_dropped"_s, -ds * step, step * 0); };
    const int row0 = at.tile * C;
    auto& Q = s.Q[at.stage];
    auto& S = s.S[at.stage];
    auto dA = b.abt("dA"_s, s.Z, s.G);
    b.mma_atb(dA, s.H, s.R);
    b.mma_atb(dA, s.OZ, Q);
    auto dR = b.abt("dA"_s, s.F, S);
    b.mma(dR, s.H, s.A);
    auto X = in_registers(b, "from"_s, s.X[at.stage]);
    const auto step = Rule::steps(b, a.in, at.head, at.tile), ds = b.dot("dweight"_s, dA, X);
    const auto decay = b.load_row("weight"_s, Shape<C>{}, a.in.decays, at.head, row0);
    b.store_row("dweight"_s, a.dweight, at.part, row0, b.rows("dweight"_s, over_or_zero, ds, decay));
    b.store_row("dlog_decay"_s, a.dstep, at.part, row0, b.rows("gates"_s, taken, ds, step));
    dA.map("dA"_s, times, step);
    dA.zip("dA"_s, minus, dR);
    b.store("part"_s, a.dx, at.part, row0, dA);
    auto dQ = b.abt("dQ"_s, s.adO, S);
    b.mma(dQ, s.OZ, s.A);
    b.store("part"_s, a.dq, at.part, row0, dQ);
  }
  template <class Ex, class Values, class State>
  TILE_FN static void store_decays(Ex& b, Smem& s, const Args& a, const Place& at, const Values& F, const Values& adO,
                                   const State& G) {
    const auto du_of = [&](auto read, auto values, auto state) {
      return read - b.planted("decay_of_values_dropped"_s, values, values * 0) +
             b.planted("decay_of_state_dropped"_s, state, state * 0);
    };
    auto& S = s.S[at.stage];
    auto O = b.ab("O"_s, s.Q[at.stage], S);
    b.mma(O, s.P, s.Z);
    auto V = in_registers(b, "from"_s, s.Vd);
    auto last = in_registers(b, "from"_s, S);  // the state after the chunk, renormalized
    b.mma_atb(last, s.A, s.Z);
    const auto of_read = b.dot("from"_s, O, adO), of_values = b.dot("from"_s, F, V);
    const auto of_state = b.dot("from"_s, last, G);
    const auto in_state = b.gates_of_total("gates"_s, Shape<C>{}, of_state);
    const auto in_values = b.gates_of_prefix("gates"_s, of_values, a.in.in.rows.ranks);
    b.store_row("dlog_decay"_s, a.dlog_gamma, at.part, at.tile * C,
                b.rows("gates"_s, du_of, b.gates_of_prefix("gates"_s, of_read), in_values, in_state));
  }
};

inline constexpr SiteTable::Init tensor_inverse_site_list[] = {
    {"Q", Role::operand},         {"K", Role::operand},           {"V", Role::operand},
    {"dO", Role::operand},        {"Sc", Role::operand},          {"Gc", Role::operand},
    {"Ac", Role::operand},        {"Rc", Role::operand},          {"Vc", Role::operand},
    {"Tc", Role::operand},        {"Wc", Role::operand},          {"Zc", Role::operand},
    {"Pc", Role::operand},        {"adOc", Role::operand},        {"dZc", Role::operand},
    {"Fc", Role::operand},        {"Hc", Role::operand},          {"beta", Role::gate},
    {"weight", Role::gate},       {"decay", Role::gate},          {"step", Role::gate},
    {"dbeta", Role::gate},        {"dweight", Role::gate},        {"dlog_decay", Role::gate},
    {"A", Role::accumulator},     {"Vd", Role::accumulator},      {"N", Role::accumulator},
    {"T", Role::accumulator},     {"W", Role::accumulator},       {"U", Role::accumulator},
    {"QA", Role::accumulator},    {"O", Role::accumulator},       {"S0", Role::accumulator},
    {"S", Role::accumulator},     {"G", Role::accumulator},       {"dfinal", Role::accumulator},
    {"adO", Role::accumulator},   {"dZ", Role::accumulator},      {"F", Role::accumulator},
    {"H", Role::accumulator},     {"dA", Role::accumulator},      {"dQ", Role::accumulator},
    {"from", Role::accumulator},  {"gates", Role::accumulator},   {"part", Role::accumulator},
    {"final", Role::accumulator}, {"initial", Role::accumulator}, {"out", Role::output}};
inline constexpr SiteTable tensor_inverse_sites = SiteTable(tensor_inverse_site_list).with(falcon_gain_site_list);

}  // namespace assay::tile
