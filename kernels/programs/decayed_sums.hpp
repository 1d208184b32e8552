#pragma once
// Values summed under their keys with one decay per token and read by the query (delta-family.md 3.3 without errors):
// the tile programs that linear attention, RetNet and Mamba-2 launch. Chunks of C tokens, in three phases, so that all
// chunks of a head run at once and only the second phase walks along the sequence. Decays are running products,
//   D_ij = prod_{j < l <= i} alpha_l,   a_i = prod_{l <= i} alpha_l,   z_j = prod_{l > j} alpha_l,   a_C = prod_l
//   alpha_l
// s is a scale per token, and with the state S before a chunk
//   W = K^T (z o V),   S <- a_C S + W,   P = lower(Q K^T) o D,   O = s o (a o Q S + P V)
// Backward, last chunk first, G the cotangent of the state after the chunk and Y = s o dO:
//   W = Q^T (a o Y),   G <- a_C G + W,   dP = lower(Y V^T),   M = dP o D
//   dQ = a o Y S^T + M K,   dK = (z o V) G^T + M^T Q,   dV = P^T Y + z o K G
// and each term is a term of the gradient of the log of every gate in its product:
//   dlog_decay_r = sum_{j < r <= i} (dP o P)_ij + sum_{i >= r} (a o Y S^T)_i . q_i + sum_{j < r} V_j . (z o K G)_j
//                + a_C <S, G>
// Blocks are pairs of a chunk and DV columns of the values, in this order. States lie in memory as operands: DK rows
// for each chunk. With `Decays` false all alpha are 1.
#include <type_traits>

#include "kernels/core/functions.hpp"
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// The products of a chunk's decays: up to every token, after it, and of all, DK times. Blocks are chunks.
template <ExecutorTypes B, Size C, Size DK>
struct ChunkDecays {
  struct Args {
    typename B::RowIn log_decay;
    typename B::RowOut up_to, after, totals;
    int len;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int chunk) {
    const int row0 = chunk * C, n = imin(C, a.len - row0), count = b.planted("tail_decay"_s, C, n < C ? n - 1 : n);
    b.store_row("decay"_s, a.up_to, head, row0, b.decay_prefix("decay"_s, Shape<C>{}, a.log_decay, head, row0));
    b.store_row("decay"_s, a.after, head, row0, b.decay_suffix("decay"_s, Shape<C>{}, a.log_decay, head, row0));
    b.store_row("decay"_s, a.totals, head, chunk * DK,
                b.decay_total("decay"_s, Shape<DK>{}, a.log_decay, head, row0, count));
  }
};

/// The state before every chunk, first chunk first, or the cotangent of the state after every chunk, last chunk first,
/// to which each adds W. `Tokens`: decays are of tokens, z in `decay` or, backward, a; `Channels`: keys and queries are
/// under those of their channels.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST, bool Tokens, bool Channels, bool Backward>
struct StatePass {
  struct Args {
    typename B::In left, right, start;  // forward: k, v; backward: q, dO
    typename B::RowIn decay, scale, totals;
    typename B::Out states, end;
    int len, group, shared_heads;
  };
  template <FixedString S, Size R, Size N>
  using Tile = typename B::template Tile<S, R, N>;
  using Keys = std::conditional_t<Channels, Tile<"zKc", C, DK>, Tile<"K", C, DK>>;
  using Queries = std::conditional_t<Channels, Tile<"aQc", C, DK>, Tile<"Q", C, DK>>;
  using Cotangents = std::conditional_t<Tokens, Tile<"aYc", C, DV>, Tile<"Yc", C, DV>>;
  struct Smem {
    std::conditional_t<Backward, Queries, Keys> left[ST];
    std::conditional_t<Backward, Tile<"dO", C, DV>, Tile<"V", C, DV>> right[ST];
    TileIf<Tokens || Backward, std::conditional_t<Backward, Cotangents, Tile<"zVc", C, DV>>> weighted;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int chunks = imax(1, ceil_div(a.len, C)), v0 = block * DV;
    const int shared = b.planted("head_modulo"_s, head / a.group, head % a.shared_heads);
    const auto chunk = [&](int i) { return Backward ? chunks - 1 - i : i; };
    auto S = b.acc("S"_s, Shape<DK, DV>{});
    b.pipeline(
        Shape<ST>{}, chunks,
        [&](int i, int st) {
          b.load(s.left[st], a.left, shared, chunk(i) * C);
          b.load(s.right[st], a.right, head, chunk(i) * C, v0);
        },
        [&](int i, int st) {
          const int j = chunk(i);
          if constexpr (Tokens || Backward) {
            auto x = in_registers(b, "X"_s, s.right[st]);
            if constexpr (Backward) x.map("X"_s, times, b.load_row("scale"_s, Shape<C>{}, a.scale, head, j * C));
            if constexpr (Tokens) x.map("X"_s, times, b.load_row("decay"_s, Shape<C>{}, a.decay, head, j * C));
            b.put(s.weighted, x);
          }
          if (i == 0 || (!Backward && b.planted("state_not_carried"_s, false, true))) start(b, a, S, head, v0);
          b.store("Sc"_s, a.states, head, j * DK, S, v0);
          decay(b, a, S, head, j);
          b.sync();
          b.mma_atb(S, s.left[st], chosen < Tokens || Backward > (s.weighted, s.right[st]));
        });
    b.store("end"_s, a.end, head, 0, S, v0);
  }

 private:
  template <class Ex, class State>
  TILE_FN static void start(Ex& b, const Args& a, State& S, int head, int v0) {
    const auto first = [&](auto zero, auto x) {
      if constexpr (Backward)
        return b.planted("final_cotangent_dropped"_s, x, zero);
      else
        return b.planted("initial_state_ignored"_s, x, zero);
    };
    auto given = b.load_acc("S0"_s, Shape<DK, DV>{}, a.start, head, 0, v0);
    S.zip("S"_s, first, given);
  }
  template <class Ex, class State>
  TILE_FN static void decay(Ex& b, const Args& a, State& S, int head, int chunk) {
    const auto carried = [&](auto x, auto decay) {
      if constexpr (Backward)
        return b.planted("adjoint_not_decayed"_s, x * decay, x);
      else
        return x * decay;
    };
    if constexpr (Tokens || Channels)
      S.map("S"_s, carried, b.load_row("decay"_s, Shape<DK>{}, a.totals, head, chunk * DK));
  }
};

/// The outputs that the queries read; `Divided`: sums that a denominator will divide stay as wide as they are.
template <ExecutorTypes B, Size C, Size DK, Size DV, bool Decays, bool Divided>
struct ChunkOutputs {
  struct Args {
    typename B::In q, k, v, states;
    typename B::RowIn log_decay, up_to, scale;
    typename B::Out o;
    int group, shared_heads, blocks;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> K;
    typename B::template Tile<"V", C, DV> V;
    typename B::template Tile<"Sc", DK, DV> S;
    TileIf<Decays, typename B::template Tile<"D", C, C>> D;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const int shared = b.planted("head_modulo"_s, head / a.group, head % a.shared_heads);
    const int chunk = block / a.blocks, v0 = block % a.blocks * DV;
    const auto scaled = [&](auto x, auto scale) { return b.planted("scale_twice"_s, x * scale, x * (scale + scale)); };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.Q, a.q, shared, chunk * C);
          b.load(s.K, a.k, shared, chunk * C);
          b.load(s.V, a.v, head, chunk * C, v0);
          b.load(s.S, a.states, head, chunk * DK, v0);
        },
        [&](int, int) {
          if constexpr (Decays) {
            const int lag = b.planted("decay_index_of_scores"_s, 0, 1);
            b.decay_ratios("decay"_s, s.D, a.log_decay, head, chunk * C, lag);
            b.sync();
          }
          auto P = b.abt("QK"_s, s.Q, s.K);
          if constexpr (Decays) P.zip("P"_s, times, s.D);
          P.mask([&](int r, int c) { return r >= c + b.planted("scores_exclude_self"_s, 0, 1); }, 0);
          auto O = b.ab("O"_s, s.Q, s.S);
          if constexpr (Decays) O.map("O"_s, times, b.load_row("decay"_s, Shape<C>{}, a.up_to, head, chunk * C));
          b.mma(O, b.cast("Pc"_s, P), s.V);
          O.map("o"_s, scaled, b.load_row("scale"_s, Shape<C>{}, a.scale, head, chunk * C));
          if constexpr (Divided)
            b.store("sums"_s, a.o, head, chunk * C, O, v0);
          else
            b.store("out"_s, a.o, head, chunk * C, O, v0);
        });
  }
};

/// Gradients of a chunk's tokens, the value columns in steps of DV. Those of queries and keys are this head's part,
/// unless no other shares them (`whole`). Blocks are chunks.
template <ExecutorTypes B, Size C, Size DK, Size DV, int ST, bool Decays>
struct ChunkGradients {
  struct Args {
    typename B::In q, k, v, states, adjoints, o_cotangent;
    typename B::RowIn log_decay, up_to, after, totals, scale;
    typename B::Out dq, dk, dq_parts, dk_parts, dv;
    typename B::RowOut dlog_decay;
    int group, steps, parts, part;  // parts of a head, and which this is
    bool whole;
  };
  struct Smem {
    typename B::template Tile<"Q", C, DK> Q;
    typename B::template Tile<"K", C, DK> K;
    typename B::template InTurn<typename B::template Tile<"V", C, DV>, typename B::template Tile<"zVc", C, DV>> V[ST];
    typename B::template InTurn<typename B::template Tile<"dO", C, DV>, typename B::template Tile<"Yc", C, DV>> Y[ST];
    typename B::template Tile<"Sc", DK, DV> S[ST];
    typename B::template Tile<"Sc", DK, DV> G[ST];
    [[no_unique_address]] TileIf<Decays, typename B::template InTurn<typename B::template Tile<"D", C, C>,
                                                                     typename B::template Tile<"dPP", C, C>>>
        D;
    typename B::template InTurn<typename B::template Tile<"Pc", C, C>, typename B::template Tile<"Mc", C, C>> scores;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int row0 = chunk * C;
    auto d = sums(b.acc("dQ"_s, Shape<C, DK>{}), b.acc("dK"_s, Shape<C, DK>{}), b.acc("dP"_s, Shape<C, C>{}),
                  b.partial(gate_site, Shape<C>{}), b.partial(gate_site, Shape<DK>{}));
    b.pipeline(
        Shape<ST>{}, a.steps,
        [&](int i, int st) {
          if (i == 0) {
            b.load(s.Q, a.q, head / a.group, row0);
            b.load(s.K, a.k, head / a.group, row0);
          }
          b.load(s.V[st].first, a.v, head, row0, i * DV);
          b.load(s.Y[st].first, a.o_cotangent, head, row0, i * DV);
          b.load(s.S[st], a.states, head, chunk * DK, i * DV);
          b.load(s.G[st], a.adjoints, head, chunk * DK, i * DV);
        },
        [&](int i, int st) {
          if (i == 0) put_scores(b, s, a, head, row0);
          of_values(b, s, a, {head, row0, i * DV, st}, d);
        });
    finish(b, s, a, head, chunk, d);
  }

 private:
  static constexpr auto gate_site = std::conditional_t<Decays, Site<"from">, Site<"dQ">>{};
  struct Place {
    int head, row0, v0, stage;
  };
  /// Over the values: dQ and dK through the states, dP, and the terms of gates at the end of the chunk and in the
  /// state.
  template <class Keys, class Scores, class Rows, class States>
  struct Sums {
    Keys q, k;
    Scores p;
    Rows at_end;
    States in_state;
  };
  template <class Keys, class Scores, class Rows, class States>
  TILE_FN static Sums<Keys, Scores, Rows, States> sums(Keys q, Keys k, Scores p, Rows at_end, States in_state) {
    return {q, k, p, at_end, in_state};
  }

  template <class Ex>
  TILE_FN static auto scores(Ex& b, Smem& s) {
    auto P = b.abt("QK"_s, s.Q, s.K);
    if constexpr (Decays) P.zip("P"_s, times, s.D.first);
    P.mask(lower, 0);
    return P;
  }
  template <class Ex>
  TILE_FN static void put_scores(Ex& b, Smem& s, const Args& a, int head, int row0) {
    if constexpr (Decays) {
      b.decay_ratios("decay"_s, s.D.first, a.log_decay, head, row0);
      b.sync();
    }
    b.put(s.scores.first, scores(b, s));
  }
  template <class Ex, class All>
  TILE_FN static void of_values(Ex& b, Smem& s, const Args& a, const Place& at, All& d) {
    auto& V = s.V[at.stage];
    auto& Y = s.Y[at.stage];
    auto y = in_registers(b, "X"_s, Y.first);
    y.map("X"_s, times, b.load_row("scale"_s, Shape<C>{}, a.scale, at.head, at.row0));
    b.put(Y.second, y);
    b.sync();
    b.mma_abt(d.p, Y.second, V.first);
    b.mma_abt(d.q, Y.second, s.S[at.stage]);
    auto KG = b.ab("KG"_s, s.K, s.G[at.stage]);
    auto zV = in_registers(b, "X"_s, V.first);
    if constexpr (Decays) {
      const auto after = b.load_row("decay"_s, Shape<C>{}, a.after, at.head, at.row0);
      KG.map("KG"_s, times, after);
      auto terms = KG;
      terms.zip("from"_s, times, zV);
      d.at_end.fold(b.row("from"_s, Shape<C>{}, 1), terms);
      auto in_state = in_registers(b, "from"_s, s.S[at.stage]);
      in_state.zip("from"_s, times, s.G[at.stage]);
      d.in_state.fold(b.row("from"_s, Shape<DK>{}, 1), in_state);
      zV.map("X"_s, times, after);
    }
    auto dV = b.atb("dV"_s, s.scores.first, Y.second);
    if (b.planted("dv_without_later_reads"_s, true, false)) dV.zip("dV"_s, plus, KG);
    b.store("out"_s, a.dv, at.head, at.row0, dV, at.v0);
    b.sync();
    b.put(V.second, zV);
    b.sync();
    b.mma_abt(d.k, V.second, s.G[at.stage]);
  }
  template <class Ex, class All>
  TILE_FN static void finish(Ex& b, Smem& s, const Args& a, int head, int chunk, All& d) {
    const auto to_query = [&](auto x, auto decay) { return b.planted("dq_not_decayed"_s, x * decay, x); };
    const int row0 = chunk * C, part = head * a.parts + a.part;
    d.p.mask(lower, 0);
    if constexpr (Decays) {
      d.q.map("dQ"_s, to_query, b.load_row("decay"_s, Shape<C>{}, a.up_to, head, row0));
      auto P = scores(b, s);
      P.zip("dPP"_s, times, d.p);
      d.p.zip("M"_s, times, s.D.first);
      b.put(s.D.second, P);
    }
    b.put(s.scores.second, d.p);
    b.sync();
    if constexpr (Decays) b.store_row("dlog_decay"_s, a.dlog_decay, part, row0, gates(b, s, a, head, chunk, d));
    b.mma(d.q, s.scores.second, s.K);
    b.mma_atb(d.k, s.scores.second, s.Q);
    if (a.whole) {
      b.store("out"_s, a.dq, head, row0, d.q);
      b.store("out"_s, a.dk, head, row0, d.k);
    } else {
      b.store("part"_s, a.dq_parts, part, row0, d.q);
      b.store("part"_s, a.dk_parts, part, row0, d.k);
    }
  }
  /// Gradients of the log decays, by what each of them decays.
  template <class Ex, class All>
  TILE_FN static auto gates(Ex& b, Smem& s, const Args& a, int head, int chunk, All& d) {
    const auto sum = [&](auto state, auto scores, auto row, auto end) {
      return b.planted("dlog_decay_without_state"_s, state, state * 0) +
             b.planted("dlog_decay_without_scores"_s, scores, scores * 0) + row + end;
    };
    const auto q = in_registers(b, "from"_s, s.Q);
    const auto total = b.load_row("decay"_s, Shape<DK>{}, a.totals, head, chunk * DK);
    auto from_state = b.rows("from"_s, times, d.in_state.total(), total);
    auto in_state = b.gates_of_total("gates"_s, Shape<C>{}, from_state);
    auto in_scores = b.gates_of_ratios("gates"_s, s.D.second);
    auto in_row = b.gates_of_prefix("gates"_s, b.dot("from"_s, q, d.q), b.planted("dlog_decay_index"_s, 0, 1));
    auto in_end = b.gates_of_suffix("gates"_s, d.at_end.total());
    return b.rows("gates"_s, sum, in_state, in_scores, in_row, in_end);
  }
};

/// The sites of these programs; rooms add those of what they do before and after.
inline constexpr SiteTable::Init decayed_sums_site_list[] = {
    {"Q", Role::operand},      {"K", Role::operand},      {"V", Role::operand},        {"dO", Role::operand},
    {"zVc", Role::operand},    {"aYc", Role::operand},    {"Yc", Role::operand},       {"Sc", Role::operand},
    {"Pc", Role::operand},     {"Mc", Role::operand},     {"scale", Role::gate},       {"X", Role::accumulator},
    {"S0", Role::accumulator}, {"S", Role::accumulator},  {"QK", Role::accumulator},   {"O", Role::accumulator},
    {"o", Role::accumulator},  {"dP", Role::accumulator}, {"KG", Role::accumulator},   {"dV", Role::accumulator},
    {"dQ", Role::accumulator}, {"dK", Role::accumulator}, {"part", Role::accumulator}, {"end", Role::accumulator},
    {"out", Role::output}};
inline constexpr SiteTable decayed_sums_sites{decayed_sums_site_list};

/// And those of the decays.
inline constexpr SiteTable::Init decay_site_list[] = {
    {"decay", Role::gate},    {"D", Role::gate},          {"dlog_decay", Role::gate},  {"P", Role::accumulator},
    {"M", Role::accumulator}, {"dPP", Role::accumulator}, {"from", Role::accumulator}, {"gates", Role::accumulator}};

}  // namespace assay::tile
