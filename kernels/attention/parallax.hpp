#pragma once
// Parallax as tile programs (lla-family.md section 2): softmax attention corrected along a probe rho_i. Query i sees
// the keys j in J_i; h is the bandwidth. The origin of t is 0 in every pass: tbar cached by one is used with t of
// another.
//   weights    x_ij = (log2(e) / h) q_i.k_j,  p_ij = 2^(x_ij - lse_i),  t_ij = rho_i.k_j,  tbar_i = sum_j p_ij t_ij
//   forward    o_i = sum_j p_ij (1 + tbar_i - t_ij) v_j,  vbar_i = sum_j p_ij v_j
//   streaming  m' = max(m, max_tile x),  alpha = 2^(m - m'),  P1 = 2^(x - m'),  P2 = P1 t,
//              d1' = alpha d1 + sum P1,  d2' = alpha d2 + sum P2,  O1' = alpha O1 + P1 V,  O2' = alpha O2 + P2 V;
//              at the end tbar = d2 / d1,  o = O1 / d1 (1 + tbar) - O2 / d1,  vbar = O1 / d1,  lse = m + log2 d1
//   covariance with t - c_i for t, about an origin c_i that follows the mean of t over the keys so far: a step to c + r
//              leaves d2 - r d1 and O2 - r O1, and at the end tbar = c + d2 / d1, o = O1 / d1 (1 + d2 / d1) - O2 / d1.
//              An offset of the keys is in c alone.
//   merge      of partial results (m, d1, d2, O1, O2): m = max m_a,  F = sum 2^(m_a - m) F_a for every other field
//   backward   a_ij = g_i.v_j,  tau_i = g_i.o_i,  beta_i = g_i.vbar_i,
//              D_ij = p_ij (a_ij - tau_i + (tbar_i - t_ij)(a_ij - beta_i)),  E_ij = -p_ij (a_ij - beta_i),
//              dq_i = 1/h sum_j D_ij k_j,  drho_i = sum_j E_ij k_j,  dk_j = sum_i 1/h D_ij q_i + E_ij rho_i,
//              dv_j = sum_i p_ij (1 + tbar_i - t_ij) g_i,  dh = -(ln 2 / h) sum_ij D_ij log2 p_ij
// The rows of D sum to zero, so that log p stands in for s in dh: no offset of the scores can cancel there.
// Changes of scores and hidden keys are steps of `Scores` (kernels/programs/scores.hpp).
// Query head a reads key/value head a / group. A row that sees nothing has o = 0, lse = -inf and gradients 0.
// With rho = 0 every product and sum left is one of softmax attention's, in its order: the same bits.
#include "kernels/core/functions.hpp"
#include "kernels/core/operand_units.hpp"
#include "kernels/programs/scores.hpp"
#include "kernels/programs/split_decode.hpp"

namespace assay::tile {

/// The faults of this room's masks.
template <class X, class Sees>
TILE_FN Sees parallax_visibility(X& b, Sees sees) {
  sees.ahead = b.planted("mask_one_key_less"_s, 0, -1);
  sees.window = b.planted("window_dropped"_s, sees.window, 0);
  return sees;
}

/// P2 = p t in units of its rows. It has no bound as p has: a row's unit, a power of two, grows with its largest
/// number. Returns the old unit in the new one, for O2, which is in the same units.
template <class X, class A, class Row, class Real>
TILE_FN Row in_row_units(X& b, A& P2, Row& unit, Real weight) {
  const auto magnitude = [](auto y) { return y < 0 ? -y : y; };
  const auto grown = [](auto u, auto y) { return maxi(u, power_of_two_from(y)); };
  const auto in_unit = [&](auto y, auto u) { return y * (weight / u); };
  auto size = P2;
  size.map("pt"_s, magnitude);
  const auto next = b.rows("descale"_s, grown, unit, size.row_max());
  auto old = b.rows("descale"_s, over, unit, next);
  unit = next;
  P2.map("pt"_s, in_unit, unit);
  return old;
}

/// The moment d2 of t over the keys so far, about 0.
template <class X, Size BM>
struct MomentAtZero {
  X& b;
  decltype(std::declval<X&>().partial("d2"_s, Shape<BM>{})) sum;
  decltype(std::declval<X&>().row("alpha"_s, Shape<BM>{}, 0)) one;

  TILE_FN explicit MomentAtZero(X& x)
      : b(x), sum(x.partial("d2"_s, Shape<BM>{})), one(x.row("alpha"_s, Shape<BM>{}, 1)) {}

  /// P2 = P1 t in place of t.
  template <class A, class Row, class Mass>
  TILE_FN Row weigh(A& T, A& P1, const Row& alpha, const Mass&) {
    T.zip("pt"_s, times, P1);
    sum.fold(b.planted("d2_not_rescaled"_s, alpha, one), T);
    return one;
  }
  /// Sums about 0 stay.
  template <class A, class Row>
  TILE_FN void move(A&, const A&, const Row&, const Row&, bool) const {}
  template <class Mass>
  TILE_FN auto mass(const Mass& d1) const {
    return d1.total();
  }
  TILE_FN auto second() const { return sum.total(); }
  template <class Row, class Real>
  TILE_FN Row mean(const Row& left, Real) const {
    return left;
  }
  template <class Row>
  TILE_FN Row weight_of_mean(const Row& c1, const Row& inv) const {
    return b.planted("mean_term_dropped"_s, c1, inv);
  }
};

/// And about an origin that follows the mean of t.
template <class X, Size BM>
struct MomentAtMean {
  X& b;
  decltype(std::declval<X&>().row("alpha"_s, Shape<BM>{}, 0)) all, d2, origin, one, zero;

  TILE_FN explicit MomentAtMean(X& x)
      : b(x),
        all(x.row("d1"_s, Shape<BM>{}, 0)),
        d2(x.row("d2"_s, Shape<BM>{}, 0)),
        origin(x.row("tbar"_s, Shape<BM>{}, 0)),
        one(x.row("alpha"_s, Shape<BM>{}, 1)),
        zero(x.row("alpha"_s, Shape<BM>{}, 0)) {}

  /// P2 = P1 (t - c) in place of t; returns the step of the origin c.
  template <class A, class Row, class Mass>
  TILE_FN Row weigh(A& T, A& P1, const Row& alpha, const Mass& d1) {
    const auto carried = [](auto now, auto old, auto factor) { return now + factor * old; };
    const auto follow = [](auto c, auto moment, auto weights) { return weights > 0 ? c + moment / weights : c; };
    const auto without = [](auto moment, auto weights, auto step) { return moment - step * weights; };
    const auto now = d1.total();
    T.map("T"_s, minus, origin);
    auto moments = T;
    moments.zip("pt"_s, times, P1);
    const auto moved = b.rows("tbar"_s, follow, origin, b.rows("d2"_s, carried, row_sum(moments), d2, alpha), now);
    const auto step = b.rows("step"_s, minus, moved, origin);
    T.map("T"_s, minus, step);
    T.zip("pt"_s, times, P1);
    const auto about_new = b.rows("d2"_s, without, d2, all, step);
    d2 = b.rows("d2"_s, carried, row_sum(T), about_new, b.planted("d2_not_rescaled"_s, alpha, one));
    all = now;
    origin = moved;
    return b.planted("o2_keeps_its_origin"_s, step, zero);
  }
  /// O2 about the new origin.
  template <class A, class Row>
  TILE_FN void move(A& O2, const A& O1, Row step, const Row& row_unit, bool has_units) const {
    if (has_units) step = b.rows("step"_s, over, step, row_unit);
    O2.zip(
        "O2"_s, [](auto y2, auto y1, auto r) { return y2 - r * y1; }, O1, step);
  }
  template <class Mass>
  TILE_FN auto mass(const Mass&) const {
    return all;
  }
  TILE_FN auto second() const { return d2; }
  template <class Row, class Real>
  TILE_FN Row mean(const Row& left, Real of_t) const {
    const auto shifted = [&](auto c, auto y) { return c * of_t + y; };
    return b.planted("tbar_without_origin"_s, b.rows("tbar"_s, shifted, origin, left), left);
  }
  template <class Row>
  TILE_FN Row weight_of_mean(const Row& c1, const Row&) const {
    return c1;
  }

 private:
  template <class A>
  TILE_FN auto row_sum(const A& x) const {
    auto sum = b.partial("d2"_s, Shape<BM>{});
    sum.fold(one, x);
    return sum.total();
  }
};

/// One query tile over its key tiles: o, and the row caches lse, tbar, vbar if wanted. Covariance: about a moving
/// origin.
template <ExecutorTypes B, Size BM, Size BN, Size D, int ST, bool Covariance = false, class Scores = PlainScores>
struct ParallaxForward {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, rho, k, v;
    typename B::Out o, vbar;
    typename B::RowOut lse, tbar;
    Real scale;  // log2(e) / h
    typename Scores::Sees sees;
    int group, kv_heads;
    const OperandUnits<Real>* units;  // [kv heads]
    typename Scores::template Args<B> scores;
  };
  struct Smem {
    typename B::template Tile<"Q", BM, D> Q;
    typename B::template Tile<"R", BM, D> R;
    typename B::template Tile<"K", BN, D> K[ST];
    typename B::template Tile<"V", BN, D> V[ST];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int head, int q0) {
    const auto sees = parallax_visibility(b, Scores::windows(b, a.sees));
    const int kv = b.planted("kv_head_modulo"_s, head / a.group, head % a.kv_heads);
    const auto unit = b.units("Q"_s, a.units, b.planted("scale_of_other_head"_s, kv, (kv + 1) % a.kv_heads));
    typename Scores::template Step<X, B, BM> scores(b, a.scores, unit.query * unit.key, head, q0);
    const Real natural = b.planted("exp2_without_log2e"_s, a.scale, a.scale * Real{0.6931471805599453});
    const Real scale = scores.factor(natural * (unit.query * unit.key));
    const Real of_t = unit.probe * unit.key,
               of_o = unit.value / b.planted("p_scale_not_undone"_s, unit.weight, Real{1});
    const int j0 = sees.first_key(q0) / BN + b.planted("first_tile_skipped"_s, 0, head == 0 && q0 > 0);
    auto O1 = b.acc("O1"_s, Shape<BM, D>{});
    auto O2 = b.acc("O2"_s, Shape<BM, D>{});
    auto m = b.row("m"_s, Shape<BM>{}, -INFINITY);
    auto d1 = b.partial("d1"_s, Shape<BM>{});
    std::conditional_t<Covariance, MomentAtMean<X, BM>, MomentAtZero<X, BM>> moment(b);
    const auto one = moment.one;
    auto row_unit = one;  // of P2 and O2
    const auto top = [&](auto m0, auto s1) { return maxi(m0, s1 * scale); };
    const auto weight = [&](auto y, auto m1) { return ex2(y * scale - m1); };
    b.load(s.Q, a.q, head, q0);
    b.load(s.R, a.rho, head, q0);
    b.pipeline(
        Shape<ST>{}, imax(0, ceil_div(sees.last_key(q0 + BM), BN) - j0),
        [&](int j, int st) {
          b.load(s.K[st], a.k, kv, (j0 + j) * BN);
          b.load(s.V[st], a.v, kv, (j0 + j) * BN);
        },
        [&](int j, int st) {
          const int k0 = (j0 + j) * BN;
          auto [S, T] = products_of_keys(b, s, st);
          scores.enter(S, head, k0);
          if (!sees.all(q0, q0 + BM, k0, k0 + BN))
            S.mask([&](int r, int c) { return sees(q0 + r, k0 + c); }, -INFINITY);
          scores.hide(S, head, k0, -INFINITY);
          const auto mx = b.rows("m"_s, top, m, S.row_max());
          const auto shift = b.rows("m"_s, finite_or_zero, mx);
          const auto alpha = b.rows("alpha"_s, rescaling, m, shift);
          S.map("p"_s, weight, shift);
          d1.fold(alpha, S);
          if constexpr (in_flight) {
            O1.scale(alpha);
            auto P = S;
            auto P1 = cast_weights(b, "P1"_s, "p"_s, P, unit.weight);
            b.mma_async(O1, P1, s.V[st]);
            b.await(T);
          }
          const auto step = moment.weigh(T, S, alpha, d1);
          if (unit.weight != 1)
            O2.scale(b.planted("row_unit_not_followed"_s, in_row_units(b, T, row_unit, unit.weight), one));
          moment.move(O2, O1, step, row_unit, unit.weight != 1);
          if constexpr (!in_flight) O1.scale(alpha);
          O2.scale(b.planted("o2_not_rescaled"_s, alpha, one));
          if constexpr (in_flight) {
            b.mma(O2, b.cast("P2"_s, T), s.V[st]);
            b.await(O1);
          } else {
            auto P2 = b.cast("P2"_s, T);
            b.mma(O1, cast_weights(b, "P1"_s, "p"_s, S, unit.weight), O2, P2, s.V[st]);
          }
          m = mx;
        });
    store(b, scores, a, head, q0, of_t, of_o, moment, moment.mass(d1), m, O1, O2, unit.weight != 1, row_unit);
  }

 private:
  /// Products of few columns are short: those of t are in flight while the weights are computed, those of P1 while P2
  /// is.
  static constexpr bool in_flight = !is_wide(D) && !Covariance;

  template <class X>
  TILE_FN static auto products_of_keys(X& b, Smem& s, int st) {
    if constexpr (in_flight) {
      auto S = b.abt_async("S"_s, s.Q, s.K[st]);
      auto T = b.abt_async("T"_s, s.R, s.K[st]);
      b.await(S);
      return Two<decltype(S), decltype(T)>{S, T};
    } else {
      return b.abt("S"_s, "T"_s, s.Q, s.R, s.K[st]);
    }
  }
  /// The row caches, and o of the streaming state.
  template <class X, class Step, class Moment, class A, class Row>
  TILE_FN static void store(X& b, const Step& scores, const Args& a, int head, int q0, Real of_t, Real of_o,
                            const Moment& moment, const Row& mass, const Row& m, A& O1, A& O2, bool has_units,
                            const Row& row_unit) {
    const auto inv = b.rows("inv"_s, reciprocal, mass);
    const auto left = b.rows(
        "tbar"_s, [&](auto sum, auto y) { return sum * y * of_t; }, moment.second(), inv);
    b.store_row("lse"_s, a.lse, head, q0, scores.store_lse(b.rows("lse"_s, log_sum, mass, m)));
    b.store_row("tbar"_s, a.tbar, head, q0, moment.mean(left, of_t));
    if (a.vbar.p != nullptr) store_mean_value(b, a, head, q0, O1, inv, of_o);
    const auto c1 = b.rows(
        "c1"_s, [](auto y0, auto y1) { return (1 + y0) * y1; }, left, inv);
    O1.scale(moment.weight_of_mean(c1, inv));
    if (has_units) O2.scale(row_unit);
    O2.scale(inv);
    O1.zip(
        "o"_s, [&](auto y1, auto y2) { return (y1 - y2 * of_t) * of_o; }, O2);
    b.store("out"_s, a.o, head, q0, O1);
  }
  template <class X, class A, class Row>
  TILE_FN static void store_mean_value(X& b, const Args& a, int head, int q0, A vbar, const Row& inv, Real of_o) {
    vbar.scale(inv);
    if (of_o != 1) vbar.map("vbar"_s, [&](auto x) { return x * of_o; });
    b.store("vbar"_s, a.vbar, head, q0, vbar);
  }
};

/// Backward, before its passes: tau_i and beta_i of a query tile.
template <ExecutorTypes B, Size BM, Size D, class Scores = PlainScores>
struct ParallaxBackwardRows {
  struct Args {
    typename B::In o, vbar, g;
    typename B::RowOut tau, beta;
    typename Scores::template Args<B> scores;
  };
  struct Smem {};

  template <class X>
  TILE_FN static void run(X& b, Smem&, const Args& a, int head, int q0) {
    const auto G = b.load_acc("dO"_s, Shape<BM, D>{}, a.g, head, q0);
    const typename Scores::template Step<X, B, BM> scores(b, a.scores, 1, head, q0);
    const auto tau = b.dot("tau"_s, b.load_acc("Oin"_s, Shape<BM, D>{}, a.o, head, q0), G);
    b.store_row("tau"_s, a.tau, head, q0, scores.of_lse("tau"_s, tau));
    b.store_row("beta"_s, a.beta, head, q0, b.dot("beta"_s, b.load_acc("vbar"_s, Shape<BM, D>{}, a.vbar, head, q0), G));
  }
};

/// Backward, first pass: one query tile over its key tiles gives dq_i, drho_i and sum_j D_ij log2 p_ij. The products of
/// a_ij are in flight while the weights are computed.
template <ExecutorTypes B, Size BM, Size BN, Size D, int ST, class Scores = PlainScores>
struct ParallaxBackwardQuery {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, rho, k, v, g;
    typename B::RowIn lse, tbar, tau, beta;
    typename B::RowOut dh;
    typename B::Out dq, drho;
    Real scale, inv_bandwidth;  // log2(e) / h, 1 / h
    typename Scores::Sees sees;
    int group, kv_heads;
    const OperandUnits<Real>* units;
    typename Scores::template Args<B> scores;
  };
  struct Smem {
    typename B::template Tile<"Q", BM, D> Q;
    typename B::template Tile<"R", BM, D> R;
    typename B::template Tile<"dO", BM, D> G;
    typename B::template Tile<"K", BN, D> K[ST];
    typename B::template Tile<"V", BN, D> V[ST];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int head, int q0) {
    const auto sees = parallax_visibility(b, Scores::windows(b, a.sees));
    const int kv = b.planted("kv_head_modulo"_s, head / a.group, head % a.kv_heads);
    const int j0 = sees.first_key(q0) / BN;
    const auto unit = b.units("Q"_s, a.units, kv);
    typename Scores::template Step<X, B, BM> scores(b, a.scores, unit.query * unit.key, head, q0);
    const Real scale = scores.factor(a.scale * (unit.query * unit.key)), of_t = unit.probe * unit.key,
               of_v = unit.value;
    auto dQ = b.acc("dQ"_s, Shape<BM, D>{});
    auto dR = b.acc("dR"_s, Shape<BM, D>{});
    auto dh = b.partial("dh"_s, Shape<BM>{});
    const auto zero = b.row("beta"_s, Shape<BM>{}, 0);
    const auto tau = b.load_row("tau"_s, Shape<BM>{}, a.tau, head, q0);
    const auto beta = b.load_row("beta"_s, Shape<BM>{}, a.beta, head, q0);
    auto tbar = b.load_row("tbar"_s, Shape<BM>{}, a.tbar, head, q0);
    const auto one = b.row("dh"_s, Shape<BM>{}, 1);
    const auto lse = b.rows("lse"_s, finite_or_zero, b.load_row("lse"_s, Shape<BM>{}, a.lse, head, q0));
    const auto log_weight = [&](auto y, auto z) { return y * scale - z; };
    const auto score_gradient = [&](auto a_ij, auto p, auto t, auto tbar_i, auto tau_i, auto beta_i) {
      return p * (a_ij * of_v - tau_i + (tbar_i - t * of_t) * (a_ij * of_v - beta_i));
    };
    const auto probe_gradient = [&](auto a_ij, auto p, auto beta_i) { return -p * (a_ij * of_v - beta_i); };
    b.load(s.Q, a.q, head, q0);
    b.load(s.R, a.rho, head, q0);
    b.load(s.G, a.g, head, q0);
    b.pipeline(
        Shape<ST>{}, ceil_div(sees.last_key(q0 + BM), BN) - j0,
        [&](int j, int st) {
          b.load(s.K[st], a.k, kv, (j0 + j) * BN);
          b.load(s.V[st], a.v, kv, (j0 + j) * BN);
        },
        [&](int j, int st) {
          const int k0 = (j0 + j) * BN;
          if (j == 0 && b.planted("tbar_other_origin"_s, false, true))  // about q_i, where t is about 0
            tbar = b.rows("tbar"_s, minus, tbar, b.dot("tbar"_s, s.R, s.Q));
          auto L = b.abt_async("S"_s, s.Q, s.K[st]);
          auto T = b.abt_async("T"_s, s.R, s.K[st]);
          auto A = b.abt_async("dP"_s, s.G, s.V[st]);
          b.await(L);
          auto entered = scores.enter(L, head, k0);
          L.map("logp"_s, log_weight, lse);
          auto P = L;
          P.map("p"_s, [](auto x) { return ex2(x); });
          if (!sees.all(q0, q0 + BM, k0, k0 + BN)) P.mask([&](int r, int c) { return sees(q0 + r, k0 + c); }, 0);
          scores.hide(P, head, k0, 0);
          b.await(T);
          b.await(A);
          auto E = A;
          E.zip("E"_s, probe_gradient, P, beta);
          A.zip("D"_s, score_gradient, P, T, tbar, tau, b.planted("d_without_beta"_s, beta, zero));
          scores.leave(A, entered, head, k0);
          scores.fold_scale(dh, one, L, A, entered);
          auto dT = b.cast("dT"_s, E);
          b.mma(dQ, b.cast("dS"_s, A), dR, dT, s.K[st]);
        });
    const Real inv_h = b.planted("dq_without_scale"_s, a.inv_bandwidth, Real{1});
    const Real sign = b.planted("drho_sign"_s, Real{1}, Real{-1});
    dQ.map("dq"_s, [&](auto x) { return x * (inv_h * unit.key); });
    dR.map("drho"_s, [&](auto x) { return x * (sign * unit.key); });
    b.store_row("dh"_s, a.dh, head, q0, dh.total());
    scores.store_gradients(lse, tau);
    b.store("out"_s, a.dq, head, q0, dQ), b.store("out"_s, a.drho, head, q0, dR);
  }
};

/// Backward, second pass: one key tile over the query tiles of every head that reads it. The scores are transposed,
/// keys by queries, so that what multiplies g, q and rho is a left factor as it stands. Both terms of dk share an
/// accumulator: h dk_j = sum_i D_ij q_i + (h E_ij) rho_i, in units of q.
template <ExecutorTypes B, Size BM, Size BN, Size D, int ST, class Scores = PlainScores>
struct ParallaxBackwardKey {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, rho, k, v, g;
    typename B::RowIn lse, tbar, tau, beta;
    typename B::Out dk, dv;
    Real scale, bandwidth, inv_bandwidth;
    typename Scores::Sees sees;
    int group, kv_heads;
    const OperandUnits<Real>* units;
    typename Scores::template Args<B> scores;
  };
  struct Smem {
    typename B::template Tile<"K", BN, D> K;
    typename B::template Tile<"V", BN, D> V;
    typename B::template Tile<"Q", BM, D> Q[ST];
    typename B::template Tile<"R", BM, D> R[ST];
    typename B::template Tile<"dO", BM, D> G[ST];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int kv, int k0) {
    const auto sees = parallax_visibility(b, Scores::windows(b, a.sees));
    const int i0 = sees.first_row(k0) / BM, tiles = ceil_div(sees.last_row(k0 + BN), BM) - i0;
    const auto unit = b.units("Q"_s, a.units, kv);
    typename Scores::template Step<X, B, BN, true> scores(b, a.scores, unit.query * unit.key, kv, k0);
    const Real scale = scores.factor(a.scale * (unit.query * unit.key)), of_t = unit.probe * unit.key,
               of_v = unit.value;
    const Real h = b.planted("dk_without_probe"_s, a.bandwidth, Real{0}) * (unit.probe / unit.query);
    auto dK = b.acc("dK"_s, Shape<BN, D>{});
    auto dV = b.acc("dV"_s, Shape<BN, D>{});
    const auto weight = [&](auto y, auto z) { return ex2(y * scale - z); };
    const auto score_gradient = [&](auto a_ij, auto p, auto t, auto tbar_i, auto tau_i, auto beta_i) {
      return p * (a_ij * of_v - tau_i + (tbar_i - t * of_t) * (a_ij * of_v - beta_i));
    };
    const auto probe_gradient = [&](auto a_ij, auto p, auto beta_i) { return -h * p * (a_ij * of_v - beta_i); };
    const auto coefficient = [&](auto p, auto t, auto tbar_i) { return p * (1 + tbar_i - t * of_t); };

    b.load(s.K, a.k, kv, k0);
    b.load(s.V, a.v, kv, k0);
    b.pipeline(
        Shape<ST>{}, b.planted("dk_one_head_of_group"_s, a.group, 1) * tiles,
        [&](int j, int st) {
          b.load(s.Q[st], a.q, kv * a.group + j / tiles, (i0 + j % tiles) * BM);
          b.load(s.R[st], a.rho, kv * a.group + j / tiles, (i0 + j % tiles) * BM);
          b.load(s.G[st], a.g, kv * a.group + j / tiles, (i0 + j % tiles) * BM);
        },
        [&](int j, int st) {
          const int head = kv * a.group + j / tiles, q0 = (i0 + j % tiles) * BM;
          auto P = b.abt_async("S"_s, s.K, s.Q[st]);
          auto T = b.abt_async("T"_s, s.K, s.R[st]);
          auto A = b.abt_async("dP"_s, s.V, s.G[st]);
          const auto lse = b.load_col("lse"_s, Shape<1, BM>{}, a.lse, head, q0);
          const auto tbar = b.load_col("tbar"_s, Shape<1, BM>{}, a.tbar, head, q0);
          b.await(P);
          const auto entered = scores.enter(P, head, q0);
          P.map("p"_s, weight, lse);
          if (!sees.all(q0, q0 + BM, k0, k0 + BN)) P.mask([&](int r, int c) { return sees(q0 + c, k0 + r); }, 0);
          scores.hide(P, head, q0, 0);
          b.await(T);
          auto W = P;
          W.zip("w"_s, coefficient, T, tbar);
          auto weights = b.cast("P1"_s, b.planted("dv_without_probe"_s, W, P));
          b.mma_async(dV, weights, s.G[st]);
          const auto tau = b.load_col("tau"_s, Shape<1, BM>{}, a.tau, head, q0);
          const auto beta = b.load_col("beta"_s, Shape<1, BM>{}, a.beta, head, q0);
          b.await(A);
          auto E = A;
          E.zip("E"_s, probe_gradient, P, beta);
          A.zip("D"_s, score_gradient, P, T, tbar, tau, beta);
          scores.leave(A, entered, head, q0);
          b.mma(dK, b.cast("dS"_s, A), s.Q[st]);
          b.mma(dK, b.cast("dT"_s, E), s.R[st]);
          b.await(dV);
        });
    dK.map("dk"_s, [&](auto x) { return x * (a.inv_bandwidth * unit.query); });
    b.store("out"_s, a.dk, kv, k0, dK);
    b.store("out"_s, a.dv, kv, k0, dV);
  }
};

/// Queries to a step of the second pass, which holds two accumulators. Its bits depend on it, as both terms of dk are
/// added step by step.
template <Size BM, Size D>
inline constexpr Size parallax_key_pass_queries = is_fixed(BM) ? Size{few_rows(BM, D)} : run_time::few_rows;

inline constexpr SiteTable::Init parallax_tiled_roles[] = {
    {"Q", Role::operand},          {"R", Role::operand},      {"K", Role::operand},        {"V", Role::operand},
    {"scale", Role::gate},         {"S", Role::accumulator},  {"T", Role::accumulator},    {"m", Role::gate},
    {"alpha", Role::gate},         {"p", Role::accumulator},  {"pt", Role::accumulator},   {"P1", Role::operand},
    {"P2", Role::operand},         {"d1", Role::accumulator}, {"d2", Role::accumulator},   {"O1", Role::accumulator},
    {"O2", Role::accumulator},     {"inv", Role::gate},       {"tbar", Role::gate},        {"lse", Role::gate},
    {"vbar", Role::accumulator},   {"c1", Role::gate},        {"o", Role::accumulator},    {"out", Role::output},
    {"dO", Role::operand},         {"Oin", Role::output},     {"tau", Role::gate},         {"beta", Role::gate},
    {"logp", Role::accumulator},   {"dP", Role::accumulator}, {"D", Role::accumulator},    {"E", Role::accumulator},
    {"w", Role::accumulator},      {"dS", Role::operand},     {"dT", Role::operand},       {"dQ", Role::accumulator},
    {"dR", Role::accumulator},     {"dK", Role::accumulator}, {"dV", Role::accumulator},   {"bandwidth", Role::gate},
    {"inv_bandwidth", Role::gate}, {"dq", Role::accumulator}, {"drho", Role::accumulator}, {"dk", Role::accumulator},
    {"dh", Role::accumulator},     {"descale", Role::gate}};
/// Sites of forward and backward. Oin is o read back by the backward, in the format that the forward stored; vbar stays
/// as wide as the accumulators, or sum_j E_ij would not vanish.
inline constexpr SiteTable parallax_tiled_sites(parallax_tiled_roles);

inline constexpr SiteTable::Init parallax_step_roles[] = {{"step", Role::gate}};
inline constexpr SiteTable parallax_covariance_sites = parallax_tiled_sites.with(parallax_step_roles);

/// Decoding: the query rows of all heads that share a key/value head, BM of them, against one span of the keys. Row r
/// of the packed rows is query r % queries of its head. Gives the partial result (m, d1, d2, O1, O2),
/// all but m and d1 in units.
template <ExecutorTypes B, Size BM, Size BN, Size D, int ST, class Scores = PlainScores>
struct ParallaxSplit {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, rho, k, v;  // q, rho: [kv heads][group * queries][K]
    typename B::Out o1, o2;       // [kv heads * splits][group * queries][V]
    typename B::RowOut m, d1, d2;
    Real scale;
    typename Scores::Sees sees;
    int splits, span;  // span: keys of one split, a multiple of BN
    const OperandUnits<Real>* units;
    typename Scores::template Args<B> scores;
  };
  struct Smem {
    typename B::template Tile<"Q", BM, D> Q;
    typename B::template Tile<"R", BM, D> R;
    typename B::template Tile<"K", BN, D> K[ST];
    typename B::template Tile<"V", BN, D> V[ST];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int kv, int x) {
    auto sees = Scores::windows(b, a.sees);
    sees.ahead = b.planted("mask_one_key_more"_s, 0, 1);
    sees.window += b.planted("window_one_wider"_s, 0, sees.window > 0);
    const auto unit = b.units("Q"_s, a.units, kv);
    const int r0 = x / a.splits * BM, split = x % a.splits;
    typename Scores::template Step<X, B, BM> scores(b, a.scores, unit.query * unit.key, kv, r0);
    const Real scale = scores.factor(b.planted("scale_twice"_s, a.scale, a.scale * a.scale) * (unit.query * unit.key));
    const int first = imax(split * a.span, sees.first_key(0)), j0 = first / BN;
    const int end = (split + 1) * a.span, last = imin(end, sees.last_key(sees.queries));
    auto O1 = b.acc("O1"_s, Shape<BM, D>{});
    auto O2 = b.acc("O2"_s, Shape<BM, D>{});
    auto m = b.row("m"_s, Shape<BM>{}, -INFINITY);
    auto d1 = b.partial("d1"_s, Shape<BM>{});
    auto d2 = b.partial("d2"_s, Shape<BM>{});
    auto row_unit = m;  // of P2 and O2
    if (unit.weight != 1) row_unit = b.row("descale"_s, Shape<BM>{}, 1);
    const auto top = [&](auto m0, auto s1) { return maxi(m0, s1 * scale); };
    const auto weight = [&](auto y, auto m1) { return ex2(y * scale - m1); };

    b.load(s.Q, a.q, kv, r0);
    b.load(s.R, a.rho, kv, r0);
    b.pipeline(
        Shape<ST>{}, imax(0, b.planted("tail_tile_dropped"_s, ceil_div(last, BN), last / BN) - j0),
        [&](int j, int st) {
          b.load(s.K[st], a.k, kv, (j0 + j) * BN);
          b.load(s.V[st], a.v, kv, (j0 + j) * BN);
        },
        [&](int j, int st) {
          const int k0 = (j0 + j) * BN;
          auto [S, T] = b.abt("S"_s, "T"_s, s.Q, s.R, s.K[st]);
          scores.enter(S, kv, k0);
          if (!sees.all(0, sees.queries, k0, k0 + BN))
            S.mask([&](int r, int c) { return sees((r0 + r) % sees.queries, k0 + c); }, -INFINITY);
          scores.hide(S, kv, k0, -INFINITY);
          const auto mx = b.rows("m"_s, top, m, S.row_max());
          const auto shift = b.rows("m"_s, finite_or_zero, mx);
          const auto alpha = b.rows("alpha"_s, rescaling, m, shift);
          S.map("p"_s, weight, shift);
          T.zip("pt"_s, times, S);  // P2 = P1 t
          d1.fold(alpha, S);
          d2.fold(alpha, T);
          O1.scale(alpha);
          O2.scale(alpha);
          if (unit.weight != 1) O2.scale(in_row_units(b, T, row_unit, unit.weight));
          auto P2 = b.cast("P2"_s, T);
          b.mma(O1, cast_weights(b, "P1"_s, "p"_s, S, unit.weight), O2, P2, s.V[st]);
          m = mx;
        });
    if (unit.weight != 1) O2.scale(row_unit);
    const int part = kv * a.splits + split;
    b.store("Opart"_s, a.o1, part, r0, O1);
    b.store("Opart"_s, a.o2, part, r0, O2);
    b.store_row("m"_s, a.m, part, r0, m);
    b.store_row("d1"_s, a.d1, part, r0, d1.total());
    b.store_row("d2"_s, a.d2, part, r0, d2.total());
  }
};

/// Merges the partial results of BM packed rows and DV columns over the splits, in their order; G splits are loaded at
/// a time, for the time of one.
template <ExecutorTypes B, Size BM, Size DV, int G, int ST, class Scores = PlainScores>
struct ParallaxMerge {
  using Real = typename B::Real;
  struct Args {
    typename B::In o1, o2;
    typename B::RowIn m, d1, d2;
    typename B::Out out;  // [kv heads][group * queries][V]
    int splits, columns;  // columns: blocks of DV
    const OperandUnits<Real>* units;
    typename Scores::template Args<B> scores;
  };
  struct Smem {
    typename B::template Tile<"Opart", BM, DV> O1[ST][G];
    typename B::template Tile<"Opart", BM, DV> O2[ST][G];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int kv, int x) {
    const int r0 = x / a.columns * BM, v0 = x % a.columns * DV;
    const auto unit = b.units("Q"_s, a.units, kv);
    const Real of_t = unit.probe * unit.key;
    const Real of_o = b.planted("descale_dropped"_s, unit.value, Real{1}) / unit.weight;
    auto O1 = b.acc("O1"_s, Shape<BM, DV>{});
    auto O2 = b.acc("O2"_s, Shape<BM, DV>{});
    auto m = b.row("m"_s, Shape<BM>{}, -INFINITY);
    auto d1 = b.row("d1"_s, Shape<BM>{}, 0);
    auto d2 = b.row("d2"_s, Shape<BM>{}, 0);
    const auto one = b.row("alpha"_s, Shape<BM>{}, 1);
    const auto mean = [&](auto y0, auto inv) { return y0 * inv * of_t; };
    const auto combined = [&](auto y1, auto y2) { return (y1 - y2 * of_t) * of_o; };
    const auto one_more = [](auto tbar, auto y) { return (1 + tbar) * y; };
    const auto sum = [](auto y0, auto c0, auto y1, auto c1) { return y0 * c0 + y1 * c1; };
    const auto part = [&](int split) { return kv * a.splits + imin(split, a.splits - 1); };
    b.pipeline(
        Shape<ST>{}, ceil_div(a.splits, G),
        [&](int j, int st) {
          for (int u = 0; u < G; ++u) {
            b.load(s.O1[st][u], a.o1, part(j * G + u), r0, v0);
            b.load(s.O2[st][u], a.o2, part(j * G + u), r0, v0);
          }
        },
        [&](int j, int st) {
          decltype(b.load_row("m"_s, Shape<BM>{}, a.m, 0, 0)) mj[G];
          decltype(b.load_row("d1"_s, Shape<BM>{}, a.d1, 0, 0)) d1j[G];
          decltype(b.load_row("d2"_s, Shape<BM>{}, a.d2, 0, 0)) d2j[G];
          unrolled<G>([&](int u) {
            mj[u] = b.load_row("m"_s, Shape<BM>{}, a.m, part(j * G + u), r0);
            d1j[u] = b.load_row("d1"_s, Shape<BM>{}, a.d1, part(j * G + u), r0);
            d2j[u] = b.load_row("d2"_s, Shape<BM>{}, a.d2, part(j * G + u), r0);
          });
          unrolled<G>([&](int u) {
            if (j * G + u >= a.splits) return;
            const auto mx = b.rows("m"_s, larger, m, mj[u]);
            const auto shift = b.rows("m"_s, finite_or_zero, mx);
            const auto old = b.rows("alpha"_s, rescaling, m, shift);
            const auto now = b.planted("merge_without_rescale"_s, b.rows("alpha"_s, rescaling, mj[u], shift), one);
            d1 = b.rows("d1"_s, sum, d1, old, d1j[u], now);
            d2 = b.rows("d2"_s, sum, d2, b.planted("d2_not_rescaled"_s, old, one), d2j[u], now);
            O1.scale(old);
            O2.scale(b.planted("o2_not_rescaled"_s, old, one));
            O1.zip("O1"_s, plus_times, s.O1[st][u], now);
            O2.zip("O2"_s, plus_times, s.O2[st][u], now);
            m = mx;
          });
        });
    const typename Scores::template Step<X, B, BM> scores(b, a.scores, 1, kv, r0);
    const auto inv = b.rows("inv"_s, reciprocal, d1);
    if (v0 == 0) scores.store_lse(d1, m);
    const auto tbar = b.rows("tbar"_s, mean, d2, inv);
    const auto c1 = b.rows("c1"_s, one_more, tbar, inv);
    O1.scale(b.planted("mean_term_dropped"_s, c1, inv));
    O2.scale(inv);
    O1.zip("o"_s, combined, O2);
    b.store("out"_s, a.out, kv, r0, O1, v0);
  }
};

inline constexpr SiteTable::Init parallax_decode_roles[] = {
    {"Q", Role::operand},      {"R", Role::operand},         {"K", Role::operand},      {"V", Role::operand},
    {"scale", Role::gate},     {"S", Role::accumulator},     {"T", Role::accumulator},  {"m", Role::gate},
    {"alpha", Role::gate},     {"p", Role::accumulator},     {"pt", Role::accumulator}, {"P1", Role::operand},
    {"P2", Role::operand},     {"d1", Role::accumulator},    {"d2", Role::accumulator}, {"O1", Role::accumulator},
    {"O2", Role::accumulator}, {"Opart", Role::accumulator}, {"inv", Role::gate},       {"tbar", Role::gate},
    {"c1", Role::gate},        {"o", Role::accumulator},     {"out", Role::output},     {"descale", Role::gate}};
inline constexpr SiteTable parallax_decode_sites(parallax_decode_roles);

}  // namespace assay::tile
