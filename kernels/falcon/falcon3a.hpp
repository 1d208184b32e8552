#pragma once
// FALCON-3A, chunkwise in masked form (falcon-family.md 4.5). The pairs (x_j, v_j) of a head lie in a row, the tail
// that came in first; row t writes those of its window I_t, of which there are B_t, all with the weight
//   w_t = beta_t / (E_t + eps) / B_t,   E_t the mean of |x_j|^2 over I_t,   gamma_t = 1 - alpha_t
// and weight 0 and gamma 1 where E_t + eps = 0. A chunk of C rows meets the pairs of their windows tile by tile; with
// running products of gamma and the state S before it,
//   D_is = prod_{s < l <= i} gamma_l (s <= i),   a_i = prod_{l <= i} gamma_l,   z_s = prod_{l > s} gamma_l
//   A_sj = [j in I_s],   M = D diag(w) A,   m_j = sum_s z_s w_s A_sj
//   O = a o Q S + (Q X^T o M) V,   S <- a_C S + X^T diag(m) V
// Backward, G the cotangent of the state after the chunk, u_j = (X G)_j . v_j:
//   dP = dO V^T,   dQ = a o dO S^T + (dP o M) X,   T = (dP o Q X^T) A^T
//   dw_s = sum_i T_is D_is + z_s sum_j A_sj u_j,   dX = (dP o M)^T Q + m o V G^T,   dV = (Q X^T o M)^T dO + m o X G
//   G <- a_C G + Q^T (a o dO)
// and each term is a term of the gradient of the log of every gamma in its product:
//   dlog_gamma_r = sum_{s < r <= i} (T o D)_is w_s + sum_{i >= r} (a o dO S^T)_i . q_i
//                  + sum_{s < r} z_s w_s sum_j A_sj u_j + a_C <S, G>
// Then, with drho = dw / B_t: dbeta = drho / (E + eps), dE = -dbeta rho, dalpha = -dgamma, dx_j += 2 x_j sum_t A_tj
// dE_t / B_t.
#include "kernels/core/functions.hpp"
#include "kernels/programs/decayed_sums.hpp"
#include "kernels/programs/windows.hpp"

namespace assay::tile {

/// Weights, decays, denominators and sizes of the windows. Blocks are chunks.
template <ExecutorTypes B, Size C, Size DK, int ST>
struct WindowGain {
  using Real = typename B::Real;
  struct Args {
    typename B::In x;
    typename B::RowIn beta, alpha;
    typename B::RowOut weight, gamma, den, size;
    Real eps;
    Windows windows;
    int len;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> X[ST];
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    using W = Windowed<B, C>;
    const int row0 = chunk * C;
    const auto tiles = W::tiles_of(a.windows, row0, a.len);
    const auto one = [](auto x) { return x * 0 + 1; };
    const auto den_of = [&](auto energy, auto size) { return size != 0 ? energy / size + a.eps : size; };
    const auto weight_of = [&](auto rho, auto size) {
      const Real full = static_cast<Real>(a.windows.window);
      return size != 0 ? rho / b.planted("mean_over_full_window"_s, size, full > 0 ? full : size) : size;
    };
    const auto gamma_of = [](auto alpha, auto den) { return den != 0 ? 1 - alpha : den * 0 + 1; };
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
    const auto den = b.rows("den"_s, den_of, energy, size);
    const auto rho = b.rows("weight"_s, over_or_zero, b.load_row("beta"_s, Shape<C>{}, a.beta, head, row0), den);
    b.store_row("weight"_s, a.weight, head, row0, b.rows("weight"_s, weight_of, rho, size));
    b.store_row("gamma"_s, a.gamma, head, row0,
                b.rows("gamma"_s, gamma_of, b.load_row("beta"_s, Shape<C>{}, a.alpha, head, row0), den));
    b.store_row("den"_s, a.den, head, row0, den);
    b.store_row("energy"_s, a.size, head, row0, size);
  }
};

/// Gradients of beta and alpha, and what every pair of a row's window adds to its own gradient, over x: 2 dE / B_t.
/// Blocks are chunks.
template <ExecutorTypes B, Size C>
struct WindowGainBackward {
  using Real = typename B::Real;
  struct Args {
    typename B::RowIn beta, gamma, den, size, dweight, dlog_gamma;
    typename B::RowOut dbeta, dalpha, slope;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int chunk) {
    const auto load = [&](auto site, const auto& in) { return b.load_row(site, Shape<C>{}, in, head, chunk * C); };
    const auto dalpha_of = [](auto dlog_gamma, auto gamma, auto den) { return den != 0 ? -dlog_gamma / gamma : den; };
    const auto slope_of = [&](auto dbeta, auto rho, auto size) {
      return size != 0 ? b.planted("energy_is_constant"_s, Real(-2), Real(0)) * dbeta * rho / size : size;
    };
    const auto den = load("den"_s, a.den), size = load("energy"_s, a.size);
    const auto drho = b.rows("dgain"_s, over_or_zero, load("dweight"_s, a.dweight), size);
    const auto dbeta = b.rows("dgain"_s, over_or_zero, drho, den);
    b.store_row("dbeta"_s, a.dbeta, head, chunk * C, dbeta);
    b.store_row("dbeta"_s, a.dalpha, head, chunk * C,
                b.rows("dgain"_s, dalpha_of, load("dlog_decay"_s, a.dlog_gamma), load("gamma"_s, a.gamma), den));
    const auto rho = b.rows("weight"_s, over_or_zero, load("beta"_s, a.beta), den);
    b.store_row("dgain"_s, a.slope, head, chunk * C, b.rows("dgain"_s, slope_of, dbeta, rho, size));
  }
};

/// The sum that every chunk adds to the state. Blocks: pairs of a chunk and DV value columns, here and below.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct WindowUpdates {
  struct Args {
    typename B::In x, v;
    typename B::RowIn weight, gamma;
    typename B::Out updates;
    Windows windows;
    int len, blocks;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> X[ST];
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"zVc", C, DV> mV;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    using W = Windowed<B, C>;
    const int chunk = block / a.blocks, v0 = block % a.blocks * DV, row0 = chunk * C;
    const auto tiles = W::tiles_of(a.windows, row0, a.len);
    auto update = b.acc("W"_s, Shape<DK, DV>{});
    const auto to_end = W::weights_to_end(b, a.weight, a.gamma, head, row0);
    b.pipeline(
        Shape<ST>{}, tiles.count,
        [&](int j, int st) {
          b.load(s.X[st], a.x, head, (tiles.first + j) * C);
          b.load(s.V[st], a.v, head, (tiles.first + j) * C, v0);
        },
        [&](int j, int st) {
          auto mV = in_registers(b, "X"_s, s.V[st]);
          mV.map("X"_s, times, W::over_rows(b, "weight"_s, a.windows, row0, (tiles.first + j) * C, to_end));
          b.put(s.mV, mV);
          b.sync();
          b.mma_atb(update, s.X[st], s.mV);
          b.sync();
        });
    b.store("W"_s, a.updates, head, chunk * DK, update, v0);
  }
};

/// The state before every chunk.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct WindowPass {
  struct Args {
    typename B::In start, updates;
    typename B::RowIn totals;
    typename B::Out states, end;
    int len;
  };
  struct Smem {
    typename B::template Tile<"W", DK, DV> W[ST];
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int v0 = block * DV;
    const auto first = [&](auto zero, auto x) { return b.planted("initial_state_ignored"_s, x, zero); };
    auto S = b.acc("S"_s, Shape<DK, DV>{});
    b.pipeline(
        Shape<ST>{}, imax(1, ceil_div(a.len, C)), [&](int j, int st) { b.load(s.W[st], a.updates, head, j * DK, v0); },
        [&](int j, int st) {
          if (j == 0 || b.planted("state_not_carried"_s, false, true)) {
            auto given = b.load_acc("S0"_s, Shape<DK, DV>{}, a.start, head, 0, v0);
            S.zip("S"_s, first, given);
          }
          b.store("Sc"_s, a.states, head, j * DK, S, v0);
          S.map("S"_s, times, b.load_row("decay"_s, Shape<DK>{}, a.totals, head, j * DK));
          S.zip("S"_s, plus, s.W[st]);
        });
    b.store("end"_s, a.end, head, 0, S, v0);
  }
};

/// The outputs that the queries read.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct WindowOutputs {
  struct Args {
    typename B::In q, x, v, states;
    typename B::RowIn weight, gamma;
    typename B::Out o;
    Windows windows;
    int len, group, shared_heads, blocks;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"K", C, DK> X[ST];
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"D", C, C> D;
    typename B::template Tile<"D", C, C> DW;
    typename B::template Tile<"D", C, C> A;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    using W = Windowed<B, C>;
    const int chunk = block / a.blocks, v0 = block % a.blocks * DV, row0 = chunk * C;
    const int shared = b.planted("head_modulo"_s, head / a.group, head % a.shared_heads);
    const auto tiles = W::tiles_of(a.windows, row0, a.len);
    b.load(s.Q, a.q, shared, row0);
    b.load(s.S, a.states, head, chunk * DK, v0);
    b.decay_ratios("decay"_s, s.D, a.gamma, head, row0, b.planted("decay_index_of_scores"_s, 0, 1));
    b.sync();
    W::put_weighted(b, s.D, a.weight, head, row0, s.DW);
    auto O = b.acc("O"_s, Shape<C, DV>{});
    b.pipeline(
        Shape<ST>{}, tiles.count,
        [&](int j, int st) {
          b.load(s.X[st], a.x, head, (tiles.first + j) * C);
          b.load(s.V[st], a.v, head, (tiles.first + j) * C, v0);
        },
        [&](int j, int st) {
          W::put_windows(b, a.windows, row0, (tiles.first + j) * C, s.A);
          if (j == 0) {
            b.mma(O, s.Q, s.S);
            O.map("O"_s, times, b.decay_prefix("decay"_s, Shape<C>{}, a.gamma, head, row0));
          }
          b.sync();
          auto P = b.abt("QK"_s, s.Q, s.X[st]), M = b.ab("M"_s, s.DW, s.A);
          P.zip("P"_s, times, M);
          b.mma(O, b.cast("Pc"_s, P), s.V[st]);
          b.sync();
        });
    b.store("out"_s, a.o, head, row0, O, v0);
  }
};

/// Gradients of a chunk's queries, weights and decays: this block's part, the value columns v0.. of its head.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct WindowRowGradients {
  struct Args {
    typename B::In q, x, v, states, adjoints, o_cotangent;
    typename B::RowIn weight, gamma;
    typename B::Out dq;
    typename B::RowOut dweight, dlog_gamma;
    Windows windows;
    int len, group, blocks;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"dO", C, DV> dO;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Sc", DK, DV> G;
    typename B::template Tile<"K", C, DK> X[ST];
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"D", C, C> D;
    typename B::template Tile<"D", C, C> DW;
    typename B::template Tile<"D", C, C> A;
    typename B::template Tile<"Mc", C, C> PM;
    typename B::template Tile<"dM", C, C> dM;
    typename B::template Tile<"dM", C, C> terms;
    typename B::template Tile<"dM", C, 16> ones;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    using W = Windowed<B, C>;
    const int chunk = block / a.blocks, v0 = block % a.blocks * DV, row0 = chunk * C;
    const int shared = head / a.group, part = head * a.blocks + block % a.blocks;
    const auto tiles = W::tiles_of(a.windows, row0, a.len);
    b.load(s.Q, a.q, shared, row0);
    b.load(s.dO, a.o_cotangent, head, row0, v0);
    b.load(s.S, a.states, head, chunk * DK, v0);
    b.load(s.G, a.adjoints, head, chunk * DK, v0);
    b.decay_ratios("decay"_s, s.D, a.gamma, head, row0);
    b.sync();
    W::put_weighted(b, s.D, a.weight, head, row0, s.DW);
    auto dQ = b.acc("dQ"_s, Shape<C, DK>{});
    auto T = b.acc("dM"_s, Shape<C, C>{});
    auto read = b.row("from"_s, Shape<C>{}, 0), of_state = read;  // of a row: q . (a o dO S^T);  sum_j A_sj u_j
    b.pipeline(
        Shape<ST>{}, tiles.count,
        [&](int j, int st) {
          b.load(s.X[st], a.x, head, (tiles.first + j) * C);
          b.load(s.V[st], a.v, head, (tiles.first + j) * C, v0);
        },
        [&](int j, int st) {
          const int pair0 = (tiles.first + j) * C;
          W::put_windows(b, a.windows, row0, pair0, s.A);
          if (j == 0) {
            b.mma_abt(dQ, s.dO, s.S);
            dQ.map("dQ"_s, times, b.decay_prefix("decay"_s, Shape<C>{}, a.gamma, head, row0));
            auto q = in_registers(b, "from"_s, s.Q);
            read = b.dot("from"_s, q, dQ);
          }
          b.sync();
          auto P = b.abt("QK"_s, s.Q, s.X[st]), dP = b.abt("dP"_s, s.dO, s.V[st]), M = b.ab("M"_s, s.DW, s.A);
          P.zip("dM"_s, times, dP);
          b.put(s.dM, P);
          dP.zip("P"_s, times, M);
          b.put(s.PM, dP);
          auto u = b.ab("KG"_s, s.X[st], s.G), v = b.acc("from"_s, Shape<C, DV>{});
          v.zip("from"_s, copy, s.V[st]);
          of_state = b.rows("from"_s, plus, of_state,
                            W::over_windows(b, "from"_s, a.windows, row0, pair0, b.dot("from"_s, u, v)));
          b.sync();
          b.mma(dQ, s.PM, s.X[st]);
          b.mma_abt(T, s.dM, s.A);
          b.sync();
        });
    b.store("part"_s, a.dq, part, row0, dQ);
    T.zip("dM"_s, times, s.D);
    b.put(s.dM, T);
    T.map("dM"_s, times, b.load_col("weight"_s, Shape<1, C>{}, a.weight, head, row0));
    T.mask(lower, 0);
    b.put(s.terms, T);
    store_weights_and_decays(b, s, a, Place{head, part, row0}, read, of_state);
  }

 private:
  struct Place {
    int head, part, row0;
  };

  /// Stores the gradients of weights and decays: sums over rows and columns of the terms, and the state's part.
  template <class Ex, class Row>
  TILE_FN static void store_weights_and_decays(Ex& b, Smem& s, const Args& a, const Place& at, const Row& read,
                                               Row of_state) {
    const auto with_state = [&](auto x, auto state) { return b.planted("dweight_without_state"_s, x + state, x); };
    const auto sum = [&](auto state, auto scores, auto row, auto end) {
      return b.planted("dlog_decay_without_state"_s, state, state * 0) + scores + row + end;
    };
    auto ones = b.acc("dM"_s, Shape<C, 16>{});
    ones.map("dM"_s, [](auto x) { return x + 1; });
    b.put(s.ones, ones);
    b.sync();
    auto columns = b.atb("dweight"_s, s.dM, s.ones);
    columns.mask([](int, int c) { return c == 0; }, 0);
    const auto to_end = b.decay_suffix("decay"_s, Shape<C>{}, a.gamma, at.head, at.row0);
    const auto weight = b.load_row("weight"_s, Shape<C>{}, a.weight, at.head, at.row0);
    of_state = b.rows("dweight"_s, times, of_state, to_end);
    b.store_row("dweight"_s, a.dweight, at.part, at.row0,
                b.rows("dweight"_s, with_state, b.dot("dweight"_s, columns, ones), of_state));
    auto S = in_registers(b, "from"_s, s.S), G = in_registers(b, "from"_s, s.G);
    const auto total = b.decay_total("decay"_s, Shape<DK>{}, a.gamma, at.head, at.row0, C);
    auto in_state = b.gates_of_total("gates"_s, Shape<C>{}, b.rows("from"_s, times, b.dot("from"_s, S, G), total));
    auto in_scores = b.gates_of_ratios("gates"_s, s.terms);
    auto in_row = b.gates_of_prefix("gates"_s, read);
    auto in_end = b.gates_of_suffix("gates"_s, b.rows("from"_s, times, of_state, weight));
    b.store_row("dlog_decay"_s, a.dlog_gamma, at.part, at.row0,
                b.rows("gates"_s, sum, in_state, in_scores, in_row, in_end));
  }
};

/// Gradients of C pairs: blocks are pairs of these and of DV columns of the values; dx is this block's part. Gradients
/// start from what the outgoing tail gives them.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct WindowPairGradients {
  struct Args {
    typename B::In q, x, v, adjoints, o_cotangent, tail_x, tail_v;
    typename B::RowIn weight, gamma, slope;
    typename B::Out dx, dv;
    Windows windows;
    int len, group, blocks;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> X;
    typename B::template Tile<"V", C, DV> V;
    typename B::template Tile<"part", C, DK> tail_x;
    typename B::template Tile<"part", C, DV> tail_v;
    typename B::template Tile<"Q", C, DK> Q[ST];
    typename B::template Tile<"dO", C, DV> dO[ST];
    typename B::template Tile<"Sc", DK, DV> G[ST];
    typename B::template Tile<"D", C, C> D;
    typename B::template Tile<"D", C, C> DW;
    typename B::template Tile<"D", C, C> A;
    typename B::template Tile<"Mc", C, C> PM;
    typename B::template Tile<"Pc", C, C> P;
    typename B::template Tile<"zVc", C, DV> mV;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    using W = Windowed<B, C>;
    const int pair0 = block / a.blocks * C, v0 = block % a.blocks * DV, part = head * a.blocks + block % a.blocks;
    const int first = a.windows.first_row(pair0) / C;
    const int chunks = imax(0, ceil_div(a.windows.last_row(pair0 + C, a.len), C) - first);
    auto dX = b.acc("dK"_s, Shape<C, DK>{});
    auto dV = b.acc("dV"_s, Shape<C, DV>{});
    b.load(s.X, a.x, head, pair0);
    b.load(s.V, a.v, head, pair0, v0);
    b.load(s.tail_x, a.tail_x, head, pair0);
    b.load(s.tail_v, a.tail_v, head, pair0, v0);
    b.pipeline(
        Shape<ST>{}, chunks,
        [&](int j, int st) {
          b.load(s.Q[st], a.q, head / a.group, (first + j) * C);
          b.load(s.dO[st], a.o_cotangent, head, (first + j) * C, v0);
          b.load(s.G[st], a.adjoints, head, (first + j) * DK, v0);
        },
        [&](int j, int st) {
          const int row0 = (first + j) * C;
          b.decay_ratios("decay"_s, s.D, a.gamma, head, row0);
          W::put_windows(b, a.windows, row0, pair0, s.A);
          b.sync();
          W::put_weighted(b, s.D, a.weight, head, row0, s.DW);
          auto m =
              W::over_rows(b, "weight"_s, a.windows, row0, pair0, W::weights_to_end(b, a.weight, a.gamma, head, row0));
          auto mV = in_registers(b, "X"_s, s.V);
          mV.map("X"_s, times, m);
          b.put(s.mV, mV);
          b.sync();
          auto M = b.ab("M"_s, s.DW, s.A);
          auto P = b.abt("QK"_s, s.Q[st], s.X), dP = b.abt("dP"_s, s.dO[st], s.V);
          P.zip("P"_s, times, M);
          b.put(s.P, P);
          dP.zip("P"_s, times, M);
          b.put(s.PM, dP);
          auto XG = b.ab("KG"_s, s.X, s.G[st]);
          XG.map("KG"_s, times, m);
          dV.zip("dV"_s, plus, XG);
          b.mma_abt(dX, s.mV, s.G[st]);
          b.sync();
          b.mma_atb(dV, s.P, s.dO[st]);
          b.mma_atb(dX, s.PM, s.Q[st]);
          if (v0 == 0) {
            auto x = in_registers(b, "dK"_s, s.X);
            const auto slope = b.load_row("dgain"_s, Shape<C>{}, a.slope, head, row0);
            dX.zip("dK"_s, plus_times, x, W::over_rows(b, "dgain"_s, a.windows, row0, pair0, slope));
          }
          b.sync();
        });
    add_tail(b, "dV"_s, dV, s.tail_v);
    b.store("out"_s, a.dv, head, pair0, dV, v0);
    if (v0 == 0) add_tail(b, "dK"_s, dX, s.tail_x);
    b.store("part"_s, a.dx, part, pair0, dX);
  }

 private:
  template <class Ex, class St, class Gradient, class Tile>
  TILE_FN static void add_tail(Ex& b, St site, Gradient& gradient, Tile& tail) {
    auto x = b.acc("part"_s, Shape<Tile::rows, Tile::cols>{});
    x.zip(
        "part"_s, [&](auto, auto y) { return b.planted("tail_cotangent_dropped"_s, y, y * 0); }, tail);
    gradient.zip(site, plus, x);
  }
};

inline constexpr SiteTable::Init window_site_list[] = {
    {"weight", Role::gate},    {"beta", Role::gate},          {"gamma", Role::gate},   {"den", Role::gate},
    {"dgain", Role::gate},     {"dweight", Role::gate},       {"dbeta", Role::gate},   {"lambda", Role::gate},
    {"dM", Role::accumulator}, {"energy", Role::accumulator}, {"W", Role::accumulator}};
inline constexpr SiteTable falcon3a_sites = decayed_sums_sites.with(decay_site_list).with(window_site_list);

}  // namespace assay::tile
