#pragma once
// Systems (G_i + ridge_i) x_i = b_i by conjugate gradients, one for each row of a tile and all rows at once (Hestenes
// and Stiefel 1952): what the ridge regressions launch. G_i is a sum over the keys up to row i, never formed: its
// product is that of the state before the chunk and, under a causal mask, of the chunk's own keys.
#include "kernels/core/functions.hpp"
#include "kernels/core/same_bits.hpp"

namespace assay::tile {

/// One over the root of a square, 0 of 0.
template <class T>
TILE_FN T over_root(T square) {
  return square > 0 ? ex2(lg2(square) / -2) : 0;
}

/// When a row is at rest: |r| <= relative |b|, or after its own number of steps.
template <ExecutorTypes B>
struct SolveLimits {
  typename B::Real relative;
  typename B::RowIn steps;
};

/// Solves for the rows of `rhs`; image(P) is the systems' product with P, which `directions` holds. A row at rest stays
/// as it is while others go on. The step along a direction is the best one, and the next direction conjugate to it,
/// whatever rounding has made of it.
template <Size C, Size D, ExecutorTypes B, class X, class Tile, class Rows, class Image>
TILE_FN auto conjugate_gradients(X& b, Tile& directions, const Rows& rhs, const SolveLimits<B>& limits, int head,
                                 int row0, Image image) {
  const auto zero = b.row("alpha"_s, Shape<C>{}, 0);
  const auto threshold = [&](auto square) {
    return b.planted("tolerance_of_squares"_s, limits.relative * limits.relative, limits.relative) * square;
  };
  const auto going = [](auto square, auto stop, auto left) { return square > stop && left > 0 ? 1 : 0; };
  const auto one_less = [](auto left) { return left - 1; };
  // Or so: a device's logarithm takes what is below the least normal number of fp32 for zero.
  const auto unit_length = []<class T>(T square, T go) {
    return go * over_root(square > 0 ? maxi(square, T(0x1p-126)) : square);
  };
  const auto best = [&](auto along, auto bend, auto go) {
    return b.planted("rows_not_frozen"_s, go > 0 && bend > 0, true) ? along / bend : 0;
  };
  const auto conjugate = [](auto along, auto bend, auto go) { return go > 0 && bend > 0 ? -along / bend : 0; };
  const auto still = [](auto square, auto bend, auto go) { return go > 0 && bend > 0 ? square : 0; };

  auto Y = b.acc("R"_s, Shape<C, D>{});
  auto R = rhs, P = rhs;
  auto square = b.dot("rr"_s, R, R);
  const auto stop = b.rows("stop"_s, threshold, square);
  auto left = b.load_row("left"_s, Shape<C>{}, limits.steps, head, row0);
  auto go = b.rows("go"_s, going, square, stop, left);
  while (b.any([](auto x) { return x > 0; }, go)) {
    P.scale(b.rows("alpha"_s, unit_length, b.dot("rr"_s, P, P), go));
    P.map("P"_s, same);
    b.put(directions, P);
    b.sync();
    auto AP = image(P);
    b.sync();
    const auto bend = b.dot("bend"_s, P, AP), along = b.dot("rp"_s, R, P);
    const auto alpha = b.rows("alpha"_s, best, along, bend, go);
    const bool turns_early = b.planted("beta_of_old_residual"_s, false, true);
    auto turn = along;
    if (turns_early) turn = b.dot("rp"_s, R, AP);
    Y.zip("R"_s, plus_times, P, alpha);
    R.zip("R"_s, minus_times, AP, alpha);
    if (!turns_early) turn = b.dot("rp"_s, R, AP);
    const auto beta = b.rows("alpha"_s, conjugate, turn, bend, go);
    auto next = R;
    next.zip("R"_s, plus_times, P, b.planted("steepest_descent"_s, beta, zero));
    P = next;
    square = b.rows("rr"_s, still, b.dot("rr"_s, R, R), bend, go);
    left = b.rows("left"_s, one_less, left);
    go = b.rows("go"_s, going, square, stop, left);
  }
  return Y;
}

/// The parts of the systems of a chunk, whose keys have the head kv.
template <ExecutorTypes B>
struct RidgeSystem {
  typename B::In k, v, lambda, gram, state;
  typename B::RowIn ridge_unit;
  SolveLimits<B> limits;
  int group, kv_heads;
};

/// A state and what it is used with, one after the other, so that two blocks share a multiprocessor where a state has
/// 64 KB: H with lambda while systems are solved, S with values.
template <ExecutorTypes B, Size C, Size D>
struct RidgeTiles {
  typename B::template Tile<"K", C, D> K;
  typename B::template Tile<"state", D, D> state;
  typename B::template InTurn<typename B::template Tile<"lambda", C, D>, typename B::template Tile<"V", C, D>> with;
  typename B::template Tile<"R", C, D> rows;      // factors of their products
  typename B::template Tile<"U", C, C> of_pairs;  // and of those with the chunk's keys and values

  template <class Ex>
  TILE_FN void load_system(Ex& b, const RidgeSystem<B>& a, int kv, int head, int chunk) {
    b.load(state, a.gram, kv, chunk * D);
    b.load(with.first, a.lambda, head, chunk * C);
  }
  template <class Ex>
  TILE_FN void load_values(Ex& b, const RidgeSystem<B>& a, int kv, int chunk) {
    b.load(state, a.state, kv, chunk * D);
    b.load(with.second, a.v, kv, chunk * C);
  }
  /// sum + u x, of the pairs of a query and a key or value.
  template <class Ex, class Sum, class Pairs, class Tile>
  TILE_FN void add_pairs(Ex& b, Sum& sum, const Pairs& u, const Tile& x) {
    b.put(of_pairs, u);
    b.sync();
    b.mma(sum, of_pairs, x);
  }
  /// Solutions of the chunk's systems; image(P) is the product of G with P, which `rows` hold.
  template <class Ex, class Rows, class Image>
  TILE_FN auto solve(Ex& b, const RidgeSystem<B>& a, int head, int chunk, const Rows& rhs, Image image) {
    const auto of_row = [&](auto of_unit, auto unit) {
      return b.planted("ridge_on_sums"_s, unit, decltype(unit){1}) * of_unit;
    };
    const auto ridge = [&](auto p, auto l) { return b.planted("ridge_forgotten"_s, l * p, p * 0); };
    auto L = in_registers(b, "ridge"_s, with.first);
    L.map("ridge"_s, of_row, b.load_row("lunit"_s, Shape<C>{}, a.ridge_unit, 0, chunk * C));
    b.sync();
    b.put(with.first, L);
    b.sync();
    return conjugate_gradients<C, D>(b, rows, rhs, a.limits, head, chunk * C, [&](const auto& directions) {
      auto AP = image(directions);
      auto E = directions;
      E.zip("ridge"_s, ridge, with.first);
      AP.zip("AP"_s, plus, E);
      return AP;
    });
  }
};

/// Rows scaled to length one, as their operand holds them; the answer is their lengths. So no format's range is left,
/// however large the ridge.
template <class X, class Rows>
TILE_FN auto to_unit_rows(X& b, Rows& Y) {
  const auto shrink = b.rows("xunit"_s, in_fp64([](auto square) { return over_root(square); }), b.dot("rr"_s, Y, Y));
  Y.scale(shrink);
  Y.map("X"_s, [](auto x) { return x; });
  return b.rows(
      "xunit"_s, [](auto x) { return x > 0 ? 1 / x : 0; }, shrink);
}

/// R of the rows of adjoint states after every chunk, last chunk first, from the sum of the group's cotangents:
/// operands, or as wide as they are.
template <ExecutorTypes B, Size R, Size D, int ST, bool Wide>
struct AdjointStates {
  struct Args {
    typename B::In start, updates;
    typename B::Out states;
    int chunks, group, rows;
  };
  struct Smem {
    typename B::template Tile<"W", R, D> W[ST];
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int block) {
    const auto first = [&](auto x, auto y) { return b.planted("final_cotangent_dropped"_s, x + y, x); };
    auto S = b.acc("dS"_s, Shape<R, D>{});
    b.pipeline(
        Shape<ST>{}, a.group, [&](int i, int st) { b.load(s.W[st], a.start, head * a.group + i, block * R); },
        [&](int, int st) { S.zip("dS"_s, first, s.W[st]); });
    const auto row = [&](int i) { return (a.chunks - 1 - i) * a.rows + block * R; };
    b.pipeline(
        Shape<ST>{}, a.chunks, [&](int i, int st) { b.load(s.W[st], a.updates, head, row(i)); },
        [&](int i, int st) {
          if constexpr (Wide)
            b.store("dS"_s, a.states, head, row(i), S);
          else
            b.store("dSc"_s, a.states, head, row(i), S);
          S.zip("dS"_s, plus, s.W[st]);
        });
  }
};

inline constexpr SiteTable::Init ridge_solve_site_list[] = {
    {"X", Role::operand},      {"dSc", Role::operand},       {"alpha", Role::gate},     {"stop", Role::gate},
    {"go", Role::gate},        {"left", Role::gate},         {"xunit", Role::gate},     {"lunit", Role::gate},
    {"lambda", Role::gate},    {"P", Role::accumulator},     {"R", Role::accumulator},  {"rr", Role::accumulator},
    {"rp", Role::accumulator}, {"bend", Role::accumulator},  {"AP", Role::accumulator}, {"H", Role::accumulator},
    {"S", Role::accumulator},  {"state", Role::accumulator}, {"W", Role::accumulator},  {"dS", Role::accumulator}};
/// Sites of the solves and of the states around them. A system magnifies what rounding does to it: all of it but the
/// keys is as wide as the accumulators, search directions and the states before the chunk among it.
inline constexpr SiteTable ridge_solve_sites{ridge_solve_site_list};

}  // namespace assay::tile
