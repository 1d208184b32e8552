#pragma once
// MesaNet, chunkwise (lla-family.md section 7). With H and S the sums of k k^T and v k^T over the keys before a chunk
// of C tokens, the rows of the chunk are solved together by conjugate gradients (kernels/programs/ridge_solve.hpp):
//   system     p -> p H + lower(p K^T) K + l o p,   l_i = lambda_i times 1 (lambda on sums) or i (on means)
//   forward    X = system^{-1} Q,   O = X S^T + lower(X K^T) V
//   backward   A = system^{-1} (dO S + lower(dO V^T) K),   dQ = A,   dlambda = -(dl / dlambda) A o X
// and, last chunk first, P = dS + sum g x^T and N = dH - sum a x^T over the rows after the chunk:
//   dK = V P + K (N + N^T) + (lower(dO V^T) - lower(A K^T))^T X - lower(X K^T)^T A,   dV = K P^T + lower(X K^T)^T dO
// States are those of a key/value head: query head a reads key/value head a / group, whose P and N are sums over the
// group. After the solves, solutions are operands: rows of length one, and their lengths.
#include "kernels/core/functions.hpp"
#include "kernels/programs/ridge_solve.hpp"

namespace assay::tile {

/// The sums that a chunk adds to H and S. The solves magnify how sums are rounded: the keys come as wide as the
/// accumulators, too, so that no tensor core cuts these off.
template <ExecutorTypes B, Size C, Size D>
struct MesaUpdates {
  struct Args {
    typename B::In k, v, wide_k;
    typename B::Out gram, state;
  };
  struct Smem {
    typename B::template Tile<"K", C, D> K;
    typename B::template Tile<"V", C, D> V;
    typename B::template Tile<"W", C, D> wide;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.K, a.k, head, chunk * C);
          b.load(s.V, a.v, head, chunk * C);
          b.load(s.wide, a.wide_k, head, chunk * C);
        },
        [&](int, int) {
          b.store("W"_s, a.gram, head, chunk * D, b.atb("W"_s, s.K, s.wide));
          b.store("W"_s, a.state, head, chunk * D, b.atb("W"_s, s.V, s.wide));
        });
  }
};

/// R rows of H or S before every chunk, and after the last one, once for each head of the group.
template <ExecutorTypes B, Size R, Size D, int ST, bool Gram>
struct MesaStates {
  struct Args {
    typename B::In updates;
    typename B::Out states, end;
    int chunks, group;
  };
  struct Smem {
    typename B::template Tile<"W", R, D> W[ST];
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const auto walk = [&](auto site) {
      const auto next = [&](auto x, auto y) {
        if constexpr (Gram)
          return b.planted("gram_not_carried"_s, x + y, y);
        else
          return b.planted("state_not_carried"_s, x + y, y);
      };
      auto S = b.acc(site, Shape<R, D>{});
      b.pipeline(
          Shape<ST>{}, a.chunks, [&](int j, int st) { b.load(s.W[st], a.updates, head, j * D + block * R); },
          [&](int j, int st) {
            b.store(site, a.states, head, j * D + block * R, S);
            S.zip(site, next, s.W[st]);
          });
      for (int i = 0; i < a.group; ++i) b.store("end"_s, a.end, head * a.group + i, block * R, S);
    };
    if constexpr (Gram)
      walk("H"_s);
    else
      walk("S"_s);
  }
};

/// Solutions of a chunk's systems.
template <ExecutorTypes B, Size C, Size D, class Ex, class Rows>
TILE_FN auto mesa_solve(Ex& b, RidgeTiles<B, C, D>& of, const RidgeSystem<B>& a, int head, int chunk, const Rows& rhs) {
  return of.solve(b, a, head, chunk, rhs, [&](const auto&) {
    auto AP = b.abt("AP"_s, of.rows, of.state);  // which is symmetric
    auto U = b.abt("U"_s, of.rows, of.K);
    U.mask([&](int r, int c) { return r >= c + b.planted("solves_before_the_write"_s, 0, 1); }, 0);
    of.add_pairs(b, AP, U, of.K);
    return AP;
  });
}

/// x and o of a chunk.
template <ExecutorTypes B, Size C, Size D>
struct MesaOutputs {
  struct Args {
    RidgeSystem<B> system;
    typename B::In q;
    typename B::Out x, unit_x, o;
    typename B::RowOut x_unit;
  };
  struct Smem {
    RidgeTiles<B, C, D> of;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int kv = b.planted("kv_head_modulo"_s, head / a.system.group, head % a.system.kv_heads);
    auto X = b.acc("R"_s, Shape<C, D>{});
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.of.K, a.system.k, kv, chunk * C);
          s.of.load_system(b, a.system, kv, head, chunk);
        },
        [&](int, int) {
          auto Q = b.load_acc("Q"_s, Shape<C, D>{}, a.q, head, chunk * C);
          X.zip("R"_s, copy, Q);
          X = mesa_solve(b, s.of, a.system, head, chunk, X);
        });
    b.pipeline(
        Shape<2>{}, 1, [&](int, int) { s.of.load_values(b, a.system, kv, chunk); },
        [&](int, int) {
          b.put(s.of.rows, X);
          b.store("R"_s, a.x, head, chunk * C, X);
          b.store_row("xunit"_s, a.x_unit, head, chunk * C, to_unit_rows(b, X));
          b.store("X"_s, a.unit_x, head, chunk * C, X);
          b.sync();
          auto F = b.abt("F"_s, s.of.rows, s.of.K);
          F.mask(lower, 0);
          auto O = b.abt("O"_s, s.of.rows, s.of.state);
          s.of.add_pairs(b, O, F, s.of.with.second);
          b.store("out"_s, a.o, head, chunk * C, O);
        });
  }
};

/// a, and with it the gradients of q and of lambda, of a chunk.
template <ExecutorTypes B, Size C, Size D>
struct MesaAdjoint {
  struct Args {
    RidgeSystem<B> system;
    typename B::In x, o_cotangent;
    typename B::Out unit_a, dq, dlambda;
    typename B::RowOut a_unit;
  };
  struct Smem {
    RidgeTiles<B, C, D> of;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const int kv = head / a.system.group;
    const auto slope = in_fp64(
        [&](auto y, auto x, auto unit) { return -b.planted("dlambda_of_sums"_s, unit, decltype(unit){1}) * x * y; });
    auto R = b.acc("R"_s, Shape<C, D>{});
    b.pipeline(
        Shape<2>{}, 1,
        [&](int, int) {
          b.load(s.of.K, a.system.k, kv, chunk * C);
          s.of.load_values(b, a.system, kv, chunk);
        },
        [&](int, int) {
          auto dO = b.load_acc("dO"_s, Shape<C, D>{}, a.o_cotangent, head, chunk * C);
          auto G = in_registers(b, "R"_s, dO);
          b.put(s.of.rows, G);
          b.sync();
          b.mma(R, s.of.rows, s.of.state);
          auto E = b.abt("E"_s, s.of.rows, s.of.with.second);
          E.mask(lower, 0);
          s.of.add_pairs(b, R, E, s.of.K);
        });
    b.pipeline(
        Shape<2>{}, 1, [&](int, int) { s.of.load_system(b, a.system, kv, head, chunk); },
        [&](int, int) {
          auto A = mesa_solve(b, s.of, a.system, head, chunk, R);
          b.store("out"_s, a.dq, head, chunk * C, A);
          auto X = b.load_acc("R"_s, Shape<C, D>{}, a.x, head, chunk * C), dlambda = A;
          dlambda.zip("dlambda"_s, slope, X, b.load_row("lunit"_s, Shape<C>{}, a.system.ridge_unit, 0, chunk * C));
          b.store("dlambda"_s, a.dlambda, head, chunk * C, dlambda);
          b.store_row("xunit"_s, a.a_unit, head, chunk * C, to_unit_rows(b, A));
          b.store("X"_s, a.unit_a, head, chunk * C, A);
        });
  }
};

/// A chunk's sums for P and N, of all heads of the group. x and a have the root of their lengths' product each.
template <ExecutorTypes B, Size C, Size D, int ST>
struct MesaAdjointUpdates {
  struct Args {
    typename B::In x, a, o_cotangent;
    typename B::RowIn x_unit, a_unit;
    typename B::Out P, N;
    int group;
  };
  struct Smem {
    typename B::template Tile<"X", C, D> X[ST];
    typename B::template Tile<"X", C, D> A[ST];
    typename B::template Tile<"dO", C, D> dO[ST];
    typename B::template Tile<"Xc", C, D> weighted;
    typename B::template Tile<"Xc", C, D> rootX;
    typename B::template Tile<"Xc", C, D> rootA;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int kv, int chunk) {
    const auto root = in_fp64([](auto x, auto y) { return x > 0 && y > 0 ? ex2((lg2(x) + lg2(y)) / 2) : 0; });
    const auto copy_negative_times = [](auto, auto x, auto y) { return -x * y; };
    auto P = b.acc("W"_s, Shape<D, D>{}), N = b.acc("W"_s, Shape<D, D>{});
    b.pipeline(
        Shape<ST>{}, a.group,
        [&](int i, int st) {
          b.load(s.X[st], a.x, kv * a.group + i, chunk * C);
          b.load(s.A[st], a.a, kv * a.group + i, chunk * C);
          b.load(s.dO[st], a.o_cotangent, kv * a.group + i, chunk * C);
        },
        [&](int i, int st) {
          const auto ux = b.load_row("xunit"_s, Shape<C>{}, a.x_unit, kv * a.group + i, chunk * C);
          const auto ua = b.load_row("xunit"_s, Shape<C>{}, a.a_unit, kv * a.group + i, chunk * C);
          const auto both = b.rows("xunit"_s, root, ux, ua);
          auto Y = b.acc("X1"_s, Shape<C, D>{});
          Y.zip("X1"_s, copy_times, s.X[st], ux);
          b.put(s.weighted, Y);
          Y.zip("X1"_s, copy_times, s.X[st], both);
          b.put(s.rootX, Y);
          Y.zip("X1"_s, copy_negative_times, s.A[st], both);
          b.put(s.rootA, Y);
          b.sync();
          b.mma_atb(P, s.dO[st], s.weighted);
          b.mma_atb(N, s.rootA, s.rootX);
        });
    b.store("W"_s, a.P, kv, chunk * D, P);
    b.store("W"_s, a.N, kv, chunk * D, N);
  }
};

/// dk and dv of a chunk, from all heads of the group.
template <ExecutorTypes B, Size C, Size D, int ST>
struct MesaGradients {
  struct Args {
    typename B::In k, v, x, a, o_cotangent, P, N;
    typename B::RowIn x_unit, a_unit;
    typename B::Out dk, dv;
    int group;
  };
  struct Smem {
    typename B::template Tile<"K", C, D> K;
    typename B::template Tile<"V", C, D> V;
    typename B::template Tile<"dSc", D, D> P;
    typename B::template Tile<"dSc", D, D> N;
    typename B::template Tile<"X", C, D> X[ST];
    typename B::template Tile<"X", C, D> A[ST];
    typename B::template Tile<"dO", C, D> dO[ST];
    typename B::template Tile<"Mc", C, C> of_x;
    typename B::template Tile<"Mc", C, C> of_a;
    typename B::template Tile<"Mc", C, C> of_g;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int kv, int chunk) {
    const auto along_x = in_fp64([&](auto e, auto h, auto ux, auto ua) {
      return ux * (e - b.planted("gram_gradient_one_sided"_s, ua, ua * 0) * h);
    });
    const auto along_a = [](auto f, auto ua) { return -ua * f; };
    auto dK = b.acc("dK"_s, Shape<C, D>{}), dV = b.acc("dV"_s, Shape<C, D>{});
    b.load(s.K, a.k, kv, chunk * C);
    b.load(s.V, a.v, kv, chunk * C);
    b.load(s.P, a.P, kv, chunk * D);
    b.load(s.N, a.N, kv, chunk * D);
    b.pipeline(
        Shape<ST>{}, b.planted("dk_one_head_of_group"_s, a.group, 1),
        [&](int i, int st) {
          b.load(s.X[st], a.x, kv * a.group + i, chunk * C);
          b.load(s.A[st], a.a, kv * a.group + i, chunk * C);
          b.load(s.dO[st], a.o_cotangent, kv * a.group + i, chunk * C);
        },
        [&](int i, int st) {
          const auto ux = b.load_row("xunit"_s, Shape<C>{}, a.x_unit, kv * a.group + i, chunk * C);
          const auto ua = b.load_row("xunit"_s, Shape<C>{}, a.a_unit, kv * a.group + i, chunk * C);
          if (i == 0) {
            b.mma(dK, s.V, s.P);
            if (b.planted("dk_without_later_solves"_s, true, false)) {
              b.mma(dK, s.K, s.N);
              b.mma_abt(dK, s.K, s.N);
            }
            if (b.planted("dv_without_later_reads"_s, true, false)) b.mma_abt(dV, s.K, s.P);
          }
          auto F = b.abt("F"_s, s.X[st], s.K);
          auto H = b.abt("F"_s, s.A[st], s.K);
          auto E = b.abt("E"_s, s.dO[st], s.V);
          F.mask(lower, 0), H.mask(lower, 0), E.mask(lower, 0);
          F.map("M"_s, times, ux);
          b.put(s.of_g, F);
          F.map("M"_s, along_a, ua);
          b.put(s.of_a, F);
          E.zip("M"_s, along_x, H, ux, ua);
          b.put(s.of_x, E);
          b.sync();
          b.mma_atb(dK, s.of_x, s.X[st]);
          b.mma_atb(dK, s.of_a, s.A[st]);
          b.mma_atb(dV, s.of_g, s.dO[st]);
        });
    b.store("out"_s, a.dk, kv, chunk * C, dK);
    b.store("out"_s, a.dv, kv, chunk * C, dV);
  }
};

inline constexpr SiteTable::Init mesanet_site_list[] = {
    {"Q", Role::operand},      {"K", Role::operand},     {"V", Role::operand},           {"dO", Role::operand},
    {"Xc", Role::operand},     {"Mc", Role::operand},    {"end", Role::accumulator},     {"U", Role::accumulator},
    {"F", Role::accumulator},  {"O", Role::accumulator}, {"E", Role::accumulator},       {"ridge", Role::accumulator},
    {"X1", Role::accumulator}, {"M", Role::accumulator}, {"dlambda", Role::accumulator}, {"dK", Role::accumulator},
    {"dV", Role::accumulator}, {"out", Role::output}};
inline constexpr SiteTable mesanet_sites = ridge_solve_sites.with(mesanet_site_list);

}  // namespace assay::tile
