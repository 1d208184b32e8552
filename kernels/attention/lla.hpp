#pragma once
// Local linear attention as tile programs (lla-family.md sections 3 to 6). Query i sees the keys j in J_i; h is the
// bandwidth, c_i = kbar_i the weighted mean of the keys, zbar_i = c_i - q_i, kt_ij = k_j - c_i.
//   weights    x_ij = (log2(e) / h) q_i.k_j,  m_i = max_j x_ij,  w_ij = 2^(x_ij - m_i),  l_i = sum_j w_ij,  p = w / l
//   system     A_i = C_i + eps_i,  C_i = sum_j p_ij kt_ij kt_ij^T,  eps_i = lambda_i times 1 (mode mass), 1 / l_i (max)
//              or 2^-lse_i (absolute); never formed: A d = (sum_j w_ij (kt_ij.d) kt_ij) / l_i + eps_i d
//   forward    A_i y_i = zbar_i,  o_i = sum_j p_ij (1 - y_i.kt_ij) v_j
//   backward   a_ij = g_i.v_j,  b_i = sum_j p_ij a_ij,  dy_i = -sum_j p_ij (a_ij - b_i) kt_ij,  A_i x_i = dy_i,
//              N_ij = 1 - y_i.kt_ij,  F_ij = a_ij - b_i + x_i.kt_ij,  D_ij = p_ij N_ij F_ij,
//              dq_i = 1/h sum_j D_ij k_j - x_i,  dk_j = sum_i 1/h D_ij q_i + p_ij (N_ij x_i - F_ij y_i),
//              dv_j = sum_i p_ij N_ij g_i,  deps_i = -x_i y_i,  dh = -(ln 2 / h) sum_ij D_ij x_ij
//   and D_ij += e_i p_ij (mass), e_i at the first largest score alone (max), e_i = eps_i.deps_i: then sum_j D_ij = 0;
//   in mode absolute that sum is -e_i.
// A few steps of conjugate gradients, and blocks of Sigma = C + eps + zbar zbar^T, are systems about q_i in place of
// c_i, with solution rho and y = rho / delta, delta = 1 - rho.zbar. With tau = b + y.dy, x solving Sigma x = dy - b
// zbar, and block by block n = 1 / delta - y.zbar, N = n - y.kt, F = a - 2 tau delta N + x.z:
//   D_ij = p_ij (a_ij (1 - y.kt) + sum over blocks of N (x.z - tau delta N) + (blocks - 1) tau / delta),
//   deps_i = -y_i (x_i + tau delta y_i),  sum_j dz_ij = n x - (b - 2 tau delta n + x.zbar) y
// Blocks of C differ by the sum over them alone: D_ij = p_ij ((a_ij - b_i)(1 - y.kt) + sum over blocks of N (x.kt)).
// The published form has systems about q_i, never blocks of C, and moves raw moments there:
//   Sigma_i d = (sum_j w_ij (k_j.d) k_j) / l_i - (q_i.d) c_i - (c_i.d) q_i + (q_i.d) q_i + eps_i d
//   o_i = ((1 / delta_i + y_i.q_i) sum_j w_ij v_j - sum_j w_ij (y_i.k_j) v_j) / l_i
// An offset that keys and queries share is in every term, and in no sum.
// Solutions are stored in the operands' format, each row in a unit of its own, and whatever is centred is centred at
// what was stored: y.kt = unit (Y.k - Y.c).
// Query head a reads key/value head a / group. A row that sees nothing has o = 0 and gradients 0.
#include "kernels/core/same_bits.hpp"

namespace assay::tile {

/// The unit of lambda on the sums over 2^x_ij: their sum, one, or the largest term.
enum class RidgeUnit { mass, absolute, max };

/// Blocks of a system: their number and the columns of one.
struct SystemBlocks {
  int count, columns;
};

/// The faults of this room's masks.
template <class X>
TILE_FN Visibility lla_visibility(X& b, Visibility sees) {
  sees.ahead = b.planted("mask_one_key_less"_s, 0, -1);
  sees.window = b.planted("window_dropped"_s, sees.window, 0);
  return sees;
}

/// eps = unit lambda. A ridge beyond the range is the largest within: y = 0 either way.
template <class X, class Row>
TILE_FN auto ridge_unit(X& b, RidgeUnit ridge, const Row& m, const Row& l) {
  const auto unit = in_fp64([=]<class T>(T top, T sum) -> T {
    if (ridge == RidgeUnit::mass || !(sum > 0)) return 1;
    if (ridge == RidgeUnit::max) return 1 / sum;
    const T power = ex2(-top);
    return (power < 0x1p100f ? power : 0x1p100f) / sum;
  });
  const auto shift = b.planted("ridge_unshifted"_s, m,
                               b.rows(
                                   "m"_s, [](auto top) { return 0 * top; }, m));
  return b.rows("unit"_s, unit, shift, l);
}

/// One query tile over its key tiles: m, l, lse, the key mean c and, if wanted, the first key of largest score.
template <ExecutorTypes B, Size BM, Size BN, Size D, int ST>
struct LlaMoments {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k;
    typename B::RowIn index;  // 0, 1, ... for every key
    typename B::RowOut m, l, lse, first;
    typename B::Out centre;
    Real scale;  // log2(e) / h
    Visibility sees;
    int group, kv_heads;
    bool wants_first;
  };
  struct Smem {
    typename B::template Tile<"Q", BM, D> Q;
    typename B::template Tile<"K", BN, D> K[ST];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int head, int q0) {
    const Visibility sees = lla_visibility(b, a.sees);
    const Real scale = b.planted("exp2_without_log2e"_s, a.scale, a.scale * Real{0.6931471805599453});
    const int kv = b.planted("kv_head_modulo"_s, head / a.group, head % a.kv_heads);
    const int j0 = sees.first_key(q0) / BN + b.planted("first_tile_skipped"_s, 0, head == 0 && q0 > 0);
    auto C = b.acc("kbar"_s, Shape<BM, D>{});
    auto m = b.row("m"_s, Shape<BM>{}, -INFINITY);
    auto l = b.partial("l"_s, Shape<BM>{});
    auto first = b.row("first"_s, Shape<BM>{}, 0);
    const auto one = b.row("alpha"_s, Shape<BM>{}, 1);
    const auto top = [&](auto m0, auto s1) { return maxi(m0, s1 * scale); };
    const auto log_weight = [&](auto y, auto m1) { return y * scale - m1; };
    const auto minus_index = [](auto y, auto most, auto j) { return y == most ? -j : -INFINITY; };
    const auto moved = [](auto old, auto from, auto to, auto minus_j) { return to > from ? -minus_j : old; };

    b.load(s.Q, a.q, head, q0);
    b.pipeline(
        Shape<ST>{}, imax(0, ceil_div(sees.last_key(q0 + BM), BN) - j0),
        [&](int j, int st) { b.load(s.K[st], a.k, kv, (j0 + j) * BN); },
        [&](int j, int st) {
          const int k0 = (j0 + j) * BN;
          auto S = b.abt("S"_s, s.Q, s.K[st]);
          if (!sees.all(q0, q0 + BM, k0, k0 + BN))
            S.mask([&](int r, int c) { return sees(q0 + r, k0 + c); }, -INFINITY);
          const auto most = S.row_max();
          const auto mx = b.rows("m"_s, top, m, most);
          if (a.wants_first) {
            auto J = S;
            J.map("first"_s, minus_index, most, b.load_col("first"_s, Shape<1, BN>{}, a.index, 0, k0));
            first = b.rows("first"_s, moved, first, m, mx, J.row_max());
          }
          const auto shift = b.rows("m"_s, finite_or_zero, mx);
          const auto alpha = b.rows("alpha"_s, in_fp64(rescaling), m, shift);
          S.map("logp"_s, log_weight, shift);
          exponentials(b, "p"_s, S);
          l.fold(alpha, S);
          C.scale(b.planted("kbar_not_rescaled"_s, alpha, one));
          // Everything is centred at c, so its weights are two operands: what the first leaves is the second.
          auto high = S;
          high.map("P1"_s, same);
          S.zip("p"_s, minus, high);
          b.mma(C, b.cast("P1"_s, high), s.K[st]);
          b.mma(C, b.cast("P1"_s, S), s.K[st]);
          m = mx;
        });
    const auto sum = l.total();
    C.scale(b.rows("inv"_s, reciprocal, sum));
    b.store_row("m"_s, a.m, head, q0, b.rows("m"_s, finite_or_zero, m));
    b.store_row("l"_s, a.l, head, q0, sum);
    b.store_row("lse"_s, a.lse, head, q0, b.rows("lse"_s, finite_or_zero, b.rows("lse"_s, in_fp64(log_sum), sum, m)));
    b.store_row("first"_s, a.first, head, q0, first);
    b.store("kbar"_s, a.centre, head, q0, C);
  }
};

/// One query tile's systems by conjugate gradients, each row until its residual is small enough or the steps are done;
/// a row at rest stays as it is while others go on. A search direction is what its operand holds: the step along it is
/// the best one, and the next direction conjugate to it, whatever the rounding has made of it. Raw: systems about q
/// from sums that are not centred, and `centre` is kbar.
template <ExecutorTypes B, Size BM, Size BN, Size D, int ST, bool Raw = false>
struct LlaSolve {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, centre, rhs, lambda;
    typename B::RowIn m, l, slack;  // slack: the tolerance's unit
    typename B::Out x, parts;       // parts, if wanted: [heads * blocks], each with the columns of its block alone
    typename B::RowOut unit, delta;
    Real scale, relative, tolerance;  // at rest: |r| <= relative |rhs| or tolerance slack
    Visibility sees;
    int group, kv_heads, steps;
    SystemBlocks blocks;
    RidgeUnit ridge;
    bool tilts;  // the solution is rho, y = rho / delta is wanted
  };
  struct Smem {
    typename B::template Tile<"Q", BM, D> Q;
    typename B::template Tile<"P", BM, D> P;
    typename B::template Tile<"kbar", BM, D> C;
    typename B::template Tile<"rhs", BM, D> R;
    typename B::template Tile<"lambda", BM, D> L;
    typename B::template Tile<"K", BN, D> K[ST];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int head, int q0) {
    const Visibility sees = lla_visibility(b, a.sees);
    const int kv = b.planted("kv_head_modulo"_s, head / a.group, head % a.kv_heads);
    const int j0 = sees.first_key(q0) / BN;
    const Keys keys{sees, q0, kv, j0, imax(0, ceil_div(sees.last_key(q0 + BM), BN) - j0)};
    const auto one = b.row("alpha"_s, Shape<BM>{}, 1);
    const auto zero = b.row("alpha"_s, Shape<BM>{}, 0);

    b.load(s.Q, a.q, head, q0);
    b.load(s.C, a.centre, head, q0);
    b.load(s.R, a.rhs, head, q0);
    b.load(s.L, a.lambda, head, q0);
    b.pipeline(
        Shape<ST>{}, 0, [](int, int) {}, [](int, int) {});
    const auto m = b.load_row("m"_s, Shape<BM>{}, a.m, head, q0);
    const auto l = b.load_row("l"_s, Shape<BM>{}, a.l, head, q0);
    const auto slack = b.load_row("delta"_s, Shape<BM>{}, a.slack, head, q0);
    const auto share = b.rows("inv"_s, reciprocal, l);
    const auto unit = ridge_unit(b, a.ridge, m, l);
    const Rows<std::remove_const_t<decltype(one)>> rows{one, zero, m, slack, share, unit};
    auto Y = b.acc("R"_s, Shape<BM, D>{});
    for (int block = 0; block < a.blocks.count; ++block) solve(b, s, a, keys, rows, block, Y);
    auto delta = one;
    if (a.tilts) {
      delta = b.rows("delta"_s, minus, one, b.dot("rr"_s, Y, in_registers(b, "R"_s, s.R)));
      Y.scale(b.planted("probe_for_tilt"_s,
                        b.rows(
                            "delta"_s, [](auto y) { return 1 / y; }, delta),
                        one));
    }
    store(b, a, head, q0, Y, delta);
  }

 private:
  struct Keys {
    Visibility sees;
    int q0, kv, first, tiles;
  };
  template <class Row>
  struct Rows {
    Row one, zero, m, slack, share, unit;
  };

  /// Conjugate gradients in the columns of a block, whose solution Y takes.
  template <class X, class Row, class Solution>
  TILE_FN static void solve(X& b, Smem& s, const Args& a, const Keys& keys, const Rows<Row>& rows, int block,
                            Solution& Y) {
    const auto threshold = in_fp64([&](auto square, auto slack) {
      const auto own = a.tolerance * slack;
      return maxi(a.relative * a.relative * square, own * own);
    });
    const auto going = [](auto square, auto stop) { return square > stop ? 1 : 0; };
    const auto unit_length =
        in_fp64([](auto square, auto go) { return go * (square > 0 ? ex2(lg2(square) / -2) : 0); });
    const auto best = [](auto along, auto bend, auto go) { return go > 0 && bend > 0 ? along / bend : 0; };
    const auto conjugate = [](auto along, auto bend, auto go) { return go > 0 && bend > 0 ? -along / bend : 0; };
    const auto still = [](auto square, auto bend, auto go) { return go > 0 && bend > 0 ? square : 0; };
    auto R = in_registers(b, "R"_s, s.R);
    R.mask([&](int, int c) { return c / a.blocks.columns == block; }, 0);
    auto P = R;
    auto square = b.dot("rr"_s, R, R);
    const auto stop = b.rows("stop"_s, threshold, square, rows.slack);
    auto go = b.rows("go"_s, going, square, stop);
    for (int step = 0; step < a.steps && b.any([](auto y) { return y > 0; }, go); ++step) {
      P.scale(b.rows("alpha"_s, unit_length, b.dot("rr"_s, P, P), go));
      P.map("P"_s, same);
      b.put(s.P, P);
      auto AP = b.acc("AP"_s, Shape<BM, D>{});
      const auto curvature = image(b, s, a, keys, rows, block, P, AP);
      const auto alpha = b.rows("alpha"_s, best, b.dot("rp"_s, R, P), curvature, go);
      Y.zip("R"_s, plus_times, P, alpha);
      R.zip("R"_s, minus_times, AP, alpha);
      const auto beta = b.rows("alpha"_s, conjugate, b.dot("rp"_s, R, AP), curvature, go);
      auto next = R;
      next.zip("R"_s, plus_times, P, b.planted("steepest_descent"_s, beta, rows.zero));
      P = next;
      square = b.rows("rr"_s, still, b.dot("rr"_s, R, R), curvature, b.planted("rows_not_frozen"_s, go, rows.one));
      go = b.planted("rows_not_frozen"_s, b.rows("go"_s, going, square, stop), rows.one);
    }
  }
  /// AP, the system's product with P, which its tile holds, and the curvature P.AP.
  template <class X, class Row, class Direction>
  TILE_FN static auto image(X& b, Smem& s, const Args& a, const Keys& keys, const Rows<Row>& rows, int block,
                            const Direction& P, Direction& AP) {
    const auto scaled_up = in_fp64([](auto p, auto lambda, auto unit) { return unit * lambda * p; });
    const auto centred = in_fp64([](auto y, auto c, auto share, auto all) { return share * (y - all * c); });
    const auto less_scaled = in_fp64([](auto y, auto c, auto share, auto factor) { return share * y - factor * c; });
    const auto moved_square = in_fp64([](auto square, auto to, auto mean) { return square - to * (2 * mean - to); });
    const auto along_centre = b.dot("pc"_s, P, in_registers(b, "R"_s, chosen<Raw>(s.Q, s.C)));
    auto bend = b.partial("bend"_s, Shape<BM>{});
    auto all = b.partial("all"_s, Shape<BM>{});
    sums_over_keys(b, s, a, keys, rows, along_centre, AP, bend, all);
    const auto sum_along = all.total();
    auto along_mean = along_centre;  // NOLINT(performance-unnecessary-copy-initialization): another where Raw
    if constexpr (Raw) {
      const Real often = b.planted("mean_already_centred"_s, Real{1}, Real{3});
      const auto beyond = [=](auto mean, auto to) { return mean - often * to; };
      along_mean = b.rows("pc"_s, rounded_times, sum_along, rows.share);
      AP.zip("AP"_s, less_scaled, s.C, rows.share, along_centre);
      AP.zip("AP"_s, minus_times, s.Q, b.rows("pc"_s, beyond, along_mean, along_centre));
    } else {
      AP.zip("AP"_s, centred, s.C, rows.share, sum_along);
    }
    auto E = P;
    E.zip("eps"_s, scaled_up, s.L, rows.unit);
    AP.zip("AP"_s, plus, E);
    AP.mask([&](int, int c) { return c / a.blocks.columns == block; }, 0);
    const auto of_keys = bend.total(), of_ridge = b.dot("bend"_s, P, E);
    auto curvature = b.rows("bend"_s, plus_times, of_ridge, of_keys, rows.share);
    if constexpr (Raw)
      curvature = b.planted("square_left_at_zero"_s,
                            b.rows("bend"_s, moved_square, curvature, along_centre, along_mean), curvature);
    return curvature;
  }
  /// sum_j w_j t_j k_j with t_j = P.k_j about the centre, sum_j w_j t_j^2 and sum_j w_j t_j.
  template <class X, class Row, class Sum, class Partial>
  TILE_FN static void sums_over_keys(X& b, Smem& s, const Args& a, const Keys& keys, const Rows<Row>& rows,
                                     const Row& along_centre, Sum& AP, Partial& bend, Partial& all) {
    const auto& sees = keys.sees;
    const int q0 = keys.q0;
    const auto log_weight = [&](auto y, auto m1) { return y * a.scale - m1; };
    b.pipeline(
        Shape<ST>{}, keys.tiles, [&](int j, int st) { b.load(s.K[st], a.k, keys.kv, (keys.first + j) * BN); },
        [&](int j, int st) {
          const int k0 = (keys.first + j) * BN;
          auto [S, T] = b.abt("S"_s, "T"_s, s.Q, s.P, s.K[st]);
          S.map("logp"_s, log_weight, rows.m);
          exponentials(b, "p"_s, S);
          if (!sees.all(q0, q0 + BM, k0, k0 + BN)) S.mask([&](int r, int c) { return sees(q0 + r, k0 + c); }, 0);
          if constexpr (!Raw) T.map("T"_s, minus, b.planted("image_not_centred"_s, along_centre, rows.zero));
          auto U = T;
          T.zip("wt"_s, rounded_times, S);
          U.zip("wtt"_s, rounded_times, T);
          bend.fold(rows.one, U);
          T.map("P2"_s, same);
          all.fold(rows.one, T);
          b.mma(AP, b.cast("P2"_s, T), s.K[st]);
        });
  }
  /// The solution as an operand, each row in a unit of its own, and by blocks. A length beyond one is shared by the
  /// operand and its unit: neither leaves the range of a narrow format so soon.
  template <class X, class Solution, class Row>
  TILE_FN static void store(X& b, const Args& a, int head, int q0, Solution& Y, const Row& delta) {
    const auto shrinking = in_fp64([](auto square) {
      return square > 1 ? ex2(lg2(square) / -4) : square > 0 ? ex2(lg2(square) / -2) : 0;
    });
    const auto shrink = b.rows("yunit"_s, shrinking, b.dot("rr"_s, Y, Y));
    Y.scale(shrink);
    Y.map("Y"_s, same);
    b.store_row("yunit"_s, a.unit, head, q0, b.rows("yunit"_s, reciprocal, shrink));
    b.store_row("delta"_s, a.delta, head, q0, delta);
    b.store("Y"_s, a.x, head, q0, Y);
    for (int block = 0; block < a.blocks.count && a.parts.p != nullptr; ++block) {
      auto part = Y;
      part.mask([&](int, int c) { return c / a.blocks.columns == block; }, 0);
      b.store("Y"_s, a.parts, head * a.blocks.count + block, q0, part);
    }
  }
};

/// The right-hand side zbar of the forward solve, and the unit of its tolerance, where the largest weight is one.
template <ExecutorTypes B, Size BM, Size D, int ST>
struct LlaOffsets {
  struct Args {
    typename B::In q, centre;
    typename B::RowIn l;
    typename B::Out offset;
    typename B::RowOut slack;
  };
  struct Smem {
    typename B::template Tile<"Q", BM, D> Q;
    typename B::template Tile<"kbar", BM, D> C;
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int head, int q0) {
    b.load(s.Q, a.q, head, q0);
    b.load(s.C, a.centre, head, q0);
    b.pipeline(
        Shape<ST>{}, 0, [](int, int) {}, [](int, int) {});
    const auto l = b.load_row("l"_s, Shape<BM>{}, a.l, head, q0);
    auto Z = b.acc("rhs"_s, Shape<BM, D>{});
    Z.zip(
        "rhs"_s, [](auto, auto c) { return c; }, s.C);
    Z.zip(
        "rhs"_s, [](auto c, auto q, auto sum) { return sum > 0 ? c - q : 0; }, s.Q, l);  // nothing seen: y = 0
    b.store("rhs"_s, a.offset, head, q0, Z);
    const auto share = b.rows(
        "inv"_s, [](auto y) { return y > 0 ? 1 / y : 0; }, l);
    b.store_row("delta"_s, a.slack, head, q0,
                b.planted("residual_per_weight"_s, share, b.row("inv"_s, Shape<BM>{}, 1)));
  }
};

/// o of one query tile. Raw: from sums that are not centred, and `centre` is q.
template <ExecutorTypes B, Size BM, Size BN, Size D, int ST, bool Raw = false>
struct LlaOutput {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, v, y, centre;
    typename B::RowIn m, l, y_unit, delta;
    typename B::Out o;
    Real scale;
    Visibility sees;
    int group, kv_heads;
  };
  struct Smem {
    typename B::template Tile<"Q", BM, D> Q;
    typename B::template Tile<"Y", BM, D> Y;
    typename B::template Tile<"kbar", BM, D> C;
    typename B::template Tile<"K", BN, D> K[ST];
    typename B::template Tile<"V", BN, D> V[ST];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int head, int q0) {
    const Visibility sees = lla_visibility(b, a.sees);
    const int kv = b.planted("kv_head_modulo"_s, head / a.group, head % a.kv_heads);
    const int j0 = sees.first_key(q0) / BN;
    auto O = b.acc("O"_s, Shape<BM, D>{});
    [[maybe_unused]] auto cross = b.acc("O"_s, Shape < BM, Raw ? D : Size{16} > {});
    const auto log_weight = [&](auto y, auto m1) { return y * a.scale - m1; };
    const auto remainder = in_fp64([](auto t, auto along_centre, auto unit) { return 1 - unit * (t - along_centre); });
    const auto at_query =
        in_fp64([](auto delta, auto along, auto unit, auto share) { return share * (1 / delta + unit * along); });
    const auto registers = [&](auto& tile) { return in_registers(b, "R"_s, tile); };
    const auto m = b.load_row("m"_s, Shape<BM>{}, a.m, head, q0);
    const auto unit = b.load_row("yunit"_s, Shape<BM>{}, a.y_unit, head, q0);
    auto along = b.row("pc"_s, Shape<BM>{}, 0);
    const auto zero = along;

    b.load(s.Q, a.q, head, q0);
    b.load(s.Y, a.y, head, q0);
    b.load(s.C, a.centre, head, q0);
    b.pipeline(
        Shape<ST>{}, imax(0, ceil_div(sees.last_key(q0 + BM), BN) - j0),
        [&](int j, int st) {
          b.load(s.K[st], a.k, kv, (j0 + j) * BN);
          b.load(s.V[st], a.v, kv, (j0 + j) * BN);
        },
        [&](int j, int st) {
          const int k0 = (j0 + j) * BN;
          if (j == 0) {
            along = b.dot("pc"_s, registers(s.Y), registers(s.C));
            if constexpr (Raw)
              along = b.planted("moment_left_at_zero"_s, along, zero);
            else
              along = b.planted("mean_t_dropped"_s, along, zero);
          }
          auto [S, T] = b.abt("S"_s, "T"_s, s.Q, s.Y, s.K[st]);
          S.map("logp"_s, log_weight, m);
          exponentials(b, "p"_s, S);
          if (!sees.all(q0, q0 + BM, k0, k0 + BN)) S.mask([&](int r, int c) { return sees(q0 + r, k0 + c); }, 0);
          if constexpr (Raw) {
            T.zip("wt"_s, rounded_times, S);
            auto P2 = b.cast("P2"_s, T);
            b.mma(O, b.cast("P1"_s, S), cross, P2, s.V[st]);
          } else {
            T.map("N"_s, remainder, along, unit);
            S.zip("wt"_s, rounded_times, T);
            b.mma(O, b.cast("P2"_s, S), s.V[st]);
          }
        });
    const auto share = b.rows("inv"_s, reciprocal, b.load_row("l"_s, Shape<BM>{}, a.l, head, q0));
    if constexpr (Raw) {
      O.scale(b.rows("n"_s, at_query, b.load_row("delta"_s, Shape<BM>{}, a.delta, head, q0), along, unit, share));
      cross.scale(b.rows("inv"_s, rounded_times, unit, share));
      O.zip("O"_s, minus, cross);
    } else {
      O.scale(share);
    }
    b.store("out"_s, a.o, head, q0, O);
  }
};

/// Backward, first pass: b_i, and the right-hand side of the second solve, dy_i or dy_i - b_i zbar_i. Two sweeps: the
/// second one takes from a_ij its mean.
template <ExecutorTypes B, Size BM, Size BN, Size D, int ST>
struct LlaAdjoint {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, v, g, centre;
    typename B::RowIn m, l;
    typename B::RowOut mean;
    typename B::Out rhs;
    Real scale;
    Visibility sees;
    int group, kv_heads;
    bool about_query;
  };
  struct Smem {
    typename B::template Tile<"Q", BM, D> Q;
    typename B::template Tile<"dO", BM, D> G;
    typename B::template Tile<"kbar", BM, D> C;
    typename B::template Tile<"K", BN, D> K[ST];
    typename B::template Tile<"V", BN, D> V[ST];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int head, int q0) {
    const Visibility sees = lla_visibility(b, a.sees);
    const int kv = b.planted("kv_head_modulo"_s, head / a.group, head % a.kv_heads);
    const int j0 = sees.first_key(q0) / BN, tiles = imax(0, ceil_div(sees.last_key(q0 + BM), BN) - j0);
    const auto one = b.row("alpha"_s, Shape<BM>{}, 1);
    const auto log_weight = [&](auto y, auto m1) { return y * a.scale - m1; };
    const auto deviation = in_fp64([](auto a_ij, auto w, auto mean) { return w * (a_ij - mean); });
    const auto negative_centred = in_fp64([](auto y, auto c, auto share, auto all) { return share * (all * c - y); });
    const auto m = b.load_row("m"_s, Shape<BM>{}, a.m, head, q0);
    const auto share = b.rows("inv"_s, reciprocal, b.load_row("l"_s, Shape<BM>{}, a.l, head, q0));
    const auto load = [&](int j, int st) {
      b.load(s.K[st], a.k, kv, (j0 + j) * BN);
      b.load(s.V[st], a.v, kv, (j0 + j) * BN);
    };
    const auto weights = [&](int j, int st) {
      const int k0 = (j0 + j) * BN;
      auto S = b.abt("S"_s, s.Q, s.K[st]);
      S.map("logp"_s, log_weight, m);
      exponentials(b, "p"_s, S);
      if (!sees.all(q0, q0 + BM, k0, k0 + BN)) S.mask([&](int r, int c) { return sees(q0 + r, k0 + c); }, 0);
      return S;
    };

    b.load(s.Q, a.q, head, q0);
    b.load(s.G, a.g, head, q0);
    b.load(s.C, a.centre, head, q0);
    auto moment = b.partial("mean"_s, Shape<BM>{});
    b.pipeline(Shape<ST>{}, tiles, load, [&](int j, int st) {
      auto A = b.abt("dP"_s, s.G, s.V[st]);
      auto W = weights(j, st);
      A.zip("E"_s, rounded_times, W);
      moment.fold(one, A);
    });
    const auto mean = b.rows("mean"_s, rounded_times, moment.total(), share);
    auto dY = b.acc("dY"_s, Shape<BM, D>{});
    auto all = b.partial("all"_s, Shape<BM>{});
    b.pipeline(Shape<ST>{}, tiles, load, [&](int j, int st) {
      auto A = b.abt("dP"_s, s.G, s.V[st]);
      auto W = weights(j, st);
      A.zip("E"_s, deviation, W, mean);
      A.map("dS"_s, same);
      all.fold(one, A);
      b.mma(dY, b.cast("dS"_s, A), s.K[st]);
    });
    dY.zip("rhs"_s, negative_centred, s.C, share, all.total());
    if (a.about_query) {
      auto Z = in_registers(b, "rhs"_s, s.C);
      Z.zip(
          "rhs"_s, [](auto c, auto q) { return c - q; }, s.Q);
      dY.zip(
          "rhs"_s, [](auto y, auto z, auto mean_i) { return y - mean_i * z; }, Z, mean);
    }
    b.store_row("mean"_s, a.mean, head, q0, mean);
    b.store("rhs"_s, a.rhs, head, q0, dY);
  }
};

/// Backward, the numbers of one query tile that no key enters: dlambda, sum_j dz_ij, and the coefficients of N, F and
/// D.
template <ExecutorTypes B, Size BM, Size D, int ST>
struct LlaCoefficients {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, centre, rhs, lambda, y, x, y_parts, x_parts;
    typename B::RowIn m, l, mean, delta, y_unit, x_unit;
    typename B::Out dlambda, dz;
    typename B::RowOut ny, nx;      // [heads * blocks]: N = ny - unit Y.k,  x.z = unit X.k - nx
    typename B::RowOut f0, f1;      // F = a - f0 - f1 N + x.z
    typename B::RowOut s0, kappa;   // D = p ((a - f0)(s0 + sum of N) + sum of N (x.z - f1 / 2 N) + kappa)
    typename B::RowOut e, row_sum;  // e at the largest score; sum_j D_ij, where it is known
    SystemBlocks blocks;
    RidgeUnit ridge;
    bool about_query;
  };
  struct Smem {
    typename B::template Tile<"Q", BM, D> Q;
    typename B::template Tile<"kbar", BM, D> C;
    typename B::template Tile<"rhs", BM, D> R;
    typename B::template Tile<"lambda", BM, D> L;
    typename B::template Tile<"Y", BM, D> Y[ST + 1];
    typename B::template Tile<"X", BM, D> X[ST + 1];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int head, int q0) {
    const auto one = b.row("n"_s, Shape<BM>{}, 1);
    const auto zero = b.row("n"_s, Shape<BM>{}, 0);
    const auto m = b.load_row("m"_s, Shape<BM>{}, a.m, head, q0);
    const auto l = b.load_row("l"_s, Shape<BM>{}, a.l, head, q0);
    const auto mean = b.load_row("mean"_s, Shape<BM>{}, a.mean, head, q0);
    const auto delta = b.load_row("delta"_s, Shape<BM>{}, a.delta, head, q0);
    const auto y_unit = b.load_row("yunit"_s, Shape<BM>{}, a.y_unit, head, q0);
    const auto x_unit = b.load_row("yunit"_s, Shape<BM>{}, a.x_unit, head, q0);
    const auto unit = ridge_unit(b, a.ridge, m, l);

    b.load(s.Q, a.q, head, q0);
    b.load(s.C, a.centre, head, q0);
    b.load(s.R, a.rhs, head, q0);
    b.load(s.L, a.lambda, head, q0);
    b.load(s.Y[ST], a.y, head, q0);
    b.load(s.X[ST], a.x, head, q0);
    b.pipeline(
        Shape<ST>{}, 0, [](int, int) {}, [](int, int) {});
    auto Z = in_registers(b, "R"_s, s.C);
    Z.zip("rhs"_s, minus, s.Q);
    auto Y = scaled(b, s.Y[ST], y_unit), Xs = scaled(b, s.X[ST], x_unit);
    Rows<std::remove_const_t<decltype(one)>> rows{one, zero, mean, delta, y_unit, x_unit, mean, zero, zero};
    if (a.about_query) move_to_query(b, s, a, Z, Y, rows);
    const auto e = store_ridge_gradient(b, s, a, head, q0, Y, Xs, unit, rows);
    if (a.ridge == RidgeUnit::mass) rows.kappa = b.rows("tau"_s, plus, rows.kappa, e);
    const auto n_sum = store_blocks(b, s, a, head, q0, Z, rows);
    b.store_row("tau"_s, a.f0, head, q0, rows.f0);
    b.store_row("tau"_s, a.f1, head, q0, rows.f1);
    b.store_row("n"_s, a.s0, head, q0, b.rows("n"_s, minus, one, n_sum));
    b.store_row("tau"_s, a.kappa, head, q0, rows.kappa);
    b.store_row("e"_s, a.e, head, q0, e);
    b.store_row("e"_s, a.row_sum, head, q0, a.ridge == RidgeUnit::absolute ? b.rows("e"_s, minus, zero, e) : zero);
  }

 private:
  template <class Row>
  struct Rows {
    Row one, zero, mean, delta, y_unit, x_unit;
    Row f0, f1, kappa;
  };
  template <class X, class Tile, class Row>
  TILE_FN static auto scaled(X& b, Tile& tile, const Row& unit) {
    auto x = in_registers(b, "R"_s, tile);
    x.scale(unit);
    return x;
  }

  /// f0, f1 and kappa of systems about q.
  template <class X, class Offset, class Row>
  TILE_FN static void move_to_query(X& b, Smem& s, const Args& a, const Offset& Z, const Offset& Y, Rows<Row>& rows) {
    const int blocks = a.blocks.count;
    auto dY = in_registers(b, "R"_s, s.R);
    dY.zip(
        "rhs"_s, [](auto y, auto z, auto mean_i) { return y + mean_i * z; }, Z, rows.mean);
    const auto tau = b.rows("tau"_s, plus, rows.mean, b.dot("tau"_s, Y, dY));
    rows.f0 = rows.zero;
    rows.f1 = b.rows(
        "tau"_s, [](auto t, auto d) { return 2 * t * d; }, tau,
        b.planted("mass_gradient_dropped"_s, rows.delta, rows.zero));
    rows.kappa = b.rows(
        "tau"_s, [=](auto t, auto d) { return d != 0 ? (blocks - 1) * t / d : 0; }, tau, rows.delta);
  }
  /// dlambda, and e.
  template <class X, class Solution, class Row>
  TILE_FN static auto store_ridge_gradient(X& b, Smem& s, const Args& a, int head, int q0, const Solution& Y,
                                           const Solution& Xs, const Row& unit, const Rows<Row>& rows) {
    auto slope = Y;
    slope.map(
        "dlam"_s, [](auto y, auto f) { return f / 2 * y; }, rows.f1);
    slope.zip("dlam"_s, plus, Xs);
    slope.zip("dlam"_s, times, Y);
    slope.map(
        "dlam"_s, [](auto y, auto u) { return -u * y; }, unit);
    b.store("dlam"_s, a.dlambda, head, q0, slope);
    return b.planted("ridge_detached"_s, b.dot("e"_s, slope, in_registers(b, "R"_s, s.L)), rows.zero);
  }
  /// Stores dz and the rows that the later passes need of every block; returns the sum of n.
  template <class X, class Offset, class Row>
  TILE_FN static auto store_blocks(X& b, Smem& s, const Args& a, int head, int q0, const Offset& Z,
                                   const Rows<Row>& rows) {
    const int blocks = a.blocks.count;
    auto dZ = b.acc("dz"_s, Shape<BM, D>{});
    auto n_sum = rows.zero;
    b.pipeline(
        Shape<ST>{}, blocks,
        [&](int j, int st) {
          b.load(s.Y[st], a.y_parts, head * blocks + j, q0);
          b.load(s.X[st], a.x_parts, head * blocks + j, q0);
        },
        [&](int j, int st) {
          auto Yb = scaled(b, s.Y[st], rows.y_unit), Xb = scaled(b, s.X[st], rows.x_unit);
          auto n = rows.one, lift = rows.zero;
          if (a.about_query) {
            n = b.rows(
                "n"_s, [](auto d, auto t) { return d != 0 ? 1 / d - t : 0; }, rows.delta, b.dot("n"_s, Yb, Z));
            lift = b.dot("n"_s, Xb, Z);
          }
          n_sum = b.rows("n"_s, plus, n_sum, n);
          const auto C = in_registers(b, "R"_s, s.C);
          b.store_row("n"_s, a.ny, head * blocks + j, q0, b.rows("n"_s, plus, n, b.dot("n"_s, Yb, C)));
          b.store_row("n"_s, a.nx, head * blocks + j, q0, b.rows("n"_s, minus, b.dot("n"_s, Xb, C), lift));
          const auto w = b.rows(
              "n"_s, [](auto g, auto g0, auto g1, auto nb, auto x) { return g - g0 - g1 * nb + x; }, rows.mean, rows.f0,
              rows.f1, n, lift);
          Xb.scale(n);
          Yb.scale(w);
          dZ.zip("dz"_s, plus, Xb);
          dZ.zip("dz"_s, minus, Yb);
        });
    b.store("dz"_s, a.dz, head, q0, dZ);
    return n_sum;
  }
};

/// Terms of a pair, from products with stored vectors: N, x.z, N (x.z - f1 / 2 N), and D.
TILE_CONSTANT struct BlockRemainder {
  template <class T>
  TILE_FN T operator()(T t, T n, T unit) const {
    return n - unit * t;
  }
} block_remainder;
TILE_CONSTANT struct BlockOffset {
  template <class T>
  TILE_FN T operator()(T t, T n, T unit) const {
    return unit * t - n;
  }
} block_offset;
TILE_CONSTANT struct BlockQuadratic {
  template <class T>
  TILE_FN T operator()(T u, T n, T f) const {
    return n * (u - f / 2 * n);
  }
} block_quadratic;
TILE_CONSTANT struct LlaScoreGradient {
  template <class T>
  TILE_FN T operator()(T a, T p, T n, T y, T f, T more) const {
    return p * ((a - f) * n + y + more);
  }
} lla_score_gradient;

/// Backward, second pass: one query tile over its key tiles gives dq_i and sum_j D_ij log2 p_ij.
template <ExecutorTypes B, Size BM, Size BN, Size D, int ST>
struct LlaBackwardQuery {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, v, g, y, x, centre, dz;  // y, x: in parts
    typename B::RowIn lse, y_unit, x_unit, ny, nx, f0, f1, s0, kappa, e, row_sum, first, index;
    typename B::RowOut dh;
    typename B::Out dq;
    Real scale, inv_bandwidth;  // log2(e) / h, 1 / h
    Visibility sees;
    int group, kv_heads, blocks;
    bool about_query, has_first;
  };
  struct Smem {
    typename B::template Tile<"Q", BM, D> Q;
    typename B::template Tile<"dO", BM, D> G;
    typename B::template Tile<"kbar", BM, D> C;
    typename B::template Tile<"dz", BM, D> Z;
    typename B::template Tile<"Y", BM, D> Y[ST];
    typename B::template Tile<"X", BM, D> X[ST];
    typename B::template Tile<"K", BN, D> K[ST];
    typename B::template Tile<"V", BN, D> V[ST];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int head, int q0) {
    const Visibility sees = lla_visibility(b, a.sees);
    const int kv = b.planted("kv_head_modulo"_s, head / a.group, head % a.kv_heads), blocks = a.blocks;
    const int j0 = sees.first_key(q0) / BN, tiles = imax(0, ceil_div(sees.last_key(q0 + BM), BN) - j0);
    auto dQ = b.acc("dQ"_s, Shape<BM, D>{});
    auto dh = b.partial("dh"_s, Shape<BM>{});
    auto whole = b.partial("all"_s, Shape<BM>{}), rounded = b.partial("all"_s, Shape<BM>{});
    auto nu = b.acc("N"_s, Shape<BM, BN>{}), cross = b.acc("NU"_s, Shape<BM, BN>{});
    const auto one = b.row("alpha"_s, Shape<BM>{}, 1);
    const auto row = [&](auto site, const auto& from) { return b.load_row(site, Shape<BM>{}, from, head, q0); };
    const auto lse = row("lse"_s, a.lse), y_unit = row("yunit"_s, a.y_unit), x_unit = row("yunit"_s, a.x_unit);
    const auto f0 = row("tau"_s, a.f0), f1 = row("tau"_s, a.f1), kappa = row("tau"_s, a.kappa), e = row("e"_s, a.e);
    const auto s0 = row("n"_s, a.s0), first = row("first"_s, a.first);
    const auto log_weight = [&](auto y, auto z) { return y * a.scale - z; };
    const auto at_the_first = [](auto d, auto first_i, auto j, auto e_i) { return j == first_i ? d + e_i : d; };

    b.load(s.Q, a.q, head, q0);
    b.load(s.G, a.g, head, q0);
    b.load(s.C, a.centre, head, q0);
    b.load(s.Z, a.dz, head, q0);
    b.pipeline(
        Shape<ST>{}, tiles * blocks,
        [&](int j, int st) {
          if (blocks > 1 || j < ST) {
            b.load(s.Y[st], a.y, head * blocks + j % blocks, q0);
            b.load(s.X[st], a.x, head * blocks + j % blocks, q0);
          }
          b.load(s.K[st], a.k, kv, (j0 + j / blocks) * BN);
          b.load(s.V[st], a.v, kv, (j0 + j / blocks) * BN);
        },
        [&](int j, int st) {
          const int k0 = (j0 + j / blocks) * BN, block = j % blocks;
          if (block == 0) {
            nu = b.acc("N"_s, Shape<BM, BN>{}), cross = b.acc("NU"_s, Shape<BM, BN>{});
            nu.map("N"_s, plus, s0);
          }
          add_block(b, s, a, st, head * blocks + block, q0, y_unit, x_unit, f1, nu, cross);
          if (block < blocks - 1) return;
          auto L = b.abt("S"_s, s.Q, s.K[st]);
          L.map("logp"_s, log_weight, lse);
          auto P = L;
          exponentials(b, "p"_s, P);
          if (!sees.all(q0, q0 + BM, k0, k0 + BN)) P.mask([&](int r, int c) { return sees(q0 + r, k0 + c); }, 0);
          auto A = b.abt("dP"_s, s.G, s.V[st]);
          A.zip("D"_s, lla_score_gradient, P, nu, cross, f0, kappa);
          if (a.has_first) {
            A.map("D"_s, at_the_first, first, b.load_col("first"_s, Shape<1, BN>{}, a.index, 0, k0), e);
            if (!sees.all(q0, q0 + BM, k0, k0 + BN)) A.mask([&](int r, int c) { return sees(q0 + r, k0 + c); }, 0);
          }
          whole.fold(one, A);
          L.zip("dh"_s, rounded_times, A);
          dh.fold(one, L);
          A.map("dS"_s, same);
          rounded.fold(one, A);
          b.mma(dQ, b.cast("dS"_s, A), s.K[st]);
        });
    // The rows of D have known sums: k_j - c_i stands in for k_j, and log2 p for x.
    const auto sums = a.about_query ? whole.total() : row("e"_s, a.row_sum);
    add_offsets(b, s, a, dQ, b.rows("all"_s, minus, sums, rounded.total()));
    b.store_row("dh"_s, a.dh, head, q0, b.rows("dh"_s, plus_times, dh.total(), lse, sums));
    b.store("out"_s, a.dq, head, q0, dQ);
  }

 private:
  /// N and N (x.z - f1 / 2 N) of one block more.
  template <class X, class Row, class Sum>
  TILE_FN static void add_block(X& b, Smem& s, const Args& a, int st, int part, int q0, const Row& y_unit,
                                const Row& x_unit, const Row& f1, Sum& nu, Sum& cross) {
    auto [N, U] = b.abt("T"_s, "T"_s, s.Y[st], s.X[st], s.K[st]);
    N.map("N"_s, block_remainder, b.load_row("n"_s, Shape<BM>{}, a.ny, part, q0), y_unit);
    U.map("T"_s, block_offset, b.load_row("n"_s, Shape<BM>{}, a.nx, part, q0), x_unit);
    nu.zip("N"_s, plus, N);
    U.zip("NU"_s, block_quadratic, N, f1);
    cross.zip("NU"_s, plus, U);
  }
  /// Adds to dq the remainder of the sums over the rows of D, at the centre, and subtracts dz.
  template <class X, class Gradient, class Row>
  TILE_FN static void add_offsets(X& b, Smem& s, const Args& a, Gradient& dQ, const Row& rest) {
    const Real inv_h = b.planted("dq_without_scale"_s, a.inv_bandwidth, Real{1});
    const Real sign = b.planted("offset_sign"_s, Real{1}, Real{-1});
    dQ.zip(
        "dq"_s, [&](auto y, auto c, auto factor) { return (y + factor * c) * inv_h; }, s.C, rest);
    dQ.zip(
        "dq"_s, [&](auto y, auto z) { return y - sign * z; }, s.Z);
  }
};

/// Backward, third pass: one key tile over the query tiles of every head that reads it. The scores are transposed,
/// keys by queries, so that what multiplies g, q, x and y is a left factor as it stands.
template <ExecutorTypes B, Size BM, Size BN, Size D, int ST>
struct LlaBackwardKey {
  using Real = typename B::Real;
  struct Args {
    typename B::In q, k, v, g, y, x;  // y, x: in parts
    typename B::RowIn lse, y_unit, x_unit, ny, nx, f0, f1, s0, kappa, e, first, index;
    typename B::Out dk, dv;
    Real scale, inv_bandwidth;
    Visibility sees;
    int group, kv_heads, blocks;
    bool has_first;
  };
  struct Smem {
    typename B::template Tile<"K", BN, D> K;
    typename B::template Tile<"V", BN, D> V;
    typename B::template Tile<"Q", BM, D> Q[ST];
    typename B::template Tile<"dO", BM, D> G[ST];
    typename B::template Tile<"Y", BM, D> Y[ST];
    typename B::template Tile<"X", BM, D> X[ST];
  };

  template <class X>
  TILE_FN static void run(X& b, Smem& s, const Args& a, int kv, int k0) {
    const Visibility sees = lla_visibility(b, a.sees);
    const int i0 = sees.first_row(k0) / BM, tiles = imax(0, ceil_div(sees.last_row(k0 + BN), BM) - i0);
    const int blocks = a.blocks, steps = tiles * blocks;
    auto dK = b.acc("dK"_s, Shape<BN, D>{});
    auto dV = b.acc("dV"_s, Shape<BN, D>{});
    auto nu = b.acc("N"_s, Shape<BN, BM>{}), cross = b.acc("NU"_s, Shape<BN, BM>{});
    const auto index = b.load_row("first"_s, Shape<BN>{}, a.index, 0, k0);
    const auto at_the_first = [](auto d, auto j, auto first_i, auto e_i) { return j == first_i ? d + e_i : d; };

    b.load(s.K, a.k, kv, k0);
    b.load(s.V, a.v, kv, k0);
    b.pipeline(
        Shape<ST>{}, b.planted("dk_one_head_of_group"_s, a.group, 1) * steps,
        [&](int j, int st) {
          const int head = kv * a.group + j / steps, block = j % blocks, q0 = (i0 + j % steps / blocks) * BM;
          b.load(s.Q[st], a.q, head, q0);
          b.load(s.G[st], a.g, head, q0);
          b.load(s.Y[st], a.y, head * blocks + block, q0);
          b.load(s.X[st], a.x, head * blocks + block, q0);
        },
        [&](int j, int st) {
          const int head = kv * a.group + j / steps, block = j % blocks, q0 = (i0 + j % steps / blocks) * BM;
          const auto col = [&](auto site, const auto& from, int part) {
            return b.load_col(site, Shape<1, BM>{}, from, part, q0);
          };
          const auto y_unit = col("yunit"_s, a.y_unit, head), x_unit = col("yunit"_s, a.x_unit, head);
          const auto f0 = col("tau"_s, a.f0, head), f1 = col("tau"_s, a.f1, head);
          if (block == 0) {
            nu = b.acc("N"_s, Shape<BN, BM>{}), cross = b.acc("NU"_s, Shape<BN, BM>{});
            nu.map("N"_s, plus, col("n"_s, a.s0, head));
          }
          auto P = b.abt("S"_s, s.K, s.Q[st]);
          P.map(
              "logp"_s, [&](auto y, auto z) { return y * a.scale - z; }, col("lse"_s, a.lse, head));
          exponentials(b, "p"_s, P);
          if (!sees.all(q0, q0 + BM, k0, k0 + BN)) P.mask([&](int r, int c) { return sees(q0 + c, k0 + r); }, 0);
          auto A = b.abt("dP"_s, s.V, s.G[st]);
          auto N = b.abt("T"_s, s.K, s.Y[st]);
          N.map("N"_s, block_remainder, col("n"_s, a.ny, head * blocks + block), y_unit);
          auto U = b.abt("T"_s, s.K, s.X[st]);
          U.map("T"_s, block_offset, col("n"_s, a.nx, head * blocks + block), x_unit);
          add_solutions(b, s, st, dK, A, P, N, U, f0, f1, y_unit, x_unit);
          nu.zip("N"_s, plus, N);
          U.zip("NU"_s, block_quadratic, N, f1);
          cross.zip("NU"_s, plus, U);
          if (block < blocks - 1) return;
          A.zip("D"_s, lla_score_gradient, P, nu, cross, f0, col("tau"_s, a.kappa, head));
          if (a.has_first) {
            A.map("D"_s, at_the_first, index, col("first"_s, a.first, head), col("e"_s, a.e, head));
            if (!sees.all(q0, q0 + BM, k0, k0 + BN)) A.mask([&](int r, int c) { return sees(q0 + c, k0 + r); }, 0);
          }
          A.map("D"_s, [&](auto d) { return d * a.inv_bandwidth; });
          b.mma(dK, b.cast("dS"_s, A), s.Q[st]);
          auto coefficient = P;
          coefficient.zip("wt"_s, rounded_times, nu);
          b.mma(dV, b.cast("P2"_s, b.planted("dv_without_probe"_s, coefficient, P)), s.G[st]);
        });
    b.store("out"_s, a.dk, kv, k0, dK);
    b.store("out"_s, a.dv, kv, k0, dV);
  }

 private:
  /// Adds the keys' gradients through the systems' solutions, t = y.k and x.k.
  template <class X, class Gradient, class Scores, class Col>
  TILE_FN static void add_solutions(X& b, Smem& s, int st, Gradient& dK, const Scores& A, const Scores& P,
                                    const Scores& N, const Scores& U, const Col& f0, const Col& f1, const Col& y_unit,
                                    const Col& x_unit) {
    const auto residual = [](auto a_ij, auto n, auto u, auto f, auto g) { return a_ij - f - g * n + u; };
    const Real kept = b.planted("dk_without_x"_s, Real{1}, Real{0});
    auto F = A;
    F.zip("F"_s, residual, N, U, f0, f1);
    F.zip(
        "F"_s, [](auto f, auto p, auto unit) { return -unit * p * f; }, P, y_unit);
    b.mma(dK, b.cast("dT"_s, F), s.Y[st]);
    auto W = N;
    W.zip(
        "F"_s, [&](auto n, auto p, auto unit) { return kept * unit * p * n; }, P, x_unit);
    b.mma(dK, b.cast("dT"_s, W), s.X[st]);
  }
};

inline constexpr SiteTable::Init lla_tiled_roles[] = {{"Q", Role::operand},
                                                      {"K", Role::operand},
                                                      {"V", Role::operand},
                                                      {"dO", Role::operand},
                                                      {"P", Role::operand},
                                                      {"Y", Role::operand},
                                                      {"X", Role::operand},
                                                      {"P1", Role::operand},
                                                      {"P2", Role::operand},
                                                      {"dS", Role::operand},
                                                      {"dT", Role::operand},
                                                      {"scale", Role::gate},
                                                      {"inv_bandwidth", Role::gate},
                                                      {"lambda", Role::gate},
                                                      {"m", Role::gate},
                                                      {"lse", Role::gate},
                                                      {"first", Role::gate},
                                                      {"alpha", Role::gate},
                                                      {"inv", Role::gate},
                                                      {"unit", Role::gate},
                                                      {"stop", Role::gate},
                                                      {"go", Role::gate},
                                                      {"delta", Role::gate},
                                                      {"yunit", Role::gate},
                                                      {"mean", Role::gate},
                                                      {"tau", Role::gate},
                                                      {"n", Role::gate},
                                                      {"e", Role::gate},
                                                      {"S", Role::accumulator},
                                                      {"T", Role::accumulator},
                                                      {"p", Role::accumulator},
                                                      {"l", Role::accumulator},
                                                      {"kbar", Role::accumulator},
                                                      {"rhs", Role::accumulator},
                                                      {"R", Role::accumulator},
                                                      {"rr", Role::accumulator},
                                                      {"rp", Role::accumulator},
                                                      {"pc", Role::accumulator},
                                                      {"AP", Role::accumulator},
                                                      {"bend", Role::accumulator},
                                                      {"all", Role::accumulator},
                                                      {"wt", Role::accumulator},
                                                      {"wtt", Role::accumulator},
                                                      {"eps", Role::accumulator},
                                                      {"N", Role::accumulator},
                                                      {"O", Role::accumulator},
                                                      {"dP", Role::accumulator},
                                                      {"E", Role::accumulator},
                                                      {"dY", Role::accumulator},
                                                      {"dlam", Role::accumulator},
                                                      {"dz", Role::accumulator},
                                                      {"NU", Role::accumulator},
                                                      {"F", Role::accumulator},
                                                      {"D", Role::accumulator},
                                                      {"logp", Role::accumulator},
                                                      {"dQ", Role::accumulator},
                                                      {"dq", Role::accumulator},
                                                      {"dh", Role::accumulator},
                                                      {"dK", Role::accumulator},
                                                      {"dV", Role::accumulator},
                                                      {"out", Role::output}};
/// Sites of forward and backward. Keys, directions and stored solutions are operands; the vectors of the systems, their
/// right-hand sides and all sums are as wide as the accumulators.
inline constexpr SiteTable lla_tiled_sites(lla_tiled_roles);

}  // namespace assay::tile
