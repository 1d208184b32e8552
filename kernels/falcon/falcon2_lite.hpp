#pragma once
// FALCON-2-lite, chunkwise: the programs of kernels/programs/gated_delta.hpp with errors of the undecayed state, on the
// step sizes and decays of kernels/programs/falcon_gain.hpp. And the published form (falcon-family.md 4.3, Algorithms
// 10 and 11), the rule without decays on inputs renormalised by running products d of a chunk's decays: with S the
// state before it, s = eta / gamma, L = strict_lower(X X^T), P = lower(Q X^T) and T = (I + diag(s) L)^{-1}
//   R_i = V_i / d_{i-1} - (X S)_i,   U = T diag(s) R,   O_i = d_i (Q S + P U)_i,   S <- d_C (S + X^T U)
// Backward, last chunk first, G the cotangent of the state after the chunk:
//   G <- d_C G,   Y_i = d_i dO_i,   E = T^T (P^T Y + X G),   F = -diag(s) E,   N = strict_lower(F U^T),
//   M = lower(Y U^T),   dV_i = -F_i / d_{i-1},   ds = rowsum(E o (R - L U)),   deta = ds / gamma
//   dQ = Y S^T + M X,   dX = F S^T + U G^T + (N + N^T) X + M^T Q,   G <- G + Q^T Y + X^T F
//   dlog_gamma_r = sum_{i >= r} Y_i . (Q S + P U)_i - sum_{i > r} dV_i . V_i + <G, S + X^T U> - s_r ds_r
// where the last line's G is that of the first. Its sums cancel where decays are small: what is written after token
// r is in the first and the third and out again by the second, and does not depend on its decay.
#include "kernels/core/functions.hpp"
#include "kernels/programs/falcon_gain.hpp"
#include "kernels/programs/gated_delta.hpp"

namespace assay::tile {

inline constexpr SiteTable falcon2_lite_sites = gated_delta_sites.with(falcon_gain_site_list);

/// The inputs that both passes read.
template <ExecutorTypes B>
struct RenormalizedInputs {
  typename B::In q, x, v;
  typename B::RowIn eta, gamma;
  int len, group;
};

/// And what they share.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct RenormalizedRule {
  using Inputs = RenormalizedInputs<B>;
  struct Smem {
    typename B::template Tile<"A", C, C> A;
    typename B::template Tile<"Tc", C, C> T;
    typename B::template Tile<"Wc", C, DV> W;
    typename B::template Tile<"Uc", C, DV> U;
  };

  template <class Ex>
  TILE_FN static auto steps(Ex& b, const Inputs& a, int head, int row0) {
    const auto over_decay = [&](auto eta, auto decay) {
      return eta / b.planted("step_not_renormalized"_s, decay, decay * 0 + 1);
    };
    const auto decay = b.decays("decay"_s, Shape<C>{}, a.gamma, head, row0);
    return b.rows("eta"_s, over_decay, b.load_row("eta"_s, Shape<C>{}, a.eta, head, row0), decay);
  }
  /// d up to before a row.
  template <class Ex>
  TILE_FN static auto before(Ex& b, const Inputs& a, int head, int row0) {
    return b.decay_prefix("decay"_s, Shape<C>{}, a.gamma, head, row0, b.planted("values_over_own_decay"_s, 1, 0));
  }
  /// T and U on a tile of the state before the chunk, and R of it; V: a tile or registers. A barrier has to follow.
  template <class Ex, class Keys, class Values, class State>
  TILE_FN static auto put_writes(Ex& b, Smem& s, const Inputs& a, int head, int row0, Keys& X, Values& V, State& S) {
    const auto minus_read = [](auto read, auto v, auto d) { return v / d - read; };
    const auto step = steps(b, a, head, row0);
    auto A = b.abt("XX"_s, X, X);
    A.map("A"_s, times, step);
    A.mask(strictly_lower, 0);
    b.put(s.A, A);
    b.sync();
    b.unit_lower_inverse("T"_s, s.T, s.A);
    auto R = b.ab("W"_s, X, S);
    R.zip("W"_s, minus_read, V, before(b, a, head, row0));
    auto W = R;
    W.map("W"_s, times, step);
    b.put(s.W, W);
    b.sync();
    b.put(s.U, b.ab("U"_s, s.T, s.W));
    return R;
  }
};

/// One block per head and per DV value columns; `block` counts the latter.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct RenormalizedForward {
  using Rule = RenormalizedRule<B, C, DK, DV>;
  struct Args {
    RenormalizedInputs<B> in;
    typename B::In initial_state;
    typename B::Out o, final_state, states;  // before every chunk, DK rows each; no rows: not kept
  };
  struct Smem : Rule::Smem {
    typename B::template Tile<"Q", C, DK> Q[ST];
    typename B::template Tile<"K", C, DK> X[ST];
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"S0", DK, DV> S0;
    typename B::template Tile<"Sc", DK, DV> S;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const auto& in = a.in;
    const int shared = head / in.group, v0 = block * DV;
    const auto restored = [&](auto x, auto d) { return b.planted("state_left_renormalized"_s, x * d, x); };
    auto S = b.acc("S"_s, Shape<DK, DV>{});
    b.load(s.S0, a.initial_state, head, 0, v0);
    b.pipeline(
        Shape<ST>{}, imax(1, ceil_div(in.len, C)),
        [&](int j, int st) {
          b.load(s.Q[st], in.q, shared, j * C);
          b.load(s.X[st], in.x, shared, j * C);
          b.load(s.V[st], in.v, head, j * C, v0);
        },
        [&](int j, int st) {
          auto& Q = s.Q[st];
          auto& X = s.X[st];
          if (j == 0) S.zip("S"_s, copy, s.S0);
          b.store("H"_s, a.states, head, j * DK, S, v0);
          b.put(s.S, S);
          Rule::put_writes(b, s, in, head, j * C, X, s.V[st], s.S);
          auto P = b.abt("QX"_s, Q, X);
          P.mask([&](int r, int c) { return r >= c + b.planted("scores_exclude_self"_s, 0, 1); }, 0);
          auto O = b.ab("O"_s, Q, s.S);
          b.sync();
          b.mma(O, b.cast("P"_s, P), s.U);
          O.map("O"_s, times, b.decay_prefix("decay"_s, Shape<C>{}, in.gamma, head, j * C));
          b.store("out"_s, a.o, head, j * C, O, v0);
          b.mma_atb(S, X, s.U);
          S.map("S"_s, restored, b.decay_total("decay"_s, Shape<DK>{}, in.gamma, head, j * C, C));
        });
    b.store("final"_s, a.final_state, head, 0, S, v0);
  }
};

/// Cotangents in, gradients out; all but dv are this block's part, the value columns v0.. of its head.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct RenormalizedBackward {
  using Rule = RenormalizedRule<B, C, DK, DV>;
  struct Args {
    RenormalizedInputs<B> in;
    typename B::In states, o_cotangent, final_cotangent;
    typename B::Out dq, dx, dv, initial_gradient;
    typename B::RowOut deta, dlog_gamma;
    int blocks, key_parts;  // key_parts: of dx for each head, those of the blocks first
  };
  struct Smem : Rule::Smem {
    typename B::template Tile<"Q", C, DK> Q[ST];
    typename B::template Tile<"K", C, DK> X[ST];
    typename B::template Tile<"dO", C, DV> dO[ST];
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Gc", DK, DV> G;
    typename B::template Tile<"Yc", C, DV> Y;
    typename B::template Tile<"dUc", C, DV> dU;
    typename B::template Tile<"Fc", C, DV> F;
    typename B::template Tile<"P", C, C> P;
    typename B::template Tile<"Mc", C, C> M;  // N, then M
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const auto& in = a.in;
    const int shared = head / in.group, v0 = block * DV, chunks = imax(1, ceil_div(in.len, C));
    const auto start = [&](auto zero, auto g) { return b.planted("final_cotangent_dropped"_s, g, zero); };
    const auto carried = [&](auto g, auto d) { return b.planted("adjoint_not_renormalized"_s, g * d, g); };
    auto G = b.acc("G"_s, Shape<DK, DV>{});
    {
      auto final_cotangent = b.load_acc("dfinal"_s, Shape<DK, DV>{}, a.final_cotangent, head, 0, v0);
      G.zip("G"_s, start, final_cotangent);
    }
    b.pipeline(
        Shape<ST>{}, chunks,
        [&](int i, int st) {
          const int row0 = (chunks - 1 - i) * C;
          b.load(s.Q[st], in.q, shared, row0);
          b.load(s.X[st], in.x, shared, row0);
          b.load(s.dO[st], a.o_cotangent, head, row0, v0);
        },
        [&](int i, int st) {
          const int j = chunks - 1 - i, row0 = j * C;
          const Place at{head, head * a.blocks + block, v0, row0, st};
          auto V = b.load_acc("V"_s, Shape<C, DV>{}, in.v, head, row0, v0);
          auto S = b.load_acc("H"_s, Shape<DK, DV>{}, a.states, head, j * DK, v0);
          b.put(s.S, S);
          G.map("G"_s, carried, b.decay_total("decay"_s, Shape<DK>{}, in.gamma, head, row0, C));
          b.put(s.G, G);
          auto Y = b.acc("Y"_s, Shape<C, DV>{});
          Y.zip("Y"_s, copy_times, s.dO[st], b.decay_prefix("decay"_s, Shape<C>{}, in.gamma, head, row0));
          b.put(s.Y, Y);
          auto P = b.abt("QX"_s, s.Q[st], s.X[st]);
          P.mask(lower, 0);
          b.put(s.P, P);
          auto [E, R] = errors_and_cotangents(b, s, a, at, V);
          const auto step = Rule::steps(b, in, head, row0), ds = b.dot("dstep"_s, E, R);
          const auto of_values = gradients_of_values(b, s, a, at, V, E, step, ds);
          gradients_of_keys(b, s, a, at, head * a.key_parts + block);
          gradients_of_decays(b, s, a, at, S, G, Y, of_values, step, ds);
          b.mma_atb(G, s.Q[st], s.Y);
          b.mma_atb(G, s.X[st], s.F);
        });
    b.store("initial"_s, a.initial_gradient, head, 0, G, v0);
  }

 private:
  struct Place {
    int head, part, v0, row0, stage;
  };

  /// The errors of the forward pass, and their cotangents.
  template <class Ex, class Values>
  TILE_FN static auto errors_and_cotangents(Ex& b, Smem& s, const Args& a, const Place& at, Values& V) {
    auto& X = s.X[at.stage];
    auto R = Rule::put_writes(b, s, a.in, at.head, at.row0, X, V, s.S);
    auto dU = b.atb("dU"_s, s.P, s.Y);
    b.mma(dU, X, s.G);
    b.put(s.dU, dU);
    b.sync();
    auto E = b.planted("inverse_not_transposed"_s, true, false) ? b.atb("E"_s, s.T, s.dU) : b.ab("E"_s, s.T, s.dU);
    auto L = b.abt("XX"_s, X, X);
    L.mask(strictly_lower, 0);
    auto LU = b.acc("LU"_s, Shape<C, DV>{});
    b.mma(LU, b.cast("Lc"_s, L), s.U);
    if (b.planted("dstep_without_errors"_s, true, false)) R.zip("R"_s, minus, LU);
    return Two<decltype(E), decltype(R)>{E, R};
  }
  /// Those of the steps and of the values, whose terms of the decays it returns.
  template <class Ex, class Values, class Row>
  TILE_FN static auto gradients_of_values(Ex& b, Smem& s, const Args& a, const Place& at, Values& V, Values& E,
                                          const Row& step, const Row& ds) {
    const auto minus_over = [&](auto x, auto d) { return b.planted("dv_left_renormalized"_s, -x / d, -x); };
    const auto over_decay = [&](auto x, auto decay) { return b.planted("deta_left_renormalized"_s, x / decay, x); };
    b.store_row("dbeta"_s, a.deta, at.part, at.row0,
                b.rows("dstep"_s, over_decay, ds, b.decays("decay"_s, Shape<C>{}, a.in.gamma, at.head, at.row0)));
    E.map("F"_s, negative_times, step);
    b.put(s.F, E);
    E.map("dV"_s, minus_over, Rule::before(b, a.in, at.head, at.row0));
    b.store("out"_s, a.dv, at.head, at.row0, E, at.v0);
    const auto of_values = b.dot("from"_s, E, V);
    b.sync();
    return of_values;
  }
  /// Through the system, the scores and the state.
  template <class Ex>
  TILE_FN static void gradients_of_keys(Ex& b, Smem& s, const Args& a, const Place& at, int key_part) {
    auto& Q = s.Q[at.stage];
    auto& X = s.X[at.stage];
    auto N = b.abt("N"_s, s.F, s.U);
    N.mask(strictly_lower, 0);
    b.put(s.M, N);
    b.sync();
    auto dX = b.abt("dX"_s, s.F, s.S);
    b.mma_abt(dX, s.U, s.G);
    b.mma(dX, s.M, X);
    b.mma_atb(dX, s.M, X);
    auto M = b.abt("M"_s, s.Y, s.U);
    M.mask(lower, 0);
    b.sync();
    b.put(s.M, M);
    b.sync();
    b.mma_atb(dX, s.M, Q);
    b.store("part"_s, a.dx, key_part, at.row0, dX);
    auto dQ = b.abt("dQ"_s, s.Y, s.S);
    b.mma(dQ, s.M, X);
    b.store("part"_s, a.dq, at.part, at.row0, dQ);
  }
  /// Stores the gradients of the logs of decays, through the products of decays.
  template <class Ex, class State, class Values, class Row>
  TILE_FN static void gradients_of_decays(Ex& b, Smem& s, const Args& a, const Place& at, State& S, State& G, Values& Y,
                                          const Row& of_values, const Row& step, const Row& ds) {
    const auto sum = [&](auto read, auto values, auto state, auto eta, auto deta) {
      return b.planted("decay_of_reads_dropped"_s, read, read * 0) -
             b.planted("decay_of_values_dropped"_s, values, values * 0) +
             b.planted("decay_of_state_dropped"_s, state, state * 0) -
             b.planted("decay_of_step_dropped"_s, eta * deta, deta * 0);
    };
    auto O = b.ab("O"_s, s.Q[at.stage], s.S);
    b.mma(O, s.P, s.U);
    const auto of_reads = b.dot("from"_s, O, Y);
    auto last = b.acc("from"_s, Shape<DK, DV>{});  // the state after the chunk, renormalized
    last.zip("from"_s, copy, S);
    b.mma_atb(last, s.X[at.stage], s.U);
    const auto of_state = b.dot("from"_s, last, G);
    const auto in_state = b.gates_of_total("gates"_s, Shape<C>{}, of_state);
    const auto in_values = b.gates_of_prefix("gates"_s, of_values, 1);
    b.store_row("dlog_decay"_s, a.dlog_gamma, at.part, at.row0,
                b.rows("gates"_s, sum, b.gates_of_prefix("gates"_s, of_reads), in_values, in_state, step, ds));
  }
};

inline constexpr SiteTable::Init renormalized_site_list[] = {
    {"Q", Role::operand},          {"K", Role::operand},         {"V", Role::operand},
    {"dO", Role::operand},         {"Sc", Role::operand},        {"Gc", Role::operand},
    {"Tc", Role::operand},         {"P", Role::operand},         {"Wc", Role::operand},
    {"Uc", Role::operand},         {"Lc", Role::operand},        {"Yc", Role::operand},
    {"dUc", Role::operand},        {"Fc", Role::operand},        {"Mc", Role::operand},
    {"beta", Role::gate},          {"decay", Role::gate},        {"dstep", Role::gate},
    {"dbeta", Role::gate},         {"dlog_decay", Role::gate},   {"S0", Role::accumulator},
    {"H", Role::accumulator},      {"XX", Role::accumulator},    {"A", Role::accumulator},
    {"T", Role::accumulator},      {"QX", Role::accumulator},    {"W", Role::accumulator},
    {"U", Role::accumulator},      {"O", Role::accumulator},     {"S", Role::accumulator},
    {"dfinal", Role::accumulator}, {"G", Role::accumulator},     {"Y", Role::accumulator},
    {"dU", Role::accumulator},     {"E", Role::accumulator},     {"LU", Role::accumulator},
    {"R", Role::accumulator},      {"F", Role::accumulator},     {"dV", Role::accumulator},
    {"N", Role::accumulator},      {"M", Role::accumulator},     {"dX", Role::accumulator},
    {"dQ", Role::accumulator},     {"from", Role::accumulator},  {"gates", Role::accumulator},
    {"part", Role::accumulator},   {"final", Role::accumulator}, {"initial", Role::accumulator},
    {"out", Role::output}};
inline constexpr SiteTable renormalized_sites = SiteTable(renormalized_site_list).with(falcon_gain_site_list);

}  // namespace assay::tile
