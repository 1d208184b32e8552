#pragma once
// FALCON-3, chunkwise in forward ratios of decays (falcon-family.md 4.6). The pairs (x_j, v_j) of a head lie in a row,
// and token t writes those of its window, of which there are B_t, with what is left of them before it:
//   S_t = gamma_t S_{t-1} + w_t sum_{j in I_t} x_j (v_j - S_{t-1}^T x_j)^T,   w_t = eta_t / B_t
// A token has a row of a tile for every pair, so that a tile is a chunk of tokens, or, where windows are longer than a
// tile, a part of a window. Rows of one token do not see each other. In a tile, with the state S before its first
// token, running products of gamma, tau the token of a row, R = prod_{tau(j) < l <= tau(i)} gamma_l, R' the same up to
// before tau(i), a and a' those from the first token on, z_j = prod_{l > tau(j)} gamma_l:
//   N_ij = x_i.x_j R'_ij (tau(j) < tau(i)),   M_ij = q_i.x_j R_ij (tau(j) <= tau(i)),   W = V - a' o X S
//   Z = (I + N diag(w))^{-1} W,   Y = w o Z,   O = a o Q S + M Y,   S <- a_C S + X^T (z o Y)
// where q_i is the query in the last row of a token and 0 in others. Parts of a window read the same S and add up.
// Backward, G the cotangent of the state after the tile (of parts, after their token):
//   dY = z o X G + M^T dO,   dW = (I + N diag(w))^{-T} (w o dY),   dw = (dY - N^T dW) . Z,   dV = dW,   P = -a' o dW
//   dN_ij = -dW_i.Y_j,   dM_ij = dO_i.Y_j,   dQ = a o dO S^T + (dM o R) X
//   dX = P S^T + (z o Y) G^T + (E + E^T) X + (dM o R)^T Q,   E = dN o R'
//   G <- a_C G + Q^T (a o dO) + X^T P
// and each term is a term of the gradient of the log of every gamma in its product, none is divided by. One pass over
// the tiles has Z and S, another, back, dY, dW and G; all else is done for all tiles at once. Steps and decays are
// those of kernels/programs/falcon_gain.hpp with the mean of |x_j|^2 over the window for the energy.
// The published form is in kernels/programs/tensor_inverse.hpp.
#include "kernels/core/functions.hpp"
#include "kernels/programs/falcon_gain.hpp"
#include "kernels/programs/window_rows.hpp"

namespace assay::tile {

/// Weights, decays, mean energies and sizes of the windows. Blocks are chunks of C tokens.
template <ExecutorTypes B, Size C, Size DK, int ST>
struct BatchGain {
  using Real = typename B::Real;
  struct Args {
    typename B::In x;
    typename B::RowIn beta, lambda, active;
    typename B::RowOut weight, gamma, energy, size;
    Real eps, floor;  // no floor: 0
    Coupling coupling;
    Windows windows;
    int len;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> X[ST];
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    using W = Windowed<B, C>;
    using Gain = FalconGain<B, C, DK>;
    const int row0 = chunk * C;
    const auto tiles = W::tiles_of(a.windows, row0, a.len);
    const auto one = [](auto x) { return x * 0 + 1; };
    const auto weight_of = [&](auto eta, auto size) {
      const Real full = static_cast<Real>(a.windows.window);
      return size != 0 ? eta / b.planted("mean_over_full_window"_s, size, full > 0 ? full : size) : size;
    };
    const auto gamma_of = [&](auto eta, auto ridge) {
      const auto gamma = 1 - eta * ridge;
      return a.floor > 0 && gamma <= a.floor ? b.planted("floor_forgotten"_s, a.floor, Real(gamma)) : Real(gamma);
    };
    auto energy = b.row("energy"_s, Shape<C>{}, 0), size = energy;
    b.pipeline(
        Shape<ST>{}, tiles.count, [&](int j, int st) { b.load(s.X[st], a.x, head, (tiles.first + j) * C); },
        [&](int j, int st) {
          const int pair0 = (tiles.first + j) * C;
          const auto of_pairs = b.dot("energy"_s, s.X[st], s.X[st]);
          energy = b.rows("energy"_s, plus, energy, W::over_windows(b, "energy"_s, a.windows, row0, pair0, of_pairs));
          const auto all = b.rows("energy"_s, one, of_pairs);
          size = b.rows("energy"_s, plus, size, W::over_windows(b, "energy"_s, a.windows, row0, pair0, all));
        });
    energy = b.rows("energy"_s, over_or_zero, energy, size);
    const auto ridge = Gain::ridge_of(b, a, head, chunk, energy), den = Gain::denominator(b, a, energy, ridge);
    const auto active = b.load_row("beta"_s, Shape<C>{}, a.active, head, row0);
    const auto eta = b.rows("eta"_s, over_where_on, b.load_row("beta"_s, Shape<C>{}, a.beta, head, row0), den, active);
    b.store_row("weight"_s, a.weight, head, row0, b.rows("weight"_s, weight_of, eta, size));
    b.store_row("gamma"_s, a.gamma, head, row0, b.rows("gamma"_s, gamma_of, eta, ridge));
    b.store_row("energy"_s, a.energy, head, row0, energy);
    b.store_row("energy"_s, a.size, head, row0, size);
  }
};

/// Gradients of beta and lambda, and what every pair of a row's window adds to its own gradient, over x: 2 dE / B_t.
/// Blocks are chunks of C tokens.
template <ExecutorTypes B, Size C, Size DK>
struct BatchGainBackward {
  using Real = typename B::Real;
  struct Args {
    typename B::RowIn beta, lambda, active, energy, size, dweight, dlog_gamma;
    typename B::RowOut dbeta, dlambda, slope;
    Real eps, floor;
    Coupling coupling;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int chunk) {
    using Gain = FalconGain<B, C, DK>;
    const auto load = [&](auto site, const auto& in) { return b.load_row(site, Shape<C>{}, in, head, chunk * C); };
    const auto dalpha_of = [&](auto dlog_gamma, auto eta, auto ridge) {
      const auto gamma = 1 - eta * ridge;
      const bool held = b.planted("floor_passes_gradient"_s, a.floor > 0 && gamma <= a.floor, false);
      return held ? gamma * 0 : -dlog_gamma / gamma;
    };
    const auto step_of = [](auto deta, auto ridge, auto dalpha, auto on) {
      return on != 0 ? deta + ridge * dalpha : deta * 0;
    };
    const auto dridge_of = [](auto eta, auto dalpha, auto dden) { return eta * dalpha + dden; };
    const auto dlambda_of = [&](auto dridge, auto e) { return a.coupling == Coupling::raw ? dridge : dridge * e; };
    const auto denergy_of = [&](auto dden, auto dridge, auto lambda) {
      const bool live =
          b.planted("detached_ridge_stays_live"_s, a.coupling == Coupling::live, a.coupling != Coupling::raw);
      return live ? dden + lambda * dridge : dden;
    };
    const auto slope_of = [&](auto de, auto size) {
      return size != 0 ? b.planted("energy_is_constant"_s, Real(2), Real(0)) * de / size : size;
    };
    const auto on = load("beta"_s, a.active), energy = load("energy"_s, a.energy), size = load("energy"_s, a.size);
    const auto ridge = Gain::ridge_of(b, a, head, chunk, energy), den = Gain::denominator(b, a, energy, ridge);
    const auto eta = b.rows("eta"_s, over_where_on, load("beta"_s, a.beta), den, on);
    const auto deta = b.rows("dgain"_s, over_or_zero, load("dweight"_s, a.dweight), size);
    const auto dalpha = b.rows("dgain"_s, dalpha_of, load("dlog_decay"_s, a.dlog_gamma), eta, ridge);
    const auto step = b.rows("dgain"_s, step_of, deta, ridge, dalpha, on);
    const auto dbeta = b.rows("dgain"_s, over_or_zero, step, den);
    const auto dden = b.rows("dgain"_s, negative_times, dbeta, eta);
    const auto dridge = b.rows("dgain"_s, dridge_of, eta, dalpha, dden);
    const auto de = b.rows("dgain"_s, denergy_of, dden, dridge, load("lambda"_s, a.lambda));
    b.store_row("dbeta"_s, a.dbeta, head, chunk * C, dbeta);
    b.store_row("dbeta"_s, a.dlambda, head, chunk * C, b.rows("dgain"_s, dlambda_of, dridge, energy));
    b.store_row("dgain"_s, a.slope, head, chunk * C, b.rows("dgain"_s, slope_of, de, size));
  }
};

/// The system of every tile: T, and running products of its decays up to a row's read, up to before its residual, from
/// its write to the end, and of all.
template <ExecutorTypes B>
struct BatchSystems {
  typename B::In inverse;
  typename B::RowIn to_row, to_error, to_end, totals;
};

/// N without the weights.
template <ExecutorTypes B, Size C, Size DK>
struct BatchErrors {
  template <class Ex, class X>
  TILE_FN static auto of(Ex& b, const BatchRows& rows, X& x) {
    auto N = b.abt("KK"_s, x, x);
    N.mask(
        [&](int r, int c) {
          const bool earlier = rows.token(c) < rows.token(r);
          return b.planted("residuals_in_turn"_s, earlier, c < r);
        },
        0);
    return N;
  }
};

/// The systems: one block per tile. Tiles of one token have none.
template <ExecutorTypes B, Size C, Size DK>
struct BatchSystem {
  struct Args {
    BatchInputs<B> in;
    typename B::Out inverse;
    typename B::RowOut to_row, to_error, to_end, totals;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> X;
    typename B::template Tile<"D", C, C> before;  // R'
    typename B::template Tile<"N", C, C> N;       // N diag(w)
    typename B::template Tile<"Tc", C, C> T;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int tile) {
    const BatchRows& rows = a.in.rows;
    const auto& gamma = a.in.gamma;
    const int row0 = tile * C, n = rows.tokens_of(tile);
    if (!rows.used(tile)) return;
    b.pipeline(
        Shape<2>{}, 1, [&](int, int) { b.load(s.X, a.in.x, head, row0); },
        [&](int, int) {
          // The first of the parts of a window reads for all.
          b.store_row("decay"_s, a.to_row, head, row0,
                      rows.leads(tile) ? b.decay_prefix("decay"_s, Shape<C>{}, gamma, head, row0)
                                       : b.row("decay"_s, Shape<C>{}, 0));
          b.store_row("decay"_s, a.to_error, head, row0,
                      b.decay_prefix("decay"_s, Shape<C>{}, gamma, head, row0,
                                     b.planted("error_of_decayed_state"_s, rows.ranks, 0)));
          b.store_row("decay"_s, a.to_end, head, row0, b.decay_suffix("decay"_s, Shape<C>{}, gamma, head, row0));
          const int count = b.planted("tail_decay"_s, C, n < rows.tokens ? (n - 1) * rows.ranks : int{C});
          b.store_row("decay"_s, a.totals, head, tile * DK,
                      b.decay_total("decay"_s, Shape<DK>{}, gamma, head, row0, count));
          if (rows.tokens == 1) return;
          b.decay_ratios("decay"_s, s.before, gamma, head, row0, rows.ranks);
          b.sync();
          auto N = BatchErrors<B, C, DK>::of(b, rows, s.X);
          N.zip("N"_s, times, s.before);
          N.map("N"_s, times, b.load_col("weight"_s, Shape<1, C>{}, a.in.weight, head, row0));
          b.put(s.N, N);
          b.sync();
          b.unit_lower_inverse("T"_s, s.T, s.N);
          b.sync();
          auto T = in_registers(b, "T"_s, s.T);
          b.store("Tc"_s, a.inverse, head, row0, T);
        });
  }
};

/// Z of all tiles and the state before every group of tokens, all that is serial: one block per head and per DV value
/// columns, which `block` counts.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct BatchStates {
  struct Args {
    BatchInputs<B> in;
    BatchSystems<B> systems;
    typename B::In initial_state;
    typename B::Out z, states, final_state;  // states: DK rows for every group
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> X[ST];
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"Tc", C, C> T[ST];
    typename B::template Tile<"S0", DK, DV> S0;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Wc", C, DV> W;
    typename B::template Tile<"Yc", C, DV> zY;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const BatchRows& rows = a.in.rows;
    const int v0 = block * DV;
    const bool alone = rows.tokens == 1;
    const auto start = [&](auto zero, auto s0) { return b.planted("initial_state_ignored"_s, s0, zero); };
    auto S = b.acc("S"_s, Shape<DK, DV>{});
    b.load(s.S0, a.initial_state, head, 0, v0);
    b.pipeline(
        Shape<ST>{}, rows.tiles(),
        [&](int j, int st) {
          b.load(s.X[st], a.in.x, head, j * C);
          b.load(s.V[st], a.in.v, head, j * C, v0);
          if (!alone) b.load(s.T[st], a.systems.inverse, head, j * C);
        },
        [&](int j, int st) {
          if (!rows.used(j)) return;
          const int row0 = j * C;
          const auto to_error = b.load_row("decay"_s, Shape<C>{}, a.systems.to_error, head, row0);
          const auto to_end = b.load_row("decay"_s, Shape<C>{}, a.systems.to_end, head, row0);
          const auto weight = b.load_row("weight"_s, Shape<C>{}, a.in.weight, head, row0);
          if (rows.leads(j)) {
            const auto total = b.load_row("decay"_s, Shape<DK>{}, a.systems.totals, head, j * DK);
            if (j == 0 || b.planted("state_not_carried"_s, false, true)) S.zip("S"_s, start, s.S0);
            b.store("Sc"_s, a.states, head, rows.group(j) * DK, S, v0);
            b.put(s.S, S);
            S.map("S"_s, times, total);
          }
          b.sync();
          auto Z = b.ab("W"_s, s.X[st], s.S);
          Z.map("W"_s, times, to_error);
          Z.zip("W"_s, taken_from, s.V[st]);
          if (!alone) {
            b.put(s.W, Z);
            b.sync();
            Z = b.ab("Z"_s, s.T[st], s.W);
          }
          b.store("Z"_s, a.z, head, row0, Z, v0);
          Z.map("Y"_s, times, weight);
          Z.map("Y"_s, times, to_end);
          b.put(s.zY, Z);
          b.sync();
          b.mma_atb(S, s.X[st], s.zY);
        });
    b.store("final"_s, a.final_state, head, 0, S, v0);
  }
};

/// Outputs from the states and Z: one block per tile and DV value columns.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct BatchOutputs {
  struct Args {
    BatchInputs<B> in;
    BatchSystems<B> systems;
    typename B::In z, states;
    typename B::Out o;
    int blocks;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> X;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Yc", C, DV> Y;
    typename B::template Tile<"D", C, C> D;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const BatchRows& rows = a.in.rows;
    const int shared = b.planted("head_modulo"_s, head / a.in.group, head % a.in.shared_heads);
    const int tile = block / a.blocks, row0 = tile * C, v0 = block % a.blocks * DV;
    if (!rows.used(tile)) return;
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.in.q, shared, row0);
          b.load(s.X, a.in.x, head, row0);
          b.load(s.S, a.states, head, rows.group(tile) * DK, v0);
        },
        [&](int, int) {
          auto Y = b.load_acc("Z"_s, Shape<C, DV>{}, a.z, head, row0, v0);
          Y.map("Y"_s, times, b.load_row("weight"_s, Shape<C>{}, a.in.weight, head, row0));
          b.put(s.Y, Y);
          b.decay_ratios("decay"_s, s.D, a.in.gamma, head, row0, b.planted("decay_index_of_scores"_s, 0, rows.ranks));
          b.sync();
          auto M = b.abt("QK"_s, s.Q, s.X);
          M.mask([&](int r, int c) { return r >= c + b.planted("scores_exclude_self"_s, 0, 1); }, 0);
          M.zip("M"_s, times, s.D);
          auto O = b.ab("O"_s, s.Q, s.S);
          O.map("O"_s, times, b.load_row("decay"_s, Shape<C>{}, a.systems.to_row, head, row0));
          b.mma(O, b.cast("Pc"_s, M), s.Y);
          b.store("part"_s, a.o, head, row0, O, v0);
        });
  }
};

/// Cotangents of a tile's writes, from those of its outputs: one block per tile and DV value columns.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct BatchReads {
  struct Args {
    BatchInputs<B> in;
    typename B::In o_cotangent;
    typename B::Out reads;
    int blocks;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> X;
    typename B::template Tile<"dO", C, DV> dO;
    typename B::template Tile<"D", C, C> D;
    typename B::template Tile<"Mc", C, C> M;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int tile = block / a.blocks, row0 = tile * C, v0 = block % a.blocks * DV;
    if (!a.in.rows.used(tile)) return;
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.in.q, head / a.in.group, row0);
          b.load(s.X, a.in.x, head, row0);
          b.load(s.dO, a.o_cotangent, head, row0, v0);
        },
        [&](int, int) {
          b.decay_ratios("decay"_s, s.D, a.in.gamma, head, row0);
          b.sync();
          auto M = b.abt("QK"_s, s.Q, s.X);
          M.mask(lower, 0);
          M.zip("M"_s, times, s.D);
          b.put(s.M, M);
          b.sync();
          auto reads = b.atb("KG"_s, s.M, s.dO);
          b.store("KG"_s, a.reads, head, row0, reads, v0);
        });
  }
};

/// The cotangents dY and dW = dV of all tiles and that of the state after every group of tokens, from the last: one
/// block per head and per DV value columns, which `block` counts.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct BatchAdjoints {
  struct Args {
    BatchInputs<B> in;
    BatchSystems<B> systems;
    typename B::In o_cotangent, final_cotangent, reads;
    typename B::Out dy, dv, adjoints, initial_gradient;  // adjoints: DK rows for every group
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q[ST];
    typename B::template Tile<"K", C, DK> X[ST];
    typename B::template Tile<"dO", C, DV> dO[ST];
    typename B::template Tile<"KG", C, DV> reads[ST];
    typename B::template Tile<"Tc", C, C> T[ST];
    typename B::template Tile<"dfinal", DK, DV> dfinal;
    typename B::template Tile<"Gc", DK, DV> G;
    typename B::template Tile<"dUc", C, DV> dY;
    typename B::template Tile<"Fc", C, DV> P;
    typename B::template Tile<"adOc", C, DV> adO;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const BatchRows& rows = a.in.rows;
    const int v0 = block * DV;
    const bool alone = rows.tokens == 1;
    const auto start = [&](auto zero, auto g) { return b.planted("final_cotangent_dropped"_s, g, zero); };
    const auto carried = [&](auto g, auto decay) { return b.planted("adjoint_not_decayed"_s, g * decay, g); };
    auto G = b.acc("G"_s, Shape<DK, DV>{});
    b.load(s.dfinal, a.final_cotangent, head, 0, v0);
    b.pipeline(
        Shape<ST>{}, rows.tiles(),
        [&](int i, int st) {
          const int row0 = (rows.tiles() - 1 - i) * C;
          b.load(s.Q[st], a.in.q, head / a.in.group, row0);
          b.load(s.X[st], a.in.x, head, row0);
          b.load(s.dO[st], a.o_cotangent, head, row0, v0);
          b.load(s.reads[st], a.reads, head, row0, v0);
          if (!alone) b.load(s.T[st], a.systems.inverse, head, row0);
        },
        [&](int i, int st) {
          const int j = rows.tiles() - 1 - i, row0 = j * C;
          if (!rows.used(j)) return;
          const auto load = [&](const auto& decays) { return b.load_row("decay"_s, Shape<C>{}, decays, head, row0); };
          const auto to_row = load(a.systems.to_row), to_error = load(a.systems.to_error),
                     to_end = load(a.systems.to_end);
          const auto weight = b.load_row("weight"_s, Shape<C>{}, a.in.weight, head, row0);
          if (rows.last_used(j)) {
            const auto total = b.load_row("decay"_s, Shape<DK>{}, a.systems.totals, head, j * DK);
            if (rows.group(j) == rows.groups() - 1) G.zip("G"_s, start, s.dfinal);
            b.store("Gc"_s, a.adjoints, head, rows.group(j) * DK, G, v0);
            b.put(s.G, G);
            G.map("G"_s, carried, total);
          }
          auto adO = in_registers(b, "adO"_s, s.dO[st]);
          adO.map("adO"_s, times, to_row);
          b.put(s.adO, adO);
          b.sync();
          auto dW = b.ab("KG"_s, s.X[st], s.G);
          dW.map("KG"_s, times, to_end);
          dW.zip("KG"_s, plus, s.reads[st]);
          b.store("KG"_s, a.dy, head, row0, dW, v0);
          dW.map("dU"_s, times, weight);
          if (!alone) {
            b.put(s.dY, dW);
            b.sync();
            dW = b.atb("E"_s, s.T[st], s.dY);
          }
          b.store("part"_s, a.dv, head, row0, dW, v0);
          dW.map("F"_s, negative);
          dW.map("F"_s, times, to_error);
          b.put(s.P, dW);
          b.sync();
          b.mma_atb(G, s.Q[st], s.adO);
          b.mma_atb(G, s.X[st], s.P);
        });
    b.store("initial"_s, a.initial_gradient, head, 0, G, v0);
  }
};

/// Gradients of a tile's rows, this block's part, the value columns v0.. of its head: one block per tile and DV value
/// columns. Parts of windows give the gradient of the decay in the rows of the first one alone.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct BatchGradients {
  struct Args {
    BatchInputs<B> in;
    BatchSystems<B> systems;
    typename B::In z, states, dy, dv, adjoints, o_cotangent;
    typename B::Out dq, dx;
    typename B::RowOut dweight, dlog_gamma;
    int blocks;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> X;
    typename B::template Tile<"dO", C, DV> dO;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Gc", DK, DV> G;
    typename B::template Tile<"D", C, C> D;
    typename B::template Tile<"D", C, C> before;
    typename B::template Tile<"Yc", C, DV> Y;
    typename B::template Tile<"Yc", C, DV> zY;
    typename B::template Tile<"Mc", C, C> dM;
    typename B::template Tile<"Mc", C, C> dN;
    typename B::template Tile<"Nc", C, C> N;
    typename B::template Tile<"Fc", C, DV> F;
    typename B::template Tile<"Fc", C, DV> P;
    typename B::template Tile<"adOc", C, DV> adO;
    typename B::template Tile<"dM", C, C> read_terms;
    typename B::template Tile<"dM", C, C> error_terms;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const BatchRows& rows = a.in.rows;
    const int tile = block / a.blocks, row0 = tile * C, v0 = block % a.blocks * DV;
    const Place at{head, head * a.blocks + block % a.blocks, tile, row0, v0};
    const bool alone = rows.tokens == 1;
    if (!rows.used(tile)) return;
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.in.q, head / a.in.group, row0);
          b.load(s.X, a.in.x, head, row0);
          b.load(s.dO, a.o_cotangent, head, row0, v0);
          b.load(s.S, a.states, head, rows.group(tile) * DK, v0);
          b.load(s.G, a.adjoints, head, rows.group(tile) * DK, v0);
        },
        [&](int, int) {
          b.decay_ratios("decay"_s, s.D, a.in.gamma, head, row0);
          b.decay_ratios("decay"_s, s.before, a.in.gamma, head, row0, rows.ranks);
          auto adO = b.acc("adO"_s, Shape<C, DV>{});
          const auto [Z, P] = put_writes_and_cotangents(b, s, a, at, adO);
          auto N = b.acc("KK"_s, Shape<C, C>{});
          store_dweight(b, s, a, at, Z, N, alone);
          put_score_terms(b, s, rows, N, alone);
          const auto [of_read, of_errors, of_writes, of_state] = decay_terms(b, s, a, at, adO, P);
          b.sync();
          auto dQ = b.abt("dQ"_s, s.adO, s.S);
          b.mma(dQ, s.dM, s.X);
          b.store("part"_s, a.dq, at.part, row0, dQ);
          auto dX = b.abt("dK"_s, s.zY, s.G);
          b.mma_abt(dX, s.P, s.S);
          b.mma_atb(dX, s.dM, s.Q);
          auto scores = b.gates_of_ratios("gates"_s, s.read_terms);
          if (!alone) {
            b.mma(dX, s.dN, s.X);
            b.mma_atb(dX, s.dN, s.X);
            scores = b.rows("gates"_s, plus, scores, b.gates_of_ratios("gates"_s, s.error_terms, rows.ranks));
          }
          b.store("part"_s, a.dx, at.part, row0, dX);
          const auto sum = [&](auto read, auto behind, auto before, auto of_scores, auto state) {
            return read + behind + before + of_scores + b.planted("dlog_decay_without_state"_s, state, state * 0);
          };
          const auto in_state = b.gates_of_total("gates"_s, Shape<C>{}, of_state);
          const auto in_writes = b.gates_of_suffix("gates"_s, of_writes);
          const auto in_errors = b.gates_of_prefix("gates"_s, of_errors, rows.ranks);
          b.store_row(
              "dlog_decay"_s, a.dlog_gamma, at.part, row0,
              b.rows("gates"_s, sum, b.gates_of_prefix("gates"_s, of_read), in_errors, in_writes, scores, in_state));
        });
  }

 private:
  struct Place {
    int head, part, tile, row0, v0;
  };
  template <class Row, class Total>
  struct DecayTerms {
    Row of_read, of_errors, of_writes;
    Total of_state;
  };

  /// Y, z o Y, the cotangents F of the errors and P of what they read of the state; Z and P in registers, too.
  template <class Ex, class Values>
  TILE_FN static auto put_writes_and_cotangents(Ex& b, Smem& s, const Args& a, const Place& at, Values& adO) {
    const auto load = [&](const auto& decays) { return b.load_row("decay"_s, Shape<C>{}, decays, at.head, at.row0); };
    adO.zip("adO"_s, copy, s.dO);
    adO.map("adO"_s, times, load(a.systems.to_row));
    b.put(s.adO, adO);
    auto Z = b.load_acc("Z"_s, Shape<C, DV>{}, a.z, at.head, at.row0, at.v0);
    auto Y = Z;
    Y.map("Y"_s, times, b.load_row("weight"_s, Shape<C>{}, a.in.weight, at.head, at.row0));
    b.put(s.Y, Y);
    Y.map("Y"_s, times, load(a.systems.to_end));
    b.put(s.zY, Y);
    auto P = b.load_acc("part"_s, Shape<C, DV>{}, a.dv, at.head, at.row0, at.v0);
    b.put(s.F, P);
    P.map("F"_s, negative);
    P.map("F"_s, times, load(a.systems.to_error));
    b.put(s.P, P);
    b.sync();
    return Two<decltype(Z), decltype(P)>{Z, P};
  }
  /// And N without the weights.
  template <class Ex, class Values, class Scores>
  TILE_FN static void store_dweight(Ex& b, Smem& s, const Args& a, const Place& at, const Values& Z, Scores& N,
                                    bool alone) {
    auto dY = b.load_acc("KG"_s, Shape<C, DV>{}, a.dy, at.head, at.row0, at.v0);
    if (!alone) {
      N = BatchErrors<B, C, DK>::of(b, a.in.rows, s.X);
      auto NR = N;
      NR.zip("N"_s, times, s.before);
      b.put(s.N, NR);
      b.sync();
      auto later = b.atb("E"_s, s.N, s.F);
      if (b.planted("dweight_without_errors"_s, true, false)) dY.zip("dU"_s, minus, later);
    }
    b.store_row("dweight"_s, a.dweight, at.part, at.row0, b.dot("dweight"_s, dY, Z));
  }
  /// The cotangents of M and N, and their terms of the decays.
  template <class Ex, class Scores>
  TILE_FN static void put_score_terms(Ex& b, Smem& s, const BatchRows& rows, const Scores& N, bool alone) {
    auto dM = b.abt("dP"_s, s.dO, s.Y);
    dM.mask(lower, 0);
    dM.zip("dM"_s, times, s.D);
    b.put(s.dM, dM);
    auto M = b.abt("QK"_s, s.Q, s.X);
    dM.zip("dM"_s, times, M);
    b.put(s.read_terms, dM);
    if (alone) return;
    auto dN = b.abt("dP"_s, s.F, s.Y);
    dN.map("dM"_s, negative);
    dN.mask([&](int r, int c) { return rows.token(c) < rows.token(r); }, 0);
    dN.zip("dM"_s, times, s.before);
    b.put(s.dN, dN);
    dN.zip("dM"_s, times, N);
    b.put(s.error_terms, dN);
  }
  /// Terms of the decays to the reads, to the errors, to the end and of all.
  template <class Ex, class Values>
  TILE_FN static auto decay_terms(Ex& b, Smem& s, const Args& a, const Place& at, const Values& adO, const Values& P) {
    auto XS = b.ab("W"_s, s.X, s.S), QS = b.ab("O"_s, s.Q, s.S), XG = b.ab("KG"_s, s.X, s.G);
    auto zY = in_registers(b, "from"_s, s.zY);
    auto state = in_registers(b, "from"_s, s.S), adjoint = in_registers(b, "from"_s, s.G);
    const auto of_read = b.dot("from"_s, QS, adO), of_errors = b.dot("from"_s, XS, P),
               of_writes = b.dot("from"_s, XG, zY);
    const auto total = b.load_row("decay"_s, Shape<DK>{}, a.systems.totals, at.head, at.tile * DK);
    const auto of_state = b.rows("from"_s, times, b.dot("from"_s, state, adjoint), total);
    return DecayTerms<std::remove_const_t<decltype(of_read)>, std::remove_const_t<decltype(of_state)>>{
        of_read, of_errors, of_writes, of_state};
  }
};

/// Gradients of C features, with what the energies and the outgoing tail add to them. Blocks are these.
template <ExecutorTypes B, Size C, Size DK>
struct BatchEnergyGradient {
  struct Args {
    typename B::In x, of_rows, tail_x;
    typename B::RowIn slope;
    typename B::Out dx;
    Windows windows;
    int len;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> X;
    typename B::template Tile<"part", C, DK> of_rows;
    typename B::template Tile<"part", C, DK> tail_x;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    using W = Windowed<B, C>;
    const int pair0 = block * C, first = a.windows.first_row(pair0) / C;
    const int chunks = imax(0, ceil_div(a.windows.last_row(pair0 + C, a.len), C) - first);
    const auto plus_tail = [&](auto x, auto y) { return x + b.planted("tail_cotangent_dropped"_s, y, y * 0); };
    auto slope = b.row("dgain"_s, Shape<C>{}, 0);
    b.load(s.X, a.x, head, pair0);
    b.load(s.of_rows, a.of_rows, head, pair0);
    b.load(s.tail_x, a.tail_x, head, pair0);
    b.pipeline(
        Shape<2>{}, chunks, [](int, int) {},
        [&](int j, int) {
          const int row0 = (first + j) * C;
          const auto of_rows = b.load_row("dgain"_s, Shape<C>{}, a.slope, head, row0);
          slope = b.rows("dgain"_s, plus, slope, W::over_rows(b, "dgain"_s, a.windows, row0, pair0, of_rows));
        });
    auto dX = in_registers(b, "part"_s, s.X);
    dX.map("part"_s, times, slope);
    dX.zip("part"_s, plus, s.of_rows);
    dX.zip("part"_s, plus_tail, s.tail_x);
    b.store("part"_s, a.dx, head, pair0, dX);
  }
};

inline constexpr SiteTable::Init falcon3_site_list[] = {{"Q", Role::operand},
                                                        {"K", Role::operand},
                                                        {"V", Role::operand},
                                                        {"dO", Role::operand},
                                                        {"Sc", Role::operand},
                                                        {"Gc", Role::operand},
                                                        {"Tc", Role::operand},
                                                        {"Wc", Role::operand},
                                                        {"Yc", Role::operand},
                                                        {"Pc", Role::operand},
                                                        {"Mc", Role::operand},
                                                        {"Nc", Role::operand},
                                                        {"dUc", Role::operand},
                                                        {"Fc", Role::operand},
                                                        {"adOc", Role::operand},
                                                        {"beta", Role::gate},
                                                        {"weight", Role::gate},
                                                        {"decay", Role::gate},
                                                        {"D", Role::gate},
                                                        {"dbeta", Role::gate},
                                                        {"dweight", Role::gate},
                                                        {"dlog_decay", Role::gate},
                                                        {"KK", Role::accumulator},
                                                        {"QK", Role::accumulator},
                                                        {"N", Role::accumulator},
                                                        {"M", Role::accumulator},
                                                        {"T", Role::accumulator},
                                                        {"W", Role::accumulator},
                                                        {"Z", Role::accumulator},
                                                        {"Y", Role::accumulator},
                                                        {"O", Role::accumulator},
                                                        {"S0", Role::accumulator},
                                                        {"S", Role::accumulator},
                                                        {"G", Role::accumulator},
                                                        {"dfinal", Role::accumulator},
                                                        {"KG", Role::accumulator},
                                                        {"dU", Role::accumulator},
                                                        {"E", Role::accumulator},
                                                        {"F", Role::accumulator},
                                                        {"dP", Role::accumulator},
                                                        {"dM", Role::accumulator},
                                                        {"adO", Role::accumulator},
                                                        {"from", Role::accumulator},
                                                        {"gates", Role::accumulator},
                                                        {"dQ", Role::accumulator},
                                                        {"dK", Role::accumulator},
                                                        {"part", Role::accumulator},
                                                        {"final", Role::accumulator},
                                                        {"initial", Role::accumulator},
                                                        {"out", Role::output}};
inline constexpr SiteTable falcon3_sites = SiteTable(falcon3_site_list).with(falcon_gain_site_list);

}  // namespace assay::tile
