#pragma once
// Softmax attention as tile programs (lla-family.md sections 0 to 2). Query i sees the keys j in J_i; h is the
// bandwidth.
//   scores     s_ij = q_i.k_j / h, kept in base 2: x_ij = (log2(e) / h) q_i.k_j
//   forward    p_ij = 2^(x_ij - lse_i),  lse_i = log2 sum_j 2^x_ij,  o_i = sum_j p_ij v_j
//   streaming  m' = max(m, max_tile x),  alpha = 2^(m - m'),  l' = alpha l + sum 2^(x - m'),
//              O' = alpha O + sum 2^(x - m') v;   at the end o = O / l,  lse = m + log2 l
//   merge      of partial results (m, l, O): m = max m_a,  l = sum 2^(m_a - m) l_a,  O = sum 2^(m_a - m) O_a
//   backward   a_ij = g_i.v_j,  delta_i = g_i.o_i,  D_ij = p_ij (a_ij - delta_i),  dv_j = sum_i p_ij g_i,
//              dq_i = 1/h sum_j D_ij k_j,  dk_j = 1/h sum_i D_ij q_i,  dh = -(ln 2 / h) sum_ij D_ij log2 p_ij
// The rows of D sum to zero, so that log p stands in for s in dh: no offset of the scores can cancel there.
// Changes of scores, hidden keys and additions to the sum are steps of `Scores` (kernels/programs/scores.hpp).
// Query head a reads key/value head a / group. A row that sees nothing has o = 0, lse = -inf and gradients 0.
#include "kernels/core/functions.hpp"
#include "kernels/core/operand_units.hpp"
#include "kernels/programs/scores.hpp"
#include "kernels/programs/split_decode.hpp"

namespace assay::tile {

/// The faults of this room's masks.
template <class X, class Sees>
TILE_FN Sees softmax_visibility(X& b, Sees sees) {
  sees.ahead = b.planted("mask_one_key_more"_s, 0, 1);
  sees.window += b.planted("window_one_wider"_s, 0, sees.window > 0);
  return sees;
}

/// One query tile over its key tiles: o, and lse if wanted. Keys run one step ahead of values: the products of the next
/// scores and of this step's values are in flight together, while the next weights are computed.
template <ExecutorTypes B, Size BM, Size BN, Size D, int ST, class Scores = PlainScores>
struct SoftmaxForward {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, v;
    typename B::Out o;
    typename B::RowOut lse;
    Real scale;  // log2(e) / h
    typename Scores::Sees sees;
    int group, kv_heads;
    const OperandUnits<Real>* units;  // [kv heads]
    typename Scores::template Args<B> scores;
  };
  struct Smem {
    typename B::template Tile<"Q", BM, D> Q;
    typename B::template Tile<"K", BN, D> K[ST];
    typename B::template Tile<"V", BN, D> V[ST];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int head, int q0) {
    const auto sees = softmax_visibility(b, Scores::windows(b, a.sees));
    const int kv = b.planted("kv_head_modulo"_s, head / a.group, head % a.kv_heads);
    const auto unit = b.units("Q"_s, a.units, b.planted("scale_of_other_head"_s, kv, (kv + 1) % a.kv_heads));
    typename Scores::template Step<X, B, BM> scores(b, a.scores, unit.query * unit.key, head, q0);
    const Real scale = scores.factor(b.planted("scale_twice"_s, a.scale, a.scale * a.scale) * (unit.query * unit.key));
    const Real undo = unit.value / b.planted("p_scale_not_undone"_s, unit.weight, Real{1});
    const int j0 = sees.first_key(q0) / BN, last = sees.last_key(q0 + BM);
    auto O = b.acc("O"_s, Shape<BM, D>{});
    auto m = scores.first_maximum();
    auto l = b.partial("l"_s, Shape<BM>{});
    const auto one = b.row("alpha"_s, Shape<BM>{}, 1);
    const auto top = [&](auto m0, auto s1) { return maxi(m0, s1 * scale); };
    const auto weight = [&](auto y, auto m1) { return ex2(y * scale - m1); };
    const auto inverse = [&](auto y) { return y > 0 ? undo / y : 0; };
    // Weights of step j in place of its scores; returns what O is rescaled by.
    const auto weigh = [&](auto& S, int j) {
      const int k0 = (j0 + j) * BN;
      scores.enter(S, head, k0);
      if (!sees.all(q0, q0 + BM, k0, k0 + BN)) S.mask([&](int r, int c) { return sees(q0 + r, k0 + c); }, -INFINITY);
      scores.hide(S, head, k0, -INFINITY);
      auto mx = b.rows("m"_s, top, m, S.row_max());
      if (b.planted("stale_max"_s, false, j > 0)) mx = m;
      const auto shift = b.rows("m"_s, finite_or_zero, mx);
      const auto alpha = b.rows("alpha"_s, rescaling, m, shift);
      S.map("p"_s, weight, shift);
      l.fold(b.planted("denominator_not_rescaled"_s, alpha, one), S);
      m = mx;
      return alpha;
    };
    const int n = b.planted("tail_tile_dropped"_s, ceil_div(last, BN), last / BN) - j0;
    auto P = b.cast("P"_s, b.acc("S"_s, Shape<BM, BN>{}));
    b.load(s.Q, a.q, head, q0);
    b.pipeline(
        Shape<ST>{}, n > 0 ? n + 1 : 0,
        [&](int j, int st) {
          if (j < n) b.load(s.K[st], a.k, kv, (j0 + j) * BN);
          if (j > 0) b.load(s.V[st], a.v, kv, (j0 + j - 1) * BN);
        },
        [&](int j, int st, First) {
          auto S = b.abt("S"_s, s.Q, s.K[st]);
          weigh(S, j);
          P = cast_weights(b, "P"_s, "p"_s, S, unit.weight);
        },
        [&](int j, int st, Middle) {
          auto S = b.exclusive([&] {
            auto products = b.abt_async("S"_s, s.Q, s.K[st]);
            b.mma_async(O, P, s.V[st]);
            return products;
          });
          b.await(S);
          const auto alpha = weigh(S, j);
          b.await(O);
          O.scale(b.planted("accumulator_not_rescaled"_s, alpha, one));
          P = cast_weights(b, "P"_s, "p"_s, S, unit.weight);
        },
        [&](int, int st, Last) { b.mma(O, P, s.V[st]); });
    const auto z = scores.mass(l.total(), m);
    O.scale(b.rows("inv"_s, inverse, z));
    b.store_row("lse"_s, a.lse, head, q0, scores.store_lse(b.rows("lse"_s, log_sum, z, m)));
    b.store("out"_s, a.o, head, q0, O);
  }
};

/// Backward, first pass: one query tile over its key tiles gives delta_i, dq_i and sum_j D_ij log2 p_ij.
template <ExecutorTypes B, Size BM, Size BN, Size D, int ST, class Scores = PlainScores>
struct SoftmaxBackwardQuery {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, v, o, g;
    typename B::RowIn lse;
    typename B::RowOut delta, dh;
    typename B::Out dq;
    Real scale, inv_bandwidth;  // log2(e) / h, 1 / h
    typename Scores::Sees sees;
    int group, kv_heads;
    const OperandUnits<Real>* units;
    typename Scores::template Args<B> scores;
  };
  struct Smem {
    typename B::template Tile<"Q", BM, D> Q;
    typename B::template Tile<"dO", BM, D> G;
    typename B::template Tile<"Oin", BM, D> O;
    typename B::template Tile<"K", BN, D> K[ST];
    typename B::template Tile<"V", BN, D> V[ST];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int head, int q0) {
    const auto sees = softmax_visibility(b, Scores::windows(b, a.sees));
    const int kv = b.planted("kv_head_modulo"_s, head / a.group, head % a.kv_heads);
    const int j0 = sees.first_key(q0) / BN;
    const auto unit = b.units("Q"_s, a.units, kv);
    typename Scores::template Step<X, B, BM> scores(b, a.scores, unit.query * unit.key, head, q0);
    const Real scale = scores.factor(a.scale * (unit.query * unit.key));
    auto dQ = b.acc("dQ"_s, Shape<BM, D>{});
    auto dh = b.partial("dh"_s, Shape<BM>{});
    auto delta = scores.of_lse("delta"_s, b.row("delta"_s, Shape<BM>{}, 0));
    const auto one = b.row("dh"_s, Shape<BM>{}, 1);
    const auto lse = b.rows("lse"_s, finite_or_zero, b.load_row("lse"_s, Shape<BM>{}, a.lse, head, q0));
    const auto log_weight = [&](auto y, auto z) { return y * scale - z; };
    const auto score_gradient = [&](auto a_ij, auto p, auto delta_i) { return p * (a_ij * unit.value - delta_i); };

    b.load(s.Q, a.q, head, q0);
    b.load(s.G, a.g, head, q0);
    b.load(s.O, a.o, head, q0);
    b.pipeline(
        Shape<ST>{}, ceil_div(sees.last_key(q0 + BM), BN) - j0,
        [&](int j, int st) {
          b.load(s.K[st], a.k, kv, (j0 + j) * BN);
          b.load(s.V[st], a.v, kv, (j0 + j) * BN);
        },
        [&](int j, int st) {
          const int k0 = (j0 + j) * BN;
          if (j == 0) {
            auto O = b.acc("og"_s, Shape<BM, D>{}), G = O;
            O.zip("og"_s, copy, s.O);
            G.zip("og"_s, copy, s.G);
            delta = scores.of_lse("delta"_s, b.planted("delta_omitted"_s, b.dot("delta"_s, O, G), delta));
          }
          auto L = b.abt_async("S"_s, s.Q, s.K[st]);
          auto dS = b.abt_async("dP"_s, s.G, s.V[st]);
          b.await(L);
          auto entered = scores.enter(L, head, k0);
          L.map("logp"_s, log_weight, lse);
          auto P = L;
          P.map("p"_s, [](auto x) { return ex2(x); });
          if (!sees.all(q0, q0 + BM, k0, k0 + BN)) P.mask([&](int r, int c) { return sees(q0 + r, k0 + c); }, 0);
          scores.hide(P, head, k0, 0);
          b.await(dS);
          dS.zip("D"_s, score_gradient, P, delta);
          scores.leave(dS, entered, head, k0);
          scores.fold_scale(dh, one, L, dS, entered);
          b.mma(dQ, b.cast("dS"_s, dS), s.K[st]);
        });
    const Real inv_h = b.planted("dq_without_scale"_s, a.inv_bandwidth, Real{1});
    dQ.map("dq"_s, [&](auto x) { return x * (inv_h * unit.key); });
    b.store_row("delta"_s, a.delta, head, q0, delta);
    b.store_row("dh"_s, a.dh, head, q0, dh.total());
    scores.store_gradients(lse, delta);
    b.store("out"_s, a.dq, head, q0, dQ);
  }
};

/// Backward, second pass: one key tile over the query tiles of every head that reads it. The scores are transposed,
/// keys by queries, so that P^T and D^T are left factors as they stand. As in the first pass, the products of a_ij are
/// in flight while the weights are computed.
template <ExecutorTypes B, Size BM, Size BN, Size D, int ST, class Scores = PlainScores>
struct SoftmaxBackwardKey {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, v, g;
    typename B::RowIn lse, delta;
    typename B::Out dk, dv;
    Real scale, inv_bandwidth;
    typename Scores::Sees sees;
    int group, kv_heads;
    const OperandUnits<Real>* units;
    typename Scores::template Args<B> scores;
  };
  struct Smem {
    typename B::template Tile<"K", BN, D> K;
    typename B::template Tile<"V", BN, D> V;
    typename B::template Tile<"Q", BM, D> Q[ST];
    typename B::template Tile<"dO", BM, D> G[ST];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int kv, int k0) {
    const auto sees = softmax_visibility(b, Scores::windows(b, a.sees));
    const int i0 = sees.first_row(k0) / BM, tiles = ceil_div(sees.last_row(k0 + BN), BM) - i0;
    const auto unit = b.units("Q"_s, a.units, kv);
    typename Scores::template Step<X, B, BN, true> scores(b, a.scores, unit.query * unit.key, kv, k0);
    const Real scale = scores.factor(a.scale * (unit.query * unit.key));
    auto dK = b.acc("dK"_s, Shape<BN, D>{});
    auto dV = b.acc("dV"_s, Shape<BN, D>{});
    const auto weight = [&](auto y, auto z) { return ex2(y * scale - z); };
    const auto score_gradient = [&](auto a_ij, auto p, auto delta_i) { return p * (a_ij * unit.value - delta_i); };

    b.load(s.K, a.k, kv, k0);
    b.load(s.V, a.v, kv, k0);
    b.pipeline(
        Shape<ST>{}, b.planted("dk_one_head_of_group"_s, a.group, 1) * tiles,
        [&](int j, int st) {
          b.load(s.Q[st], a.q, kv * a.group + j / tiles, (i0 + j % tiles) * BM);
          b.load(s.G[st], a.g, kv * a.group + j / tiles, (i0 + j % tiles) * BM);
        },
        [&](int j, int st) {
          const int head = kv * a.group + j / tiles, q0 = (i0 + j % tiles) * BM;
          auto P = b.abt_async("S"_s, s.K, s.Q[st]);
          auto dS = b.abt_async("dP"_s, s.V, s.G[st]);
          const auto lse = b.load_col("lse"_s, Shape<1, BM>{}, a.lse, head, q0);
          b.await(P);
          const auto entered = scores.enter(P, head, q0);
          P.map("p"_s, weight, lse);
          if (!sees.all(q0, q0 + BM, k0, k0 + BN)) P.mask([&](int r, int c) { return sees(q0 + c, k0 + r); }, 0);
          scores.hide(P, head, q0, 0);
          auto weights = b.cast("P"_s, P);
          b.mma_async(dV, weights, s.G[st]);
          const auto delta = b.load_col("delta"_s, Shape<1, BM>{}, a.delta, head, q0);
          b.await(dS);
          dS.zip("D"_s, score_gradient, P, delta);
          scores.leave(dS, entered, head, q0);
          b.mma(dK, b.cast("dS"_s, dS), s.Q[st]);
          b.await(dV);
        });
    dK.map("dk"_s, [&](auto x) { return x * (a.inv_bandwidth * unit.query); });
    b.store("out"_s, a.dk, kv, k0, dK);
    b.store("out"_s, a.dv, kv, k0, dV);
  }
};

inline constexpr SiteTable::Init softmax_tiled_roles[] = {
    {"Q", Role::operand},        {"K", Role::operand},          {"V", Role::operand},
    {"scale", Role::gate},       {"S", Role::accumulator},      {"m", Role::gate},
    {"alpha", Role::gate},       {"p", Role::accumulator},      {"P", Role::operand},
    {"l", Role::accumulator},    {"O", Role::accumulator},      {"inv", Role::gate},
    {"lse", Role::gate},         {"out", Role::output},         {"dO", Role::operand},
    {"Oin", Role::output},       {"og", Role::accumulator},     {"delta", Role::gate},
    {"logp", Role::accumulator}, {"dP", Role::accumulator},     {"D", Role::accumulator},
    {"dS", Role::operand},       {"dQ", Role::accumulator},     {"dK", Role::accumulator},
    {"dV", Role::accumulator},   {"inv_bandwidth", Role::gate}, {"dq", Role::accumulator},
    {"dk", Role::accumulator},   {"dh", Role::accumulator},     {"descale", Role::gate}};
/// Sites of forward and backward. Oin is o read back by the backward, in the format that the forward stored.
inline constexpr SiteTable softmax_tiled_sites(softmax_tiled_roles);

/// Decoding: the query rows of all heads that share a key/value head, BM of them, against one span of the keys. Row r
/// of the packed rows is query r % queries of its head. Gives the partial result (m, l, O), O in units of V and P.
template <ExecutorTypes B, Size BM, Size BN, Size D, int ST, class Scores = PlainScores>
struct SoftmaxSplit {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, v;  // q: [kv heads][group * queries][K]
    typename B::Out o;       // [kv heads * splits][group * queries][V]
    typename B::RowOut m, l;
    Real scale;
    typename Scores::Sees sees;
    int splits, span;  // span: keys of one split, a multiple of BN
    const OperandUnits<Real>* units;
    typename Scores::template Args<B> scores;
  };
  struct Smem {
    typename B::template Tile<"Q", BM, D> Q;
    typename B::template Tile<"K", BN, D> K[ST];
    typename B::template Tile<"V", BN, D> V[ST];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int kv, int x) {
    auto sees = Scores::windows(b, a.sees);
    sees.ahead = b.planted("mask_one_key_less"_s, 0, -1);
    sees.window = b.planted("window_dropped"_s, sees.window, 0);
    const auto unit = b.units("Q"_s, a.units, kv);
    const int r0 = x / a.splits * BM, split = x % a.splits;
    typename Scores::template Step<X, B, BM> scores(b, a.scores, unit.query * unit.key, kv, r0);
    const Real log_2 = Real{0.6931471805599453};
    const Real scale =
        scores.factor(b.planted("exp2_without_log2e"_s, a.scale, a.scale * log_2) * (unit.query * unit.key));
    const int first = imax(split * a.span, sees.first_key(0)), j0 = first / BN;
    const int end = (split + 1) * a.span + b.planted("split_one_tile_longer"_s, 0, BN);
    const int last = imin(end, sees.last_key(sees.queries));
    auto O = b.acc("O"_s, Shape<BM, D>{});
    auto m = scores.maximum_of_split();
    auto l = b.partial("l"_s, Shape<BM>{});
    const auto top = [&](auto m0, auto s1) { return maxi(m0, s1 * scale); };
    const auto weight = [&](auto y, auto m1) { return ex2(y * scale - m1); };

    b.load(s.Q, a.q, kv, r0);
    b.pipeline(
        Shape<ST>{}, imax(0, ceil_div(last, BN) - j0),
        [&](int j, int st) {
          b.load(s.K[st], a.k, kv, (j0 + j) * BN);
          b.load(s.V[st], a.v, kv, (j0 + j) * BN);
        },
        [&](int j, int st) {
          const int k0 = (j0 + j) * BN;
          auto S = b.abt("S"_s, s.Q, s.K[st]);
          scores.enter(S, kv, k0);
          if (!sees.all(0, sees.queries, k0, k0 + BN))
            S.mask([&](int r, int c) { return sees((r0 + r) % sees.queries, k0 + c); }, -INFINITY);
          scores.hide(S, kv, k0, -INFINITY);
          const auto mx = b.rows("m"_s, top, m, S.row_max());
          const auto shift = b.rows("m"_s, finite_or_zero, mx);
          const auto alpha = b.rows("alpha"_s, rescaling, m, shift);
          S.map("p"_s, weight, shift);
          l.fold(alpha, S);
          O.scale(alpha);
          b.mma(O, cast_weights(b, "P"_s, "p"_s, S, unit.weight), s.V[st]);
          m = mx;
        });
    b.store("Opart"_s, a.o, kv * a.splits + split, r0, O);
    b.store_row("m"_s, a.m, kv * a.splits + split, r0, m);
    b.store_row("l"_s, a.l, kv * a.splits + split, r0, scores.mass_of_split(l.total(), m));
  }
};

/// Merges the partial results of BM packed rows and DV columns over the splits, in their order; G splits are loaded at
/// a time, for the time of one.
template <ExecutorTypes B, Size BM, Size DV, int G, int ST, class Scores = PlainScores>
struct SoftmaxMerge {
  using Real = typename B::Real;
  struct Args {
    typename B::In o;
    typename B::RowIn m, l;
    typename B::Out out;  // [kv heads][group * queries][V]
    int splits, columns;  // columns: blocks of DV
    const OperandUnits<Real>* units;
    typename Scores::template Args<B> scores;
  };
  struct Smem {
    typename B::template Tile<"Opart", BM, DV> O[ST][G];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int kv, int x) {
    const int r0 = x / a.columns * BM, v0 = x % a.columns * DV;
    const auto unit = b.units("Q"_s, a.units, kv);
    const Real undo = b.planted("descale_dropped"_s, unit.value, Real{1}) / unit.weight;
    auto O = b.acc("O"_s, Shape<BM, DV>{});
    typename Scores::template Step<X, B, BM> scores(b, a.scores, 1, kv, r0);
    auto m = scores.first_maximum();
    auto l = scores.first_mass();
    const auto one = b.row("alpha"_s, Shape<BM>{}, 1);
    const auto inverse = [&](auto y) { return y > 0 ? undo / y : 0; };
    const auto sum = [](auto y0, auto c0, auto y1, auto c1) { return y0 * c0 + y1 * c1; };
    const int splits = b.planted("last_split_dropped"_s, a.splits, imax(1, a.splits - 1));
    const auto part = [&](int split) { return kv * a.splits + imin(split, splits - 1); };
    b.pipeline(
        Shape<ST>{}, ceil_div(splits, G),
        [&](int j, int st) {
          for (int u = 0; u < G; ++u) b.load(s.O[st][u], a.o, part(j * G + u), r0, v0);
        },
        [&](int j, int st) {
          decltype(b.load_row("m"_s, Shape<BM>{}, a.m, 0, 0)) mj[G];
          decltype(b.load_row("l"_s, Shape<BM>{}, a.l, 0, 0)) lj[G];
          unrolled<G>([&](int u) {
            mj[u] = b.load_row("m"_s, Shape<BM>{}, a.m, part(j * G + u), r0);
            lj[u] = b.load_row("l"_s, Shape<BM>{}, a.l, part(j * G + u), r0);
          });
          unrolled<G>([&](int u) {
            if (j * G + u >= splits) return;
            const auto mx = b.rows("m"_s, larger, m, mj[u]);
            const auto shift = b.rows("m"_s, finite_or_zero, mx);
            const auto old = b.rows("alpha"_s, rescaling, m, shift);
            const auto now = b.rows("alpha"_s, rescaling, mj[u], shift);
            O.scale(b.planted("merge_without_rescale"_s, old, one));
            O.zip("O"_s, plus_times, s.O[st][u], now);
            l = b.rows("l"_s, sum, l, b.planted("denominator_not_rescaled"_s, old, one), lj[u], now);
            m = mx;
          });
        });
    O.scale(b.rows("inv"_s, inverse, l));
    if (v0 == 0) scores.store_lse(l, m);
    b.store("out"_s, a.out, kv, r0, O, v0);
  }
};

inline constexpr SiteTable::Init softmax_decode_roles[] = {
    {"Q", Role::operand},     {"K", Role::operand},     {"V", Role::operand},     {"scale", Role::gate},
    {"S", Role::accumulator}, {"m", Role::gate},        {"alpha", Role::gate},    {"p", Role::accumulator},
    {"P", Role::operand},     {"l", Role::accumulator}, {"O", Role::accumulator}, {"Opart", Role::accumulator},
    {"inv", Role::gate},      {"out", Role::output},    {"descale", Role::gate}};
inline constexpr SiteTable softmax_decode_sites(softmax_decode_roles);

}  // namespace assay::tile
