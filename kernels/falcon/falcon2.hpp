#pragma once
// FALCON-2, chunkwise (falcon-family.md 4.6): a step size eta and a decay gamma per token and value channel, so that a
// chunk of C tokens has a triangular system for every channel, under one Gram matrix. In a channel, with the state S
// before the chunk and running products of gamma,
//   R(i, j) = prod_{j < l <= i} gamma_l,   a_i = prod_{l <= i} gamma_l,   z_j = prod_{l > j} gamma_l
//   N = strict_lower(X X^T),   M = lower(Q X^T),   W = V - a_{i-1} o X S
//   r_i = W_i - sum_{j < i} N_ij R(i-1, j) eta_j r_j by forward substitution,   U = eta o r
//   O_i = a_i (Q S)_i + sum_{j <= i} M_ij R(i, j) U_j,   S <- a_C S + X^T (z o U)
// Backward, last chunk first, G the cotangent of the state after the chunk:
//   Y_j = z_j (X G)_j + sum_{i >= j} M_ij R(i, j) dO_i
//   f_j = Y_j - sum_{i > j} N_ij R(i-1, j) eta_i f_i,   deta = f o r,   dV = eta o f,   P = -a_{i-1} o dV
//   dN_ij = -sum_channels dV_i R(i-1, j) U_j (j < i),   dM_ij = sum_channels dO_i R(i, j) U_j (j <= i)
//   dX = P S^T + (z o U) G^T + (dN + dN^T) X + dM^T Q,   dQ = (a o dO) S^T + dM X
//   G <- a_C G + Q^T (a o dO) + X^T P
// and dgamma_r is the derivative of each of these products by gamma_r, without a division: gamma = 0 is an ordinary
// gate. One pass over the chunks has S and r, another, back, G and f; all else is done for all chunks at once.
#include "kernels/core/functions.hpp"
#include "kernels/programs/falcon_gain.hpp"

namespace assay::tile {

/// Step sizes and decays (kernels/programs/falcon_gain.hpp): a column per channel, one denominator for all. Blocks are
/// pairs of C tokens and DV channels.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct ChannelGain {
  using Real = typename B::Real;
  struct Args {
    typename B::In x, beta;
    typename B::RowIn lambda, active;
    typename B::Out eta, gamma;
    Real eps, floor;
    Coupling coupling;
    int group, blocks;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> X;
    typename B::template Tile<"beta", C, DV> beta;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    using Gain = FalconGain<B, C, DK>;
    const int row0 = block / a.blocks * C, chunk = block / a.blocks, v0 = block % a.blocks * DV;
    const auto decay_of = [&](auto eta, auto ridge) { return decay(b, eta, ridge, a.floor); };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.X, a.x, head / a.group, row0);
          b.load(s.beta, a.beta, head, row0, v0);
        },
        [&](int, int) {
          auto on = b.load_row("beta"_s, Shape<C>{}, a.active, head, row0);
          auto energy = b.dot("energy"_s, s.X, s.X);
          auto ridge = Gain::ridge_of(b, a, head, chunk, energy);
          auto eta = steps(b, s.beta, Gain::denominator(b, a, energy, ridge), on);
          b.store("eta"_s, a.eta, head, row0, eta, v0);
          eta.map("gamma"_s, decay_of, ridge);
          b.store("gamma"_s, a.gamma, head, row0, eta, v0);
        });
  }

  /// eta of the rows that write; 0 in the others, and where the denominator is.
  template <class Ex, class Beta, class Row>
  TILE_FN static auto steps(Ex& b, Beta& beta, const Row& den, const Row& on) {
    auto eta = in_registers(b, "eta"_s, beta);
    eta.map("eta"_s, over_where_on, den, on);
    return eta;
  }
  template <class Ex>
  TILE_FN static auto decay(Ex& b, Real eta, Real ridge, Real floor) {
    const Real gamma = 1 - eta * ridge;
    return floor > 0 && gamma <= floor ? b.planted("floor_forgotten"_s, floor, gamma) : gamma;
  }
};

/// Gradients of beta, lambda and the features from those of eta and gamma:
///   dalpha = -m dgamma,   s = deta + ridge dalpha,   dbeta = s / den,   dden = -sum_channels dbeta eta
///   dridge = sum_channels eta dalpha + dden,   the rest as in kernels/programs/falcon_gain.hpp
/// Blocks are C tokens; the channels follow in turn.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct ChannelGainBackward {
  using Real = typename B::Real;
  struct Args {
    typename B::In x, beta, deta, dgamma;
    typename B::RowIn lambda, active;
    typename B::Out dbeta, dx;
    typename B::RowOut dlambda;
    Real eps, floor;
    Coupling coupling;
    int group, blocks, parts;  // parts of dx for each head, of which this is the last
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> X;
    typename B::template Tile<"beta", C, DV> beta[ST];
    typename B::template Tile<"deta", C, DV> deta[ST];
    typename B::template Tile<"dgamma", C, DV> dgamma[ST];
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    using Gain = FalconGain<B, C, DK>;
    const int row0 = chunk * C;
    const Coupling coupling = a.coupling;
    const Real floor = a.floor;
    const auto dalpha_of = [&](auto dgamma, auto eta, auto ridge) {
      const bool held = b.planted("floor_passes_gradient"_s, floor > 0 && 1 - eta * ridge <= floor, false);
      return held ? dgamma * 0 : -dgamma;
    };
    const auto dlambda_of = [=](auto dridge, auto e) { return coupling == Coupling::raw ? dridge : dridge * e; };
    const auto denergy_of = [=](auto dden, auto dridge, auto lambda) {
      return coupling == Coupling::live ? dden + lambda * dridge : dden;
    };
    const auto twice_times = [&](auto x, auto de) { return b.planted("energy_gradient_halved"_s, 2, 1) * de * x; };
    auto dden = b.row("dgain"_s, Shape<C>{}, 0), dridge = dden;
    b.load(s.X, a.x, head / a.group, row0);
    b.pipeline(
        Shape<ST>{}, a.blocks,
        [&](int j, int st) {
          b.load(s.beta[st], a.beta, head, row0, j * DV);
          b.load(s.deta[st], a.deta, head, row0, j * DV);
          b.load(s.dgamma[st], a.dgamma, head, row0, j * DV);
        },
        [&](int j, int st) {
          auto on = b.load_row("beta"_s, Shape<C>{}, a.active, head, row0);
          auto energy = b.dot("energy"_s, s.X, s.X);
          auto ridge = Gain::ridge_of(b, a, head, chunk, energy);
          auto den = Gain::denominator(b, a, energy, ridge);
          auto eta = ChannelGain<B, C, DK, DV>::steps(b, s.beta[st], den, on);
          auto dalpha = b.acc("dgain"_s, Shape<C, DV>{}), dbeta = dalpha;
          dalpha.zip("dgain"_s, copy, s.dgamma[st]);
          dalpha.zip("dgain"_s, dalpha_of, eta, ridge);
          dbeta.zip("dgain"_s, copy, s.deta[st]);
          dbeta.zip("dgain"_s, plus_times, dalpha, ridge);
          dbeta.map("dgain"_s, over_where_on, den, on);
          b.store("dbeta"_s, a.dbeta, head, row0, dbeta, j * DV);
          dden = b.rows("dgain"_s, minus, dden, b.dot("dgain"_s, dbeta, eta));
          dridge = b.rows("dgain"_s, plus, dridge, b.dot("dgain"_s, dalpha, eta));
        });
    auto energy = b.dot("energy"_s, s.X, s.X);
    auto lambda = b.load_row("lambda"_s, Shape<C>{}, a.lambda, head, row0);
    dridge = b.rows("dgain"_s, plus, dridge, dden);
    b.store_row("dbeta"_s, a.dlambda, head, row0, b.rows("dgain"_s, dlambda_of, dridge, energy));
    auto dx = in_registers(b, "part"_s, s.X);
    dx.map("part"_s, twice_times, b.rows("dgain"_s, denergy_of, dden, dridge, lambda));
    b.store("part"_s, a.dx, head * a.parts + a.parts - 1, row0, dx);
  }
};

/// The shared parts of the programs below: the chunk's decays, without those beyond its end, and its Gram matrices.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct ChannelRule {
  struct Inputs {
    typename B::In q, x, v, eta, gamma;
    int len, width, group, shared_heads, blocks;  // blocks: of DV value columns, of a head
  };

  /// gamma, and 1 where there is none.
  template <class Ex, class Alpha, class Gamma>
  TILE_FN static void put_decays(Ex& b, const Inputs& a, Alpha& alpha, Gamma& gamma, int row0, int v0) {
    auto decays = b.acc("alpha"_s, Shape<C, DV>{});
    decays.zip(
        "alpha"_s, [](auto, auto x) { return x; }, gamma);
    decays.mask([&](int r, int c) { return row0 + r < a.len && v0 + c < a.width; }, 1);
    b.put(alpha, decays);
  }
  template <class Ex, class N, class X>
  TILE_FN static void put_errors(Ex& b, N& tile, X& x) {
    auto errors = b.abt("KK"_s, x, x);
    errors.mask(strictly_lower, 0);
    b.put(tile, errors);
  }
  template <class Ex, class M, class Q, class X>
  TILE_FN static void put_scores(Ex& b, M& tile, Q& q, X& x) {
    auto scores = b.abt("QK"_s, q, x);
    scores.mask([&](int r, int c) { return r >= c + b.planted("scores_exclude_self"_s, 0, 1); }, 0);
    b.put(tile, scores);
  }
};

/// The errors r of all chunks and the state before each, all that is serial: one block per head and per DV value
/// columns.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct ChannelDeltaStates {
  using Rule = ChannelRule<B, C, DK, DV>;
  struct Args {
    typename Rule::Inputs in;
    typename B::In initial_state;
    typename B::Out errors, states, final_state;  // states: DK rows for every chunk
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> X[ST];
    typename B::template Tile<"V", C, DV> V[ST];
    typename B::template Tile<"eta", C, DV> eta[ST];
    typename B::template Tile<"gamma", C, DV> gamma[ST];
    typename B::template Tile<"S0", DK, DV> S0;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"alpha", C, DV> alpha;
    typename B::template Tile<"alpha", C, DV> lagged;  // running products up to the row before
    typename B::template Tile<"alpha", C, DV> z;
    typename B::template Tile<"N", C, C> N;
    typename B::template Tile<"W", C, DV> W;
    typename B::template Tile<"R", C, DV> R;
    typename B::template Tile<"zUc", C, DV> zU;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = b.planted("head_modulo"_s, head / a.in.group, head % a.in.shared_heads), v0 = block * DV;
    const auto start = [&](auto zero, auto s0) { return b.planted("initial_state_ignored"_s, s0, zero); };
    auto S = b.acc("S"_s, Shape<DK, DV>{});
    b.load(s.S0, a.initial_state, head, 0, v0);
    b.pipeline(
        Shape<ST>{}, imax(1, ceil_div(a.in.len, C)),
        [&](int j, int st) {
          b.load(s.X[st], a.in.x, shared, j * C);
          b.load(s.V[st], a.in.v, head, j * C, v0);
          b.load(s.eta[st], a.in.eta, head, j * C, v0);
          b.load(s.gamma[st], a.in.gamma, head, j * C, v0);
        },
        [&](int j, int st) {
          const int n = imin(C, a.in.len - j * C), count = b.planted("tail_decay"_s, C, n < C ? n - 1 : n);
          if (j == 0 || b.planted("state_not_carried"_s, false, true)) S.zip("S"_s, start, s.S0);
          b.store("H"_s, a.states, head, j * DK, S, v0);
          b.put(s.S, S);
          Rule::put_decays(b, a.in, s.alpha, s.gamma[st], j * C, v0);
          Rule::put_errors(b, s.N, s.X[st]);
          b.sync();
          b.channel_prefix("decay"_s, s.lagged, s.alpha, b.planted("error_of_decayed_state"_s, 1, 0));
          b.channel_suffix("decay"_s, s.z, s.alpha);
          auto W = b.ab("W"_s, s.X[st], s.S);
          b.sync();
          W.zip("W"_s, times, s.lagged);
          W.zip("W"_s, taken_from, s.V[st]);
          b.put(s.W, W);
          b.sync();
          value_solve(b, "R"_s, "decay"_s, s.R, s.N, s.W, s.eta[st], s.alpha);
          b.sync();
          auto U = b.acc("U"_s, Shape<C, DV>{});
          U.zip("R"_s, copy, s.R);
          b.store("R"_s, a.errors, head, j * C, U, v0);
          U.zip("U"_s, times, s.eta[st]);
          U.zip("U"_s, times, s.z);
          b.put(s.zU, U);
          S.map("S"_s, times, b.column_of(b.channel_total("decay"_s, Shape<DV>{}, s.alpha, count)));
          b.sync();
          b.mma_atb(S, s.X[st], s.zU);
        });
    b.store("final"_s, a.final_state, head, 0, S, v0);
  }
};

/// Outputs from the states and the errors: one block per chunk and DV value columns.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct ChannelDeltaOutputs {
  using Rule = ChannelRule<B, C, DK, DV>;
  struct Args {
    typename Rule::Inputs in;
    typename B::In states, errors;
    typename B::Out o;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> X;
    typename B::template Tile<"eta", C, DV> eta;
    typename B::template Tile<"gamma", C, DV> gamma;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"alpha", C, DV> alpha;
    typename B::template Tile<"alpha", C, DV> a;
    typename B::template Tile<"M", C, C> M;
    typename B::template Tile<"U", C, DV> U;
    typename B::template Tile<"O", C, DV> O;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = b.planted("head_modulo"_s, head / a.in.group, head % a.in.shared_heads);
    const int chunk = block / a.in.blocks, row0 = chunk * C, v0 = block % a.in.blocks * DV;
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.in.q, shared, row0);
          b.load(s.X, a.in.x, shared, row0);
          b.load(s.eta, a.in.eta, head, row0, v0);
          b.load(s.gamma, a.in.gamma, head, row0, v0);
        },
        [&](int, int) {
          b.put(s.S, b.load_acc("H"_s, Shape<DK, DV>{}, a.states, head, chunk * DK, v0));
          auto U = b.load_acc("R"_s, Shape<C, DV>{}, a.errors, head, row0, v0);
          U.zip("U"_s, times, s.eta);
          b.put(s.U, U);
          Rule::put_decays(b, a.in, s.alpha, s.gamma, row0, v0);
          Rule::put_scores(b, s.M, s.Q, s.X);
          b.sync();
          b.channel_prefix("decay"_s, s.a, s.alpha);
          value_sums(b, "O"_s, "decay"_s, s.O, s.M, s.U, s.alpha);
          auto O = b.ab("O"_s, s.Q, s.S);
          b.sync();
          O.zip("O"_s, times, s.a);
          O.zip("O"_s, plus, s.O);
          b.store("out"_s, a.o, head, row0, O, v0);
        });
  }
};

/// Cotangents of a chunk's writes, from those of its outputs: one block per chunk and DV value columns.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct ChannelDeltaReads {
  using Rule = ChannelRule<B, C, DK, DV>;
  struct Args {
    typename Rule::Inputs in;
    typename B::In o_cotangent;
    typename B::Out reads;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> X;
    typename B::template Tile<"dO", C, DV> dO;
    typename B::template Tile<"gamma", C, DV> gamma;
    typename B::template Tile<"alpha", C, DV> alpha;
    typename B::template Tile<"M", C, C> M;
    typename B::template Tile<"F", C, DV> F;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = head / a.in.group, row0 = block / a.in.blocks * C, v0 = block % a.in.blocks * DV;
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.in.q, shared, row0);
          b.load(s.X, a.in.x, shared, row0);
          b.load(s.dO, a.o_cotangent, head, row0, v0);
          b.load(s.gamma, a.in.gamma, head, row0, v0);
        },
        [&](int, int) {
          Rule::put_decays(b, a.in, s.alpha, s.gamma, row0, v0);
          Rule::put_scores(b, s.M, s.Q, s.X);
          b.sync();
          value_sums_back(b, "F"_s, "decay"_s, s.F, s.M, s.dO, s.alpha);
          b.sync();
          auto F = in_registers(b, "F"_s, s.F);
          b.store("F"_s, a.reads, head, row0, F, v0);
        });
  }
};

/// The cotangents f of the errors of all chunks and that of the state after each, from the last: one block per head and
/// per DV value columns.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST>
struct ChannelDeltaAdjoints {
  using Rule = ChannelRule<B, C, DK, DV>;
  struct Args {
    typename Rule::Inputs in;
    typename B::In o_cotangent, final_cotangent, reads;
    typename B::Out cotangents, adjoints, initial_gradient;  // adjoints: DK rows for every chunk
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q[ST];
    typename B::template Tile<"K", C, DK> X[ST];
    typename B::template Tile<"dO", C, DV> dO[ST];
    typename B::template Tile<"F", C, DV> reads[ST];
    typename B::template Tile<"eta", C, DV> eta[ST];
    typename B::template Tile<"gamma", C, DV> gamma[ST];
    typename B::template Tile<"dfinal", DK, DV> dfinal;
    typename B::template Tile<"Gc", DK, DV> G;
    typename B::template Tile<"alpha", C, DV> alpha;
    typename B::template Tile<"alpha", C, DV> a;
    typename B::template Tile<"alpha", C, DV> lagged;
    typename B::template Tile<"alpha", C, DV> z;
    typename B::template Tile<"N", C, C> N;
    typename B::template Tile<"Y", C, DV> Y;
    typename B::template Tile<"F", C, DV> F;
    typename B::template Tile<"Fc", C, DV> P;
    typename B::template Tile<"adOc", C, DV> adO;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = head / a.in.group, v0 = block * DV, chunks = imax(1, ceil_div(a.in.len, C));
    const auto start = [&](auto zero, auto g) { return b.planted("final_cotangent_dropped"_s, g, zero); };
    const auto carried = [&](auto g, auto decay) { return b.planted("adjoint_not_decayed"_s, g * decay, g); };
    auto G = b.acc("G"_s, Shape<DK, DV>{});
    b.load(s.dfinal, a.final_cotangent, head, 0, v0);
    b.pipeline(
        Shape<ST>{}, chunks,
        [&](int i, int st) {
          const int row0 = (chunks - 1 - i) * C;
          b.load(s.Q[st], a.in.q, shared, row0);
          b.load(s.X[st], a.in.x, shared, row0);
          b.load(s.dO[st], a.o_cotangent, head, row0, v0);
          b.load(s.reads[st], a.reads, head, row0, v0);
          b.load(s.eta[st], a.in.eta, head, row0, v0);
          b.load(s.gamma[st], a.in.gamma, head, row0, v0);
        },
        [&](int i, int st) {
          const int j = chunks - 1 - i;
          if (i == 0) G.zip("G"_s, start, s.dfinal);
          b.store("G"_s, a.adjoints, head, j * DK, G, v0);
          b.put(s.G, G);
          Rule::put_decays(b, a.in, s.alpha, s.gamma[st], j * C, v0);
          Rule::put_errors(b, s.N, s.X[st]);
          b.sync();
          b.channel_prefix("decay"_s, s.a, s.alpha);
          b.channel_prefix("decay"_s, s.lagged, s.alpha, 1);
          b.channel_suffix("decay"_s, s.z, s.alpha);
          auto Y = b.ab("KG"_s, s.X[st], s.G);
          b.sync();
          Y.zip("KG"_s, times, s.z);
          Y.zip("F"_s, plus, s.reads[st]);
          b.put(s.Y, Y);
          auto adO = in_registers(b, "adO"_s, s.dO[st]);
          adO.zip("adO"_s, times, s.a);
          b.put(s.adO, adO);
          b.sync();
          value_solve_back(b, "F"_s, "decay"_s, s.F, s.N, s.Y, s.eta[st], s.alpha);
          b.sync();
          auto F = in_registers(b, "F"_s, s.F);
          b.store("F"_s, a.cotangents, head, j * C, F, v0);
          F.zip("F"_s, times, s.eta[st]);
          F.map("F"_s, negative);
          F.zip("F"_s, times, s.lagged);
          b.put(s.P, F);
          G.map("G"_s, carried, b.column_of(b.channel_total("decay"_s, Shape<DV>{}, s.alpha, C)));
          b.sync();
          b.mma_atb(G, s.Q[st], s.adO);
          b.mma_atb(G, s.X[st], s.P);
        });
    b.store("initial"_s, a.initial_gradient, head, 0, G, v0);
  }
};

/// Gradients of a chunk's tokens; dq and dx are this block's part, the value columns v0.. of its head: one block per
/// chunk and DV value columns.
template <ExecutorTypes B, Size C, Size DK, Size DV>
struct ChannelDeltaGradients {
  using Rule = ChannelRule<B, C, DK, DV>;
  struct Args {
    typename Rule::Inputs in;
    typename B::In states, errors, adjoints, cotangents, o_cotangent;
    typename B::Out dq, dx, dv, deta, dgamma;
    int key_parts;  // of dx for each head, those of the blocks first
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> X;
    typename B::template Tile<"dO", C, DV> dO;
    typename B::template Tile<"eta", C, DV> eta;
    typename B::template Tile<"gamma", C, DV> gamma;
    typename B::template Tile<"Sc", DK, DV> S;
    typename B::template Tile<"Gc", DK, DV> G;
    typename B::template Tile<"alpha", C, DV> alpha;
    typename B::template Tile<"alpha", C, DV> a;
    typename B::template Tile<"alpha", C, DV> lagged;
    typename B::template Tile<"alpha", C, DV> z;
    typename B::template Tile<"N", C, C> N;
    typename B::template Tile<"M", C, C> M;
    typename B::template Tile<"U", C, DV> U;
    typename B::template Tile<"zUc", C, DV> zU;
    typename B::template Tile<"F", C, DV> minus_dv;
    typename B::template Tile<"Fc", C, DV> P;
    typename B::template Tile<"adOc", C, DV> adO;
    typename B::template Tile<"from", C, DV> at;
    typename B::template Tile<"from", C, DV> behind;
    typename B::template Tile<"from", C, DV> before;
    typename B::template Tile<"gates", C, DV> dgamma;
    typename B::template Tile<"dM", C, C> dM;
    typename B::template Tile<"dM", C, C> dN;
    typename B::template Tile<"Mc", C, C> Mc;
    typename B::template Tile<"Mc", C, C> Nc;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = head / a.in.group, chunk = block / a.in.blocks;
    const Place at{head, head * a.in.blocks + block % a.in.blocks, block % a.in.blocks * DV, chunk * C};
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.in.q, shared, at.row0);
          b.load(s.X, a.in.x, shared, at.row0);
          b.load(s.dO, a.o_cotangent, head, at.row0, at.v0);
          b.load(s.eta, a.in.eta, head, at.row0, at.v0);
          b.load(s.gamma, a.in.gamma, head, at.row0, at.v0);
        },
        [&](int, int) {
          b.put(s.S, b.load_acc("H"_s, Shape<DK, DV>{}, a.states, head, chunk * DK, at.v0));
          b.put(s.G, b.load_acc("G"_s, Shape<DK, DV>{}, a.adjoints, head, chunk * DK, at.v0));
          Rule::put_decays(b, a.in, s.alpha, s.gamma, at.row0, at.v0);
          Rule::put_errors(b, s.N, s.X);
          Rule::put_scores(b, s.M, s.Q, s.X);
          b.sync();
          b.channel_prefix("decay"_s, s.a, s.alpha);
          b.channel_prefix("decay"_s, s.lagged, s.alpha, 1);
          b.channel_suffix("decay"_s, s.z, s.alpha);
          auto XS = b.ab("W"_s, s.X, s.S), QS = b.ab("O"_s, s.Q, s.S), XG = b.ab("KG"_s, s.X, s.G);
          b.sync();
          put_writes_and_cotangents(b, s, a, at, XS, XG);
          QS.zip("from"_s, times, s.dO);
          b.put(s.at, QS);
          auto adO = in_registers(b, "adO"_s, s.dO);
          adO.zip("adO"_s, times, s.a);
          b.put(s.adO, adO);
          b.sync();
          through_scores(b, s);
          store_keys(b, s, a, at, head * a.key_parts + block % a.in.blocks);
          b.sync();
          b.store("dgamma"_s, a.dgamma, head, at.row0, in_registers(b, "gates"_s, s.dgamma), at.v0);
        });
  }

 private:
  struct Place {
    int head, part, v0, row0;
  };

  /// U and the cotangents F, and what they make of deta, dv and the terms of the decays.
  template <class Ex, class Values>
  TILE_FN static void put_writes_and_cotangents(Ex& b, Smem& s, const Args& a, const Place& at, Values& XS,
                                                Values& XG) {
    auto R = b.load_acc("R"_s, Shape<C, DV>{}, a.errors, at.head, at.row0, at.v0), U = R;
    U.zip("U"_s, times, s.eta);
    b.put(s.U, U);
    XG.zip("from"_s, times, U);
    b.put(s.before, XG);
    U.zip("U"_s, times, s.z);
    b.put(s.zU, U);
    auto F = b.load_acc("F"_s, Shape<C, DV>{}, a.cotangents, at.head, at.row0, at.v0);
    if (b.planted("deta_without_writes"_s, false, true)) {
      auto V = b.load_acc("V"_s, Shape<C, DV>{}, a.in.v, at.head, at.row0, at.v0);
      R = XS;
      R.zip("W"_s, times, s.lagged);
      R.zip("W"_s, taken_from, V);
    }
    R.zip("deta"_s, times, F);
    b.store("deta"_s, a.deta, at.head, at.row0, R, at.v0);
    F.zip("F"_s, times, s.eta);
    b.store("out"_s, a.dv, at.head, at.row0, F, at.v0);
    F.map("F"_s, negative);
    b.put(s.minus_dv, F);
    XS.zip("from"_s, times, F);
    b.put(s.behind, XS);
    F.zip("F"_s, times, s.lagged);
    b.put(s.P, F);
  }
  /// The cotangents of N and M, and the gradients of the decays in both.
  template <class Ex>
  TILE_FN static void through_scores(Ex& b, Smem& s) {
    b.channel_scores("dM"_s, "decay"_s, s.dM, s.dO, s.U, s.alpha);
    b.channel_scores("dM"_s, "decay"_s, s.dN, s.minus_dv, s.U, s.alpha, 1);
    value_end_gates(b, "gates"_s, "decay"_s, s.dgamma, s.at, s.behind, s.before, s.S, s.G, s.lagged, s.z, s.alpha);
    b.sync();
    b.put(s.Mc, in_registers(b, "dM"_s, s.dM));
    auto dN = in_registers(b, "dM"_s, s.dN);
    dN.mask(strictly_lower, 0);
    b.put(s.Nc, dN);
    value_gates(b, "gates"_s, "decay"_s, s.dgamma, s.M, s.dO, s.U, s.alpha);
    b.sync();
    if (b.planted("dgamma_without_errors"_s, true, false))
      value_gates(b, "gates"_s, "decay"_s, s.dgamma, s.N, s.minus_dv, s.U, s.alpha, 1);
  }
  template <class Ex>
  TILE_FN static void store_keys(Ex& b, Smem& s, const Args& a, const Place& at, int key_part) {
    auto dQ = b.abt("dQ"_s, s.adO, s.S);
    b.mma(dQ, s.Mc, s.X);
    b.store("part"_s, a.dq, at.part, at.row0, dQ);
    auto dX = b.abt("dK"_s, s.zU, s.G);
    b.mma_abt(dX, s.P, s.S);
    b.mma_atb(dX, s.Mc, s.Q);
    b.mma(dX, s.Nc, s.X);
    b.mma_atb(dX, s.Nc, s.X);
    b.store("part"_s, a.dx, key_part, at.row0, dX);
  }
};

inline constexpr SiteTable::Init channel_rule_site_list[] = {
    {"Q", Role::operand},          {"K", Role::operand},           {"V", Role::operand},
    {"dO", Role::operand},         {"Sc", Role::operand},          {"Gc", Role::operand},
    {"zUc", Role::operand},        {"Fc", Role::operand},          {"adOc", Role::operand},
    {"Mc", Role::operand},         {"beta", Role::gate},           {"decay", Role::gate},
    {"alpha", Role::gate},         {"dbeta", Role::gate},          {"deta", Role::gate},
    {"dgamma", Role::gate},        {"KK", Role::accumulator},      {"QK", Role::accumulator},
    {"N", Role::accumulator},      {"M", Role::accumulator},       {"W", Role::accumulator},
    {"R", Role::accumulator},      {"U", Role::accumulator},       {"O", Role::accumulator},
    {"S0", Role::accumulator},     {"S", Role::accumulator},       {"H", Role::accumulator},
    {"dfinal", Role::accumulator}, {"G", Role::accumulator},       {"KG", Role::accumulator},
    {"Y", Role::accumulator},      {"F", Role::accumulator},       {"from", Role::accumulator},
    {"gates", Role::accumulator},  {"dM", Role::accumulator},      {"adO", Role::accumulator},
    {"dQ", Role::accumulator},     {"dK", Role::accumulator},      {"part", Role::accumulator},
    {"final", Role::accumulator},  {"initial", Role::accumulator}, {"out", Role::output}};
inline constexpr SiteTable falcon2_sites = SiteTable(channel_rule_site_list).with(falcon_gain_site_list);

}  // namespace assay::tile
