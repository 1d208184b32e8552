#pragma once
// Affine MesaNet, chunkwise (lla-family.md section 7). With c_i and w_i the means of the keys and values up to row i
// and n_i their number, and before a chunk of C tokens n_0, the means m and u and the scatters about them, H of the
// keys and S of values and keys, the rows of the chunk are solved together by conjugate gradients
// (kernels/programs/ridge_solve.hpp):
//   system     p -> p H + n_0 (e.p) e + sum_j (k_j.p - c.p)(k_j - c) + l o p,   e_i = m - c_i, j <= i within the chunk,
//              l_i = lambda_i times 1 (lambda on sums) or n_i (on means): n_i (C_i + l_i / n_i)
//   forward    y_i = system^{-1} n_i (c_i - q_i),   n_i o_i = n_0 (1 - y.e) u - S y + sum_j (1 - y.(k_j - c)) v_j
//   backward   x_i = -system^{-1} (S^T g + n_0 g.(u - w) e + sum_j (g.v_j - g.w)(k_j - c)),   dq_i = -x_i,
//              dlambda_i = -(l_i / lambda_i) / n_i x_i y_i
// Row i's gradient of keys and values j <= i is affine in them, with a_i = (1 + y.c) / n and b_i = (x.c + g.w) / n,
//   dk_j: (a - y.k_j / n) x + (b - (x.k_j + g.v_j) / n) y,   dv_j: (a - y.k_j / n) g
// so over the rows after a chunk it is, last chunk first,
//   N = dH - sum x y^T / n,   P = dS - sum g y^T / n,   d = sum a x + b y,   h = sum a g:
//   dk_j = d + (N + N^T) k_j + P^T v_j,   dv_j = h + P k_j
// States merge as Chan, Golub and LeVeque's: H <- H + H_c + n_0 n_c / (n_0 + n_c) (m_c - m)(m_c - m)^T. They are those
// of a key/value head: query head a reads key/value head a / group. A vector that all rows share is a tile of equal
// rows.
#include "kernels/core/functions.hpp"
#include "kernels/programs/ridge_solve.hpp"

namespace assay::tile {

/// All ones on and below the diagonal, or everywhere.
template <Size C, class X>
TILE_FN auto ones(X& b, bool triangle) {
  auto one = b.acc("mean"_s, Shape<C, C>{});
  one.map("mean"_s, [](auto x) { return x + 1; });
  if (triangle) one.mask(lower, 0);
  return one;
}

/// The means of a chunk, and the scatters about them: its part of the moments.
template <ExecutorTypes B, Size C, Size D>
struct AffineUpdates {
  using Real = typename B::Real;
  struct Args {
    typename B::In k, v;
    typename B::RowOut mean_k, mean_v;
    typename B::Out gram, state;
    int len;
  };
  struct Smem {
    typename B::template Tile<"K", C, D> K;
    typename B::template Tile<"V", C, D> V;
    typename B::template Tile<"one", C, 16> ones;
    typename B::template Tile<"mean", C, D> centred_k;
    typename B::template Tile<"mean", C, D> centred_v;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int count = imin(C, a.len - chunk * C);
    const auto over_count = [&](auto x) { return x / static_cast<Real>(count); };
    const auto mean_of = [&](auto& tile) {
      return b.rows("mean"_s, over_count, b.atb("mean"_s, tile, s.ones).row_max());
    };
    const auto centre = [&](auto& tile, const auto& mean, auto& centred) {
      auto x = in_registers(b, "mean"_s, tile);
      x.map("mean"_s, minus, b.column_of(mean));
      x.mask([&](int r, int) { return r < count; }, 0);
      b.put(centred, x);
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
          b.store("W"_s, a.gram, head, chunk * D, b.atb("W"_s, s.centred_k, s.centred_k));
          b.store("W"_s, a.state, head, chunk * D, b.atb("W"_s, s.centred_v, s.centred_k));
        });
  }
};

/// Means and scatters before every chunk, and after the last one, once for each head of the group. Each head has two
/// blocks: the keys' mean with H, the values' with S.
template <ExecutorTypes B, Size C, Size D, int ST>
struct AffineStates {
  using Real = typename B::Real;
  struct Args {
    typename B::RowIn add_mean_k, add_mean_v;
    typename B::In add_gram, add_state;
    typename B::Out gram, state;
    typename B::RowOut mean_k, mean_v;  // and after the last chunk
    typename B::RowOut end_mean_k, end_mean_v;
    typename B::Out end_gram, end_state;
    int len, chunks, group;
  };
  struct Smem {
    typename B::template Tile<"W", D, D> W[ST];
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    // The scatter of what has that mean, and of keys.
    const auto walk = [&](auto site, const auto& add_mean, const auto& add, const auto& means, const auto& scatters,
                          const auto& end_mean, const auto& end) {
      auto S = b.acc(site, Shape<D, D>{});
      auto of_k = b.row("mean"_s, Shape<D>{}, 0), mean = of_k;
      b.pipeline(
          Shape<ST>{}, a.chunks, [&](int j, int st) { b.load(s.W[st], add, head, j * D); },
          [&](int j, int st) {
            b.store(site, scatters, head, j * D, S);
            b.store_row("mean"_s, means, head, j * D, mean);

            const Real before = static_cast<Real>(j * C), added = static_cast<Real>(imin(C, a.len - j * C));
            const auto share = [&]<class T>(T) { return static_cast<T>(added) / static_cast<T>(before + added); };
            const auto weight = [&](auto x) { return b.planted("merged_without_means"_s, before * share(x), 0 * x); };
            const auto add_product =
                in_fp64([&](auto x, auto row, auto column) { return x + weight(x) * (row * column); });
            const auto moved = in_fp64([&](auto x, auto y) { return x + share(x) * y; });
            const auto to = [&](const auto& from, const auto& added_mean) {
              return b.rows("mean"_s, taken_from, from, b.load_row("mean"_s, Shape<D>{}, added_mean, head, j * D));
            };
            const auto to_k = to(of_k, a.add_mean_k), to_mean = to(mean, add_mean);
            S.zip(site, plus, s.W[st]);
            S.map(site, add_product, to_mean, b.column_of(to_k));
            of_k = b.rows("mean"_s, moved, of_k, to_k);
            mean = b.rows("mean"_s, moved, mean, to_mean);
          });
      b.store_row("mean"_s, means, head, a.chunks * D, mean);
      for (int i = 0; i < a.group; ++i) {
        b.store_row("end"_s, end_mean, head * a.group + i, 0, mean);
        b.store("end"_s, end, head * a.group + i, 0, S);
      }
    };
    if (block == 0)
      walk("H"_s, a.add_mean_k, a.add_gram, a.mean_k, a.gram, a.end_mean_k, a.end_gram);
    else
      walk("S"_s, a.add_mean_v, a.add_state, a.mean_v, a.state, a.end_mean_v, a.end_state);
  }
};

/// The parts of the systems of a chunk.
template <ExecutorTypes B>
struct AffineSystem {
  RidgeSystem<B> ridge;
  typename B::RowIn mean_k, mean_v, count;  // count: 1, 2, ... for every row
};

template <ExecutorTypes B, Size C, Size D>
struct AffineTiles : RidgeTiles<B, C, D> {
  using Real = typename B::Real;
  using Of = RidgeTiles<B, C, D>;

  /// How far the mean before the chunk lies from that of every row: e.
  template <class Ex, class Tile, class Column, class Rows>
  TILE_FN auto apart(Ex& b, Tile& tile, const Column& mean, int chunk, const Rows& count) {
    const Real before = static_cast<Real>(chunk * C);
    const auto lead = in_fp64([&](auto sum, auto m, auto n) {
      return n > 0 ? b.planted("mean_of_the_chunk_before"_s, ((n - before) * m - sum) / n, sum * 0) : sum * 0;
    });
    auto e = b.acc("mean"_s, Shape<C, D>{});
    Of::add_pairs(b, e, ones<C>(b, true), tile);
    b.sync();
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
  template <class Ex, class Rows, class Scores, class Row>
  TILE_FN auto centred(Ex& b, Rows sum, const Scores& u, const Rows& e, const Rows& c, const Row& f, int chunk) {
    const Real before = static_cast<Real>(chunk * C);
    const auto more = in_fp64([&](auto x, auto lead, auto along) { return x + before * along * lead; });
    auto all = b.partial("all"_s, Shape<C>{});
    all.fold(b.row("alpha"_s, Shape<C>{}, 1), u);
    Of::add_pairs(b, sum, u, Of::K);
    sum.zip("AP"_s, minus_times, c, all.total());
    sum.zip("AP"_s, more, e, f);
    return sum;
  }

  /// Solutions of the chunk's systems.
  template <class Ex, class Rows>
  TILE_FN auto solve(Ex& b, const AffineSystem<B>& a, int head, int chunk, const Rows& rhs, const Rows& e,
                     const Rows& c) {
    const auto centred_image = [&](auto x, auto mean) { return x - b.planted("image_not_centred"_s, mean, mean * 0); };
    return Of::solve(b, a.ridge, head, chunk, rhs, [&](const auto& directions) {
      auto AP = b.abt("AP"_s, Of::rows, Of::state);  // which is symmetric
      auto U = b.abt("U"_s, Of::rows, Of::K);
      U.map("U"_s, centred_image, b.dot("U"_s, directions, c));
      U.mask([](int r, int col) { return r >= col; }, 0);
      return centred(b, AP, U, e, c, b.dot("U"_s, directions, e), chunk);
    });
  }
};

/// y and o of a chunk.
template <ExecutorTypes B, Size C, Size D>
struct AffineOutputs {
  using Real = typename B::Real;
  struct Args {
    AffineSystem<B> system;
    typename B::In q;
    typename B::Out y, unit_y, o;
    typename B::RowOut y_unit;
  };
  struct Smem {
    AffineTiles<B, C, D> of;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int kv = b.planted("kv_head_modulo"_s, head / a.system.ridge.group, head % a.system.ridge.kv_heads);
    const Real before = static_cast<Real>(chunk * C);
    const auto offset =
        in_fp64([&](auto q, auto c, auto n) { return n * (c - b.planted("offset_from_zero"_s, q, q * 0)); });
    const auto weight = in_fp64([](auto f, auto along_mean) { return 1 - (f - along_mean); });
    const auto more = in_fp64([&](auto x, auto mean, auto along) { return x + before * (1 - along) * mean; });
    const auto count = b.load_row("lunit"_s, Shape<C>{}, a.system.count, 0, chunk * C);
    auto e = b.acc("mean"_s, Shape<C, D>{}), c = e;
    auto Y = b.acc("R"_s, Shape<C, D>{});
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.of.K, a.system.ridge.k, kv, chunk * C);
          s.of.load_system(b, a.system.ridge, kv, head, chunk);
        },
        [&](int, int) {
          const auto m = b.load_col("mean"_s, Shape<1, D>{}, a.system.mean_k, kv, chunk * D);
          e = s.of.apart(b, s.of.K, m, chunk, count), c = s.of.means(e, m);
          auto Q = b.load_acc("Q"_s, Shape<C, D>{}, a.q, head, chunk * C);
          Y.zip("R"_s, copy, Q);
          Y.zip("R"_s, offset, c, count);
          Y = s.of.solve(b, a.system, head, chunk, Y, e, c);
        });
    b.pipeline(
        Shape<2>{}, 1, [&](int, int) { s.of.load_values(b, a.system.ridge, kv, chunk); },
        [&](int, int) {
          const auto u = b.load_col("mean"_s, Shape<1, D>{}, a.system.mean_v, kv, chunk * D);
          b.put(s.of.rows, Y);
          b.store("R"_s, a.y, head, chunk * C, Y);
          b.sync();
          auto F = b.abt("F"_s, s.of.rows, s.of.K);
          F.map("F"_s, weight, b.dot("U"_s, Y, c));
          F.mask([](int r, int col) { return r >= col; }, 0);
          auto O = b.abt("O"_s, s.of.rows, s.of.state);
          O.map("O"_s, negative);
          O.map("O"_s, more, u, b.dot("U"_s, Y, e));
          s.of.add_pairs(b, O, F, s.of.with.second);
          O.scale(b.rows("xunit"_s, reciprocal, count));
          b.store("out"_s, a.o, head, chunk * C, O);
          b.store_row("xunit"_s, a.y_unit, head, chunk * C, to_unit_rows(b, Y));
          b.store("X"_s, a.unit_y, head, chunk * C, Y);
        });
  }
};

/// x, and with it the gradients of q and of lambda, of a chunk; and what its rows put on every key.
template <ExecutorTypes B, Size C, Size D>
struct AffineAdjoint {
  struct Args {
    AffineSystem<B> system;
    typename B::In y, o_cotangent;
    typename B::Out unit_x, dq, dlambda;
    typename B::RowOut x_unit, of_x, of_y;  // a and b
  };
  struct Smem {
    AffineTiles<B, C, D> of;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int kv = head / a.system.ridge.group;
    const auto slope = in_fp64([&](auto x, auto y, auto unit, auto n) {
      return n > 0 ? -b.planted("dlambda_of_sums"_s, unit / n, decltype(unit){1}) * x * y : 0 * x;
    });
    const auto share_of_x = in_fp64([](auto along, auto n) { return n > 0 ? (1 + along) / n : 0 * n; });
    const auto share_of_y = in_fp64([&](auto x_along, auto g_along, auto n) {
      return n > 0 ? (x_along + b.planted("values_not_centred"_s, g_along, g_along * 0)) / n : 0 * n;
    });
    const auto count = b.load_row("lunit"_s, Shape<C>{}, a.system.count, 0, chunk * C);
    auto e = b.acc("mean"_s, Shape<C, D>{}), c = e;
    auto R = b.acc("R"_s, Shape<C, D>{});
    auto along_w = b.row("E"_s, Shape<C>{}, 0);
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.of.K, a.system.ridge.k, kv, chunk * C);
          s.of.load_values(b, a.system.ridge, kv, chunk);
        },
        [&](int, int) {
          const auto m = b.load_col("mean"_s, Shape<1, D>{}, a.system.mean_k, kv, chunk * D);
          const auto u = b.load_col("mean"_s, Shape<1, D>{}, a.system.mean_v, kv, chunk * D);
          e = s.of.apart(b, s.of.K, m, chunk, count), c = s.of.means(e, m);
          const auto f = s.of.apart(b, s.of.with.second, u, chunk, count), w = s.of.means(f, u);
          auto dO = b.load_acc("dO"_s, Shape<C, D>{}, a.o_cotangent, head, chunk * C);
          auto G = in_registers(b, "R"_s, dO);
          along_w = b.dot("E"_s, G, w);
          b.put(s.of.rows, G);
          b.sync();
          b.mma(R, s.of.rows, s.of.state);
          auto E = b.abt("E"_s, s.of.rows, s.of.with.second);
          E.map("E"_s, minus, along_w);
          E.mask([](int r, int col) { return r >= col; }, 0);
          R = s.of.centred(b, R, E, e, c, b.dot("E"_s, G, f), chunk);
        });
    b.pipeline(
        Shape<2>{}, 1, [&](int, int) { s.of.load_system(b, a.system.ridge, kv, head, chunk); },
        [&](int, int) {
          auto X = s.of.solve(b, a.system, head, chunk, R, e, c);
          b.store("out"_s, a.dq, head, chunk * C, X);
          X.map("R"_s, negative);
          auto Y = b.load_acc("R"_s, Shape<C, D>{}, a.y, head, chunk * C), dlambda = X;
          dlambda.zip("dlambda"_s, slope, Y, b.load_row("lunit"_s, Shape<C>{}, a.system.ridge.ridge_unit, 0, chunk * C),
                      count);
          b.store("dlambda"_s, a.dlambda, head, chunk * C, dlambda);
          b.store_row("M"_s, a.of_x, head, chunk * C, b.rows("M"_s, share_of_x, b.dot("U"_s, Y, c), count));
          b.store_row("M"_s, a.of_y, head, chunk * C, b.rows("M"_s, share_of_y, b.dot("U"_s, X, c), along_w, count));
          b.store_row("xunit"_s, a.x_unit, head, chunk * C, to_unit_rows(b, X));
          b.store("X"_s, a.unit_x, head, chunk * C, X);
        });
  }
};

/// The sums that a chunk's rows add to N, P, d and h, of all heads of the group. x and y have the root of their
/// lengths' product each in N.
template <ExecutorTypes B, Size C, Size D, int ST>
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
    typename B::template Tile<"X1", C, D> on_k;
    typename B::template Tile<"X1", C, D> on_v;
    typename B::template Tile<"one", C, C> ones;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int kv, int chunk) {
    const auto root = in_fp64(
        [](auto x, auto y, auto n) { return x > 0 && y > 0 && n > 0 ? ex2((lg2(x) + lg2(y) - lg2(n)) / 2) : 0 * x; });
    const auto share = [](auto x, auto n) { return n > 0 ? x / n : 0 * x; };
    const auto copy_rounded_times = [](auto, auto x, auto y) { return rounded_product(x, y); };
    const auto copy_minus_rounded_times = [](auto, auto x, auto y) { return rounded_product(-x, y); };
    auto N = b.acc("W"_s, Shape<D, D>{}), P = N;
    auto d = b.acc("W"_s, Shape<C, D>{}), h = d;
    b.put(s.ones, ones<C>(b, false));
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
          Z.zip("X1"_s, copy_minus_rounded_times, s.X[st], both);
          b.put(s.root_x, Z);
          Z.zip("X1"_s, copy_rounded_times, s.Y[st], both);
          b.put(s.root_y, Z);
          Z.zip("X1"_s, copy_minus_rounded_times, s.Y[st], b.rows("xunit"_s, share, uy, n));
          b.put(s.share_y, Z);
          Z.zip("X1"_s, copy_rounded_times, s.X[st], b.rows("M"_s, times, of_x, ux));
          Z.zip("X1"_s, plus_times, s.Y[st], b.rows("M"_s, times, of_y, uy));
          b.put(s.on_k, Z);
          Z.zip("X1"_s, copy_rounded_times, s.dO[st], of_x);
          b.put(s.on_v, Z);
          b.sync();
          b.mma_atb(N, s.root_x, s.root_y);
          b.mma_atb(P, s.dO[st], s.share_y);
          b.mma(d, s.ones, s.on_k);
          b.mma(h, s.ones, s.on_v);
        });
    b.store("W"_s, a.N, kv, chunk * D, N);
    b.store("W"_s, a.P, kv, chunk * D, P);
    b.store("W"_s, a.d, kv, chunk * C, d);
    b.store("W"_s, a.h, kv, chunk * C, h);
  }
};

/// The part of every key's and value's gradient from the cotangents of a head's final moments, beside dH and dS:
///   d = dm / n - (dH + dH^T) m - dS^T u,   h = du / n - dS m
template <ExecutorTypes B, Size C, Size D>
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
    typename B::template Tile<"mean", C, D> minus_k;
    typename B::template Tile<"mean", C, D> minus_v;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int) {
    const int kv = head / a.group;
    const auto share = [&](auto, auto x) { return x / static_cast<Real>(a.len); };
    const auto copy_negative = [](auto, auto x) { return -x; };
    const auto put_minus = [&](const auto& mean, auto& tile) {
      auto x = b.acc("mean"_s, Shape<C, D>{});
      x.map("mean"_s, copy_negative, b.load_col("mean"_s, Shape<1, D>{}, mean, kv, a.chunks * D));
      b.put(tile, x);
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
          if (b.planted("moments_not_centred"_s, true, false)) {
            b.mma(d, s.minus_k, s.of_gram);
            b.mma_abt(d, s.minus_k, s.of_gram);
            b.mma(d, s.minus_v, s.of_state);
            b.mma_abt(h, s.minus_k, s.of_state);
          }
          b.store("W"_s, a.d, head, 0, d);
          b.store("W"_s, a.h, head, 0, h);
        });
  }
};

/// dk and dv of a chunk, from all heads of the group.
template <ExecutorTypes B, Size C, Size D, int ST>
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
    const auto weight = in_fp64([&](auto f, auto of_x, auto unit, auto share) {
      return of_x - b.planted("dv_without_probe"_s, share, share * 0) * unit * f;
    });
    const auto along_y = in_fp64([&](auto e, auto h, auto of_y, auto ux, auto uy, auto share) {
      return uy * (of_y - share * (b.planted("dk_without_x"_s, ux, ux * 0) * h + e));
    });
    auto dK = b.acc("dK"_s, Shape<C, D>{}), dV = b.acc("dV"_s, Shape<C, D>{});
    b.load(s.K, a.k, kv, chunk * C);
    b.load(s.V, a.v, kv, chunk * C);
    b.load(s.N, a.N, kv, chunk * D);
    b.load(s.P, a.P, kv, chunk * D);
    b.load(s.d, a.d, kv, chunk * C);
    b.load(s.h, a.h, kv, chunk * C);
    const auto share = b.rows("xunit"_s, reciprocal, b.load_row("lunit"_s, Shape<C>{}, a.count, 0, chunk * C));
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
    {"Q", Role::operand},           {"K", Role::operand},      {"V", Role::operand},
    {"dO", Role::operand},          {"dM", Role::operand},     {"one", Role::accumulator},
    {"Xc", Role::operand},          {"Mc", Role::operand},     {"mean", Role::accumulator},
    {"end", Role::accumulator},     {"U", Role::accumulator},  {"all", Role::accumulator},
    {"F", Role::accumulator},       {"O", Role::accumulator},  {"E", Role::accumulator},
    {"ridge", Role::accumulator},   {"X1", Role::accumulator}, {"M", Role::accumulator},
    {"dlambda", Role::accumulator}, {"dK", Role::accumulator}, {"dV", Role::accumulator},
    {"out", Role::output}};
inline constexpr SiteTable affine_mesanet_sites = ridge_solve_sites.with(affine_mesanet_site_list);

}  // namespace assay::tile
