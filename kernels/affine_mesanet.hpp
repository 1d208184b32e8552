#pragma once
// Affine MesaNet, chunkwise (lla-family.md section 7). With c_i and w_i the means of the keys and values up to row i
// and n_i their number, and before a chunk of C tokens n_0, the means m and u and the scatters about them, H of the
// keys and S of values and keys, the rows of the chunk are solved together by conjugate gradients
// (kernels/core/ridge_solve.hpp):
//   system     p -> p H + n_0 (e.p) e + sum_j (k_j.p - c.p)(k_j - c) + l o p,   e_i = m - c_i, j <= i within the chunk,
//              l_i = lambda_i times 1 (lambda on sums) or n_i (on means): n_i (C_i + l_i / n_i)
//   forward    y_i = system^{-1} n_i (c_i - q_i),   n_i o_i = n_0 (1 - y.e) u - S y + sum_j (1 - y.(k_j - c)) v_j
//   backward   x_i = -system^{-1} (S^T g + n_0 g.(u - w) e + sum_j (g.v_j - g.w)(k_j - c)),   dq_i = -x_i,
//              dlambda_i = -(l_i / lambda_i) / n_i x_i y_i
// What row i puts on the keys and values j <= i is affine in them, with a_i = (1 + y.c) / n and b_i = (x.c + g.w) / n,
//   dk_j: (a - y.k_j / n) x + (b - (x.k_j + g.v_j) / n) y,   dv_j: (a - y.k_j / n) g
// so over the rows after a chunk it is, last chunk first,
//   N = dH - sum x y^T / n,   P = dS - sum g y^T / n,   d = sum a x + b y,   h = sum a g:
//   dk_j = d + (N + N^T) k_j + P^T v_j,   dv_j = h + P k_j
// States merge as Chan, Golub and LeVeque's: H <- H + H_c + n_0 n_c / (n_0 + n_c) (m_c - m)(m_c - m)^T. They are those
// of a key/value head: query head a reads key/value head a / group. A vector that all rows share is a tile of equal
// rows.
#include "kernels/core/ridge_solve.hpp"

namespace assay::tile {

/// All ones on and below the diagonal, or everywhere.
template <int C, class X>
TILE_FN auto ones(X& b, bool lower) {
  auto one = b.acc("one"_s, Shape<C, C>{});
  one.map("one"_s, [](auto x) { return x + 1; });
  if (lower) one.mask([](int r, int c) { return r >= c; }, 0);
  return one;
}

/// What a chunk adds: its means, and the scatters about them.
template <ExecutorTypes B, int C, int D>
struct AffineUpdates {
  using Real = typename B::Real;
  struct Args {
    typename B::In k, v;
    typename B::RowOut mean_k, mean_v;
    typename B::Out gram, state;
    int len;
    bool splits;
  };
  struct Smem {
    typename B::template Tile<"K", C, D> K;
    typename B::template Tile<"V", C, D> V;
    typename B::template Tile<"one", C, 16> ones;
    typename B::template Tile<"Kc", C, D> centred_k[2];
    typename B::template Tile<"Kc", C, D> centred_v[2];
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int count = imin(C, a.len - chunk * C);
    const auto copy = [](auto, auto x) { return x; };
    const auto plus = [](auto x, auto y) { return x + y; };
    const auto minus = [](auto x, auto y) { return x - y; };
    const auto over = [&](auto x) { return x / static_cast<Real>(count); };
    const auto mean_of = [&](auto& tile) { return b.rows("mean"_s, over, b.atb("mean"_s, tile, s.ones).row_max()); };
    const auto centre = [&](auto& tile, const auto& mean, auto& two) {
      auto x = b.acc("mean"_s, Shape<C, D>{});
      x.zip("mean"_s, copy, tile);
      x.map("mean"_s, minus, b.column_of(mean));
      x.mask([&](int r, int) { return r < count; }, 0);
      const auto low = split(b, "Kc"_s, x);
      b.put(two[0], x);
      b.put(two[1], low);
    };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.K, a.k, head, chunk * C);
          b.load(s.V, a.v, head, chunk * C);
        },
        [&](int, int) {
          auto one = b.acc("mean"_s, Shape<C, 16>{});
          one.map("mean"_s, [](auto x) { return x + 1; });
          b.put(s.ones, one);
          b.sync();
          const auto mean_k = mean_of(s.K), mean_v = mean_of(s.V);
          b.store_row("mean"_s, a.mean_k, head, chunk * D, mean_k);
          b.store_row("mean"_s, a.mean_v, head, chunk * D, mean_v);
          centre(s.K, mean_k, s.centred_k);
          centre(s.V, mean_v, s.centred_v);
          b.sync();
          auto H = b.atb("W"_s, s.centred_k[0], s.centred_k[0]);
          auto S = b.atb("W"_s, s.centred_v[0], s.centred_k[0]);
          if (a.splits) {  // both halves of what is symmetric in a sum of their own, which is then symmetric to the bit
            auto half = b.atb("W"_s, s.centred_k[0], s.centred_k[1]);
            auto other = b.atb("W"_s, s.centred_k[1], s.centred_k[0]);
            half.zip("W"_s, plus, other);
            H.zip("W"_s, plus, half);
            b.mma_atb(S, s.centred_v[0], s.centred_k[1]);
            b.mma_atb(S, s.centred_v[1], s.centred_k[0]);
          }
          b.store("W"_s, a.gram, head, chunk * D, H);
          b.store("W"_s, a.state, head, chunk * D, S);
        });
  }
};

/// Means and scatters before every chunk, and after the last one, once for each head of the group.
template <ExecutorTypes B, int C, int D, int ST>
struct AffineStates {
  using Real = typename B::Real;
  struct Args {
    typename B::RowIn add_mean_k, add_mean_v;
    typename B::In add_gram, add_state;
    GramStore<B> gram;
    typename B::Out state, state_low;
    typename B::RowOut mean_k, mean_v;  // and after the last chunk
    typename B::RowOut end_mean_k, end_mean_v;
    typename B::Out end_gram, end_state;
    int len, chunks, group;
  };
  struct Smem {
    typename B::template Tile<"W", D, D> gram[ST];
    typename B::template Tile<"W", D, D> state[ST];
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int) {
    const auto plus = [](auto x, auto y) { return x + y; };
    const auto apart = [](auto x, auto y) { return y - x; };
    auto H = b.acc("H"_s, Shape<D, D>{}), S = b.acc("S"_s, Shape<D, D>{});
    auto m = b.row("mean"_s, Shape<D>{}, 0), u = m;
    b.pipeline(
        Shape<ST>{}, a.chunks,
        [&](int j, int st) {
          b.load(s.gram[st], a.add_gram, head, j * D);
          b.load(s.state[st], a.add_state, head, j * D);
        },
        [&](int j, int st) {
          a.gram(b, head, j * D, H);
          auto high = S;
          const auto low = split(b, "Sc"_s, high);
          b.store("Sc"_s, a.state, head, j * D, high);
          b.store("Sc"_s, a.state_low, head, j * D, low);
          b.store_row("mean"_s, a.mean_k, head, j * D, m);
          b.store_row("mean"_s, a.mean_v, head, j * D, u);

          const Real before = static_cast<Real>(j * C), added = static_cast<Real>(imin(C, a.len - j * C));
          const Real share = added / (before + added);
          const Real weight = b.planted("merged_without_means"_s, before * share, Real{0});
          const auto add_product = [&](auto x, auto row, auto column) { return x + weight * (row * column); };
          const auto moved = [&](auto x, auto y) { return x + share * y; };
          const auto to_k = b.rows("mean"_s, apart, m, b.load_row("mean"_s, Shape<D>{}, a.add_mean_k, head, j * D));
          const auto to_v = b.rows("mean"_s, apart, u, b.load_row("mean"_s, Shape<D>{}, a.add_mean_v, head, j * D));
          H.zip("H"_s, plus, s.gram[st]);
          H.map("H"_s, add_product, to_k, b.column_of(to_k));
          S.zip("S"_s, plus, s.state[st]);
          S.map("S"_s, add_product, to_v, b.column_of(to_k));
          m = b.rows("mean"_s, moved, m, to_k);
          u = b.rows("mean"_s, moved, u, to_v);
        });
    b.store_row("mean"_s, a.mean_k, head, a.chunks * D, m);
    b.store_row("mean"_s, a.mean_v, head, a.chunks * D, u);
    for (int i = 0; i < a.group; ++i) {
      b.store_row("end"_s, a.end_mean_k, head * a.group + i, 0, m);
      b.store_row("end"_s, a.end_mean_v, head * a.group + i, 0, u);
      b.store("end"_s, a.end_gram, head * a.group + i, 0, H);
      b.store("end"_s, a.end_state, head * a.group + i, 0, S);
    }
  }
};

/// What the systems of a chunk are made of.
template <ExecutorTypes B>
struct AffineSystem {
  typename B::In k, v, lambda, gram, gram_low, state, state_low;
  typename B::RowIn mean_k, mean_v, gram_unit, ridge_unit, count;  // count: 1, 2, ... for every row
  SolveLimits<typename B::Real> limits;
  int group, kv_heads;
  bool splits;  // whether the second operands hold anything
};

template <ExecutorTypes B, int C, int D>
struct AffineTiles {
  using Real = typename B::Real;
  typename B::template Tile<"K", C, D> K;
  typename B::template Tile<"V", C, D> V;
  typename B::template Tile<"lambda", C, D> lambda;
  typename B::template Tile<"Hc", D, D> H;
  typename B::template Tile<"Hc", D, D> H_low;
  typename B::template Tile<"Sc", D, D> S;
  typename B::template Tile<"Sc", D, D> S_low;
  typename B::template Tile<"P", C, D> P;

  template <class Ex>
  TILE_FN void load(Ex& b, const AffineSystem<B>& a, int kv, int head, int chunk) {
    b.load(K, a.k, kv, chunk * C);
    b.load(V, a.v, kv, chunk * C);
    b.load(lambda, a.lambda, head, chunk * C);
    b.load(H, a.gram, kv, chunk * D);
    b.load(H_low, a.gram_low, kv, chunk * D);
    b.load(S, a.state, kv, chunk * D);
    b.load(S_low, a.state_low, kv, chunk * D);
  }

  /// How far the mean before the chunk lies from that of every row: e.
  template <class Ex, class Tile, class Column, class Rows>
  TILE_FN static auto apart(Ex& b, Tile& tile, const Column& mean, int chunk, const Rows& count) {
    const Real before = static_cast<Real>(chunk * C);
    const auto lead = [&](auto sum, auto m, auto n) {
      return n > 0 ? b.planted("mean_of_the_chunk_before"_s, ((n - before) * m - sum) / n, sum * 0) : sum * 0;
    };
    auto e = b.acc("mean"_s, Shape<C, D>{});
    b.mma(e, b.cast("one"_s, ones<C>(b, true)), tile);
    e.map("mean"_s, lead, mean, count);
    return e;
  }
  /// The means of every row: m - e.
  template <class Rows, class Column>
  TILE_FN static auto means(Rows e, const Column& mean) {
    e.map(
        "mean"_s, [](auto x, auto m) { return m - x; }, mean);
    return e;
  }

  /// sum + sum_j u_j (k_j - c) + n_0 f e.
  template <class Ex, class St, class Rows, class Scores, class Row>
  TILE_FN auto centred(Ex& b, St site, Rows sum, const Scores& u, bool splits, const Rows& e, const Rows& c,
                       const Row& f, int chunk) {
    const Real before = static_cast<Real>(chunk * C);
    const auto one = b.row("alpha"_s, Shape<C>{}, 1);
    const auto less = [](auto x, auto mean, auto total) { return x - total * mean; };
    const auto more = [&](auto x, auto lead, auto along) { return x + before * along * lead; };
    auto all = b.partial("all"_s, Shape<C>{});
    mma_in_two(b, site, sum, u, K, splits, [&](const auto& part) { all.fold(one, part); });
    sum.zip("AP"_s, less, c, all.total());
    sum.zip("AP"_s, more, e, f);
    return sum;
  }

  /// Solutions of the chunk's systems.
  template <class Ex, class Rows>
  TILE_FN auto solve(Ex& b, const AffineSystem<B>& a, int kv, int chunk, const Rows& rhs, const Rows& e,
                     const Rows& c) {
    const auto times = [](auto x, auto y) { return x * y; };
    const auto plus = [](auto x, auto y) { return x + y; };
    const auto minus = [&](auto x, auto mean) { return x - b.planted("image_not_centred"_s, mean, mean * 0); };
    const auto ridge = [&](auto p, auto of_unit, auto unit) {
      const auto l = b.planted("ridge_on_sums"_s, unit, decltype(unit){1}) * of_unit;
      return b.planted("ridge_forgotten"_s, l * p, p * 0);
    };
    const auto column_unit = b.load_col("gunit"_s, Shape<1, D>{}, a.gram_unit, kv, chunk * D);
    const auto row_unit = b.load_row("lunit"_s, Shape<C>{}, a.ridge_unit, 0, chunk * C);
    return conjugate_gradients<C, D>(b, P, rhs, a.limits, [&](const auto& directions) {
      auto AP = b.abt("AP"_s, P, H);
      if (a.splits) b.mma_abt(AP, P, H_low);
      AP.map("AP"_s, times, column_unit);
      auto U = b.abt("U"_s, P, K);
      U.map("U"_s, minus, b.dot("U"_s, directions, c));
      U.mask([](int r, int col) { return r >= col; }, 0);
      AP = centred(b, "Uc"_s, AP, U, a.splits, e, c, b.dot("U"_s, directions, e), chunk);
      auto E = directions;
      E.zip("ridge"_s, ridge, lambda, row_unit);
      AP.zip("AP"_s, plus, E);
      return AP;
    });
  }
};

/// y and o of a chunk.
template <ExecutorTypes B, int C, int D>
struct AffineOutputs {
  using Real = typename B::Real;
  struct Args {
    AffineSystem<B> system;
    typename B::In q;
    typename B::Out y, y_low, o;
    typename B::RowOut y_unit;
  };
  struct Smem {
    AffineTiles<B, C, D> of;
    typename B::template Tile<"Q", C, D> Q;
    typename B::template Tile<"X", C, D> Y;
    typename B::template Tile<"X", C, D> Y_low;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int kv = b.planted("kv_head_modulo"_s, head / a.system.group, head % a.system.kv_heads);
    const bool splits = a.system.splits;
    const Real before = static_cast<Real>(chunk * C);
    const auto plus = [](auto x, auto y) { return x + y; };
    const auto copy = [](auto, auto x) { return x; };
    const auto offset = [&](auto q, auto c, auto n) { return n * (c - b.planted("offset_from_zero"_s, q, q * 0)); };
    const auto weight = [](auto f, auto along_mean, auto unit) { return 1 - unit * (f - along_mean); };
    const auto minus_read = [](auto x, auto unit) { return -unit * x; };
    const auto more = [&](auto x, auto mean, auto along, auto unit) { return x + before * (1 - unit * along) * mean; };
    const auto inverse = [](auto n) { return n > 0 ? 1 / n : 0; };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          s.of.load(b, a.system, kv, head, chunk);
          b.load(s.Q, a.q, head, chunk * C);
        },
        [&](int, int) {
          const auto count = b.load_row("lunit"_s, Shape<C>{}, a.system.count, 0, chunk * C);
          const auto m = b.load_col("mean"_s, Shape<1, D>{}, a.system.mean_k, kv, chunk * D);
          const auto u = b.load_col("mean"_s, Shape<1, D>{}, a.system.mean_v, kv, chunk * D);
          const auto e = s.of.apart(b, s.of.K, m, chunk, count), c = s.of.means(e, m);
          auto R = b.acc("R"_s, Shape<C, D>{});
          R.zip("R"_s, copy, s.Q);
          R.zip("R"_s, offset, c, count);
          auto Y = s.of.solve(b, a.system, kv, chunk, R, e, c);
          const auto unit = to_unit_rows(b, Y);
          b.store_row("xunit"_s, a.y_unit, head, chunk * C, unit);
          const auto low = split(b, "X"_s, Y);
          b.store("X"_s, a.y, head, chunk * C, Y);
          b.store("X"_s, a.y_low, head, chunk * C, low);
          b.put(s.Y, Y);
          b.put(s.Y_low, low);
          b.sync();
          auto F = b.abt("F"_s, s.Y, s.of.K);
          auto O = b.abt("O"_s, s.Y, s.of.S);
          if (splits) {
            b.mma_abt(F, s.Y_low, s.of.K);
            b.mma_abt(O, s.Y_low, s.of.S);
            b.mma_abt(O, s.Y, s.of.S_low);
            Y.zip("R"_s, plus, low);
          }
          F.map("F"_s, weight, b.dot("U"_s, Y, c), unit);
          F.mask([](int r, int col) { return r >= col; }, 0);
          O.map("O"_s, minus_read, unit);
          O.map("O"_s, more, u, b.dot("U"_s, Y, e), unit);
          mma_in_two(b, "Fc"_s, O, F, s.of.V, splits);
          O.scale(b.rows("xunit"_s, inverse, count));
          b.store("out"_s, a.o, head, chunk * C, O);
        });
  }
};

/// x, and with it the gradients of q and of lambda, of a chunk; and what its rows put on every key.
template <ExecutorTypes B, int C, int D>
struct AffineAdjoint {
  struct Args {
    AffineSystem<B> system;
    typename B::In y, y_low, o_cotangent;
    typename B::RowIn y_unit;
    typename B::Out x, dq, dlambda;
    typename B::RowOut x_unit, of_x, of_y;  // a and b
  };
  struct Smem {
    AffineTiles<B, C, D> of;
    typename B::template Tile<"dO", C, D> dO;
    typename B::template Tile<"X", C, D> Y;
    typename B::template Tile<"X", C, D> Y_low;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int kv = head / a.system.group;
    const auto copy = [](auto, auto x) { return x; };
    const auto plus = [](auto x, auto y) { return x + y; };
    const auto minus = [](auto x, auto y) { return x - y; };
    const auto negative = [](auto x) { return -x; };
    const auto slope = [&](auto x, auto y, auto length, auto unit, auto n) {
      return n > 0 ? -b.planted("dlambda_of_sums"_s, unit / n, decltype(unit){1}) * length * x * y : 0 * x;
    };
    const auto share_of_x = [](auto along, auto length, auto n) { return n > 0 ? (1 + length * along) / n : 0 * n; };
    const auto share_of_y = [&](auto x_along, auto g_along, auto n) {
      return n > 0 ? (x_along + b.planted("values_not_centred"_s, g_along, g_along * 0)) / n : 0 * n;
    };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          s.of.load(b, a.system, kv, head, chunk);
          b.load(s.dO, a.o_cotangent, head, chunk * C);
          b.load(s.Y, a.y, head, chunk * C);
          b.load(s.Y_low, a.y_low, head, chunk * C);
        },
        [&](int, int) {
          const auto count = b.load_row("lunit"_s, Shape<C>{}, a.system.count, 0, chunk * C);
          const auto m = b.load_col("mean"_s, Shape<1, D>{}, a.system.mean_k, kv, chunk * D);
          const auto u = b.load_col("mean"_s, Shape<1, D>{}, a.system.mean_v, kv, chunk * D);
          const auto e = s.of.apart(b, s.of.K, m, chunk, count), c = s.of.means(e, m);
          const auto f = s.of.apart(b, s.of.V, u, chunk, count), w = s.of.means(f, u);
          auto G = b.acc("R"_s, Shape<C, D>{}), Y = G;
          G.zip("R"_s, copy, s.dO);
          const auto along_w = b.dot("E"_s, G, w);
          auto R = b.ab("R"_s, s.dO, s.of.S);
          if (a.system.splits) b.mma(R, s.dO, s.of.S_low);
          auto E = b.abt("E"_s, s.dO, s.of.V);
          E.map("E"_s, minus, along_w);
          E.mask([](int r, int col) { return r >= col; }, 0);
          R = s.of.centred(b, "Ec"_s, R, E, a.system.splits, e, c, b.dot("E"_s, G, f), chunk);
          auto X = s.of.solve(b, a.system, kv, chunk, R, e, c);
          b.store("out"_s, a.dq, head, chunk * C, X);
          X.map("R"_s, negative);
          Y.zip("R"_s, plus, s.Y);
          Y.zip("R"_s, plus, s.Y_low);
          const auto y_unit = b.load_row("xunit"_s, Shape<C>{}, a.y_unit, head, chunk * C);
          auto dlambda = X;
          dlambda.zip("dlambda"_s, slope, Y, y_unit,
                      b.load_row("lunit"_s, Shape<C>{}, a.system.ridge_unit, 0, chunk * C), count);
          b.store("dlambda"_s, a.dlambda, head, chunk * C, dlambda);
          b.store_row("M"_s, a.of_x, head, chunk * C, b.rows("M"_s, share_of_x, b.dot("U"_s, Y, c), y_unit, count));
          b.store_row("M"_s, a.of_y, head, chunk * C, b.rows("M"_s, share_of_y, b.dot("U"_s, X, c), along_w, count));
          b.store_row("xunit"_s, a.x_unit, head, chunk * C, to_unit_rows(b, X));
          split(b, "X"_s, X);
          b.store("X"_s, a.x, head, chunk * C, X);
        });
  }
};

/// What a chunk's rows add to N, P, d and h, of all heads of the group. x and y have the root of their lengths' product
/// each in N.
template <ExecutorTypes B, int C, int D, int ST>
struct AffineAdjointUpdates {
  struct Args {
    typename B::In x, y, o_cotangent;
    typename B::RowIn x_unit, y_unit, of_x, of_y, count;
    typename B::Out N, P, d, h;
    int group;
  };
  struct Smem {
    typename B::template Tile<"X", C, D> X[ST];
    typename B::template Tile<"X", C, D> Y[ST];
    typename B::template Tile<"dO", C, D> dO[ST];
    typename B::template Tile<"Xc", C, D> root_x;
    typename B::template Tile<"Xc", C, D> root_y;
    typename B::template Tile<"Xc", C, D> share_y;
    typename B::template Tile<"Xc", C, D> on_k[2];
    typename B::template Tile<"Xc", C, D> on_v[2];
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int kv, int chunk) {
    const auto root = [](auto x, auto y, auto n) {
      return x > 0 && y > 0 && n > 0 ? ex2((lg2(x) + lg2(y) - lg2(n)) / 2) : 0 * x;
    };
    const auto share = [](auto x, auto n) { return n > 0 ? x / n : 0 * x; };
    const auto product = [](auto x, auto y) { return x * y; };
    const auto times = [](auto, auto x, auto y) { return x * y; };
    const auto minus_times = [](auto, auto x, auto y) { return -x * y; };
    const auto add_times = [](auto z, auto x, auto y) { return z + x * y; };
    auto N = b.acc("W"_s, Shape<D, D>{}), P = N;
    auto d = b.acc("W"_s, Shape<C, D>{}), h = d;
    const auto all = ones<C>(b, false);
    b.pipeline(
        Shape<ST>{}, a.group,
        [&](int i, int st) {
          b.load(s.X[st], a.x, kv * a.group + i, chunk * C);
          b.load(s.Y[st], a.y, kv * a.group + i, chunk * C);
          b.load(s.dO[st], a.o_cotangent, kv * a.group + i, chunk * C);
        },
        [&](int i, int st) {
          const auto row = [&](auto site, const auto& from) {
            return b.load_row(site, Shape<C>{}, from, kv * a.group + i, chunk * C);
          };
          const auto ux = row("xunit"_s, a.x_unit), uy = row("xunit"_s, a.y_unit);
          const auto of_x = row("M"_s, a.of_x), of_y = row("M"_s, a.of_y);
          const auto n = b.load_row("lunit"_s, Shape<C>{}, a.count, 0, chunk * C);
          const auto both = b.rows("xunit"_s, root, ux, uy, n);
          auto Z = b.acc("X1"_s, Shape<C, D>{});
          Z.zip("X1"_s, minus_times, s.X[st], both);
          b.put(s.root_x, Z);
          Z.zip("X1"_s, times, s.Y[st], both);
          b.put(s.root_y, Z);
          Z.zip("X1"_s, minus_times, s.Y[st], b.rows("xunit"_s, share, uy, n));
          b.put(s.share_y, Z);
          Z.zip("X1"_s, times, s.X[st], b.rows("M"_s, product, of_x, ux));
          Z.zip("X1"_s, add_times, s.Y[st], b.rows("M"_s, product, of_y, uy));
          const auto rest_k = split(b, "Xc"_s, Z);
          b.put(s.on_k[0], Z), b.put(s.on_k[1], rest_k);
          Z.zip("X1"_s, times, s.dO[st], of_x);
          const auto rest_v = split(b, "Xc"_s, Z);
          b.put(s.on_v[0], Z), b.put(s.on_v[1], rest_v);
          b.sync();
          b.mma_atb(N, s.root_x, s.root_y);
          b.mma_atb(P, s.dO[st], s.share_y);
          for (int part = 0; part < 2; ++part) {
            b.mma(d, b.cast("one"_s, all), s.on_k[part]);
            b.mma(h, b.cast("one"_s, all), s.on_v[part]);
          }
        });
    b.store("W"_s, a.N, kv, chunk * D, N);
    b.store("W"_s, a.P, kv, chunk * D, P);
    b.store("W"_s, a.d, kv, chunk * C, d);
    b.store("W"_s, a.h, kv, chunk * C, h);
  }
};

/// What the cotangents of a head's final moments put on every key and value, beside dH and dS:
///   d = dm / n - (dH + dH^T) m - dS^T u,   h = du / n - dS m
template <ExecutorTypes B, int C, int D>
struct AffineAdjointStart {
  using Real = typename B::Real;
  struct Args {
    typename B::In of_gram, of_state;
    typename B::RowIn of_mean_k, of_mean_v, mean_k, mean_v;
    typename B::Out d, h;
    int len, chunks, group;
  };
  struct Smem {
    typename B::template Tile<"dM", D, D> of_gram;
    typename B::template Tile<"dM", D, D> of_state;
    typename B::template Tile<"Kc", C, D> minus_k[2];
    typename B::template Tile<"Kc", C, D> minus_v[2];
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int) {
    const int kv = head / a.group;
    const auto share = [&](auto, auto x) { return x / static_cast<Real>(a.len); };
    const auto negative = [](auto, auto x) { return -x; };
    const auto put_minus = [&](const auto& mean, auto& two) {
      auto x = b.acc("mean"_s, Shape<C, D>{});
      x.map("mean"_s, negative, b.load_col("mean"_s, Shape<1, D>{}, mean, kv, a.chunks * D));
      const auto low = split(b, "Kc"_s, x);
      b.put(two[0], x);
      b.put(two[1], low);
    };
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.of_gram, a.of_gram, head, 0);
          b.load(s.of_state, a.of_state, head, 0);
        },
        [&](int, int) {
          put_minus(a.mean_k, s.minus_k);
          put_minus(a.mean_v, s.minus_v);
          b.sync();
          auto d = b.acc("W"_s, Shape<C, D>{}), h = d;
          d.map("W"_s, share, b.load_col("mean"_s, Shape<1, D>{}, a.of_mean_k, head, 0));
          h.map("W"_s, share, b.load_col("mean"_s, Shape<1, D>{}, a.of_mean_v, head, 0));
          for (int part = 0; part < b.planted("moments_not_centred"_s, 2, 0); ++part) {
            b.mma(d, s.minus_k[part], s.of_gram);
            b.mma_abt(d, s.minus_k[part], s.of_gram);
            b.mma(d, s.minus_v[part], s.of_state);
            b.mma_abt(h, s.minus_k[part], s.of_state);
          }
          b.store("W"_s, a.d, head, 0, d);
          b.store("W"_s, a.h, head, 0, h);
        });
  }
};

/// dk and dv of a chunk, from all heads of the group.
template <ExecutorTypes B, int C, int D, int ST>
struct AffineGradients {
  struct Args {
    typename B::In k, v, x, y, o_cotangent, N, P, d, h;
    typename B::RowIn x_unit, y_unit, of_x, of_y, count;
    typename B::Out dk, dv;
    int group;
  };
  struct Smem {
    typename B::template Tile<"K", C, D> K;
    typename B::template Tile<"V", C, D> V;
    typename B::template Tile<"dSc", D, D> N;
    typename B::template Tile<"dSc", D, D> P;
    typename B::template Tile<"W", C, D> d;
    typename B::template Tile<"W", C, D> h;
    typename B::template Tile<"X", C, D> X[ST];
    typename B::template Tile<"X", C, D> Y[ST];
    typename B::template Tile<"dO", C, D> dO[ST];
    typename B::template Tile<"Mc", C, C> of_x;
    typename B::template Tile<"Mc", C, C> of_y;
    typename B::template Tile<"Mc", C, C> of_g;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int kv, int chunk) {
    const auto lower = [](int r, int col) { return r >= col; };
    const auto plus = [](auto x, auto y) { return x + y; };
    const auto times = [](auto x, auto y) { return x * y; };
    const auto inverse = [](auto n) { return n > 0 ? 1 / n : 0; };
    const auto weight = [&](auto f, auto of_x, auto unit, auto share) {
      return of_x - b.planted("dv_without_probe"_s, share, share * 0) * unit * f;
    };
    const auto along_y = [&](auto e, auto h, auto of_y, auto ux, auto uy, auto share) {
      return uy * (of_y - share * (b.planted("dk_without_x"_s, ux, ux * 0) * h + e));
    };
    auto dK = b.acc("dK"_s, Shape<C, D>{}), dV = b.acc("dV"_s, Shape<C, D>{});
    b.load(s.K, a.k, kv, chunk * C);
    b.load(s.V, a.v, kv, chunk * C);
    b.load(s.N, a.N, kv, chunk * D);
    b.load(s.P, a.P, kv, chunk * D);
    b.load(s.d, a.d, kv, chunk * C);
    b.load(s.h, a.h, kv, chunk * C);
    const auto share = b.rows("xunit"_s, inverse, b.load_row("lunit"_s, Shape<C>{}, a.count, 0, chunk * C));
    b.pipeline(
        Shape<ST>{}, b.planted("dk_one_head_of_group"_s, a.group, 1),
        [&](int i, int st) {
          b.load(s.X[st], a.x, kv * a.group + i, chunk * C);
          b.load(s.Y[st], a.y, kv * a.group + i, chunk * C);
          b.load(s.dO[st], a.o_cotangent, kv * a.group + i, chunk * C);
        },
        [&](int i, int st) {
          const auto row = [&](auto site, const auto& from) {
            return b.load_row(site, Shape<C>{}, from, kv * a.group + i, chunk * C);
          };
          const auto ux = row("xunit"_s, a.x_unit), uy = row("xunit"_s, a.y_unit);
          const auto of_x = row("M"_s, a.of_x), of_y = row("M"_s, a.of_y);
          if (i == 0) {
            dK.zip("dK"_s, plus, s.d);
            dV.zip("dV"_s, plus, s.h);
            b.mma(dK, s.K, s.N);
            b.mma_abt(dK, s.K, s.N);
            b.mma(dK, s.V, s.P);
            b.mma_abt(dV, s.K, s.P);
          }
          auto F = b.abt("F"_s, s.Y[st], s.K);
          auto H = b.abt("F"_s, s.X[st], s.K);
          auto E = b.abt("E"_s, s.dO[st], s.V);
          F.map("M"_s, weight, of_x, uy, share);
          F.mask(lower, 0);
          b.put(s.of_g, F);
          F.map("M"_s, times, ux);
          b.put(s.of_x, F);
          E.zip("M"_s, along_y, H, of_y, ux, uy, share);
          E.mask(lower, 0);
          b.put(s.of_y, E);
          b.sync();
          b.mma_atb(dK, s.of_x, s.X[st]);
          b.mma_atb(dK, s.of_y, s.Y[st]);
          b.mma_atb(dV, s.of_g, s.dO[st]);
        });
    b.store("out"_s, a.dk, kv, chunk * C, dK);
    b.store("out"_s, a.dv, kv, chunk * C, dV);
  }
};

inline constexpr SiteTable::Init affine_mesanet_site_list[] = {
    {"Q", Role::operand},           {"K", Role::operand},         {"V", Role::operand},      {"dO", Role::operand},
    {"dM", Role::operand},          {"Kc", Role::operand},        {"one", Role::operand},    {"Sc", Role::operand},
    {"Uc", Role::operand},          {"Fc", Role::operand},        {"Ec", Role::operand},     {"Xc", Role::operand},
    {"Mc", Role::operand},          {"mean", Role::accumulator},  {"S", Role::accumulator},  {"end", Role::accumulator},
    {"U", Role::accumulator},       {"all", Role::accumulator},   {"F", Role::accumulator},  {"O", Role::accumulator},
    {"E", Role::accumulator},       {"ridge", Role::accumulator}, {"X1", Role::accumulator}, {"M", Role::accumulator},
    {"dlambda", Role::accumulator}, {"dK", Role::accumulator},    {"dV", Role::accumulator}, {"out", Role::output}};
/// Keys, directions and stored solutions are operands; means, the vectors of the systems and all sums are as wide as
/// the accumulators.
inline constexpr SiteTable affine_mesanet_sites = ridge_solve_sites.with(affine_mesanet_site_list);

}  // namespace assay::tile
