#pragma once
// The step size and the decay of FALCON's rooms with one of each per token (falcon-family.md section 2), and their
// gradients:
//   E = |x|^2,   ridge = lambda or lambda E,   den = E + ridge + eps,   eta = beta / den,   alpha = eta ridge
//   gamma = 1 - alpha, or decay_floor where that is less
// The program around them takes gamma as a decay and returns the gradient of its logarithm, so that gamma = 0 is not
// for it. Backward, m = 0 where the floor holds (a tie included):
//   dalpha = -m dlog_gamma / gamma,   s = deta + ridge dalpha,   dbeta = s / den,   dden = -s eta / den
//   dridge = eta dalpha + dden,   dlambda = dridge or dridge E,   dE = dden + lambda dridge (or dden),   dx += 2 dE x
// Where den = 0, and in rows that do not write, eta = 0, gamma = 1 and all gradients are 0.
#include "kernels/core/functions.hpp"
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// A ridge of lambda, or of lambda E with or without a gradient through that E.
enum class Coupling : unsigned char { raw, live, detach };

/// `active`: 1 in rows that write. Blocks are C tokens of a head.
template <ExecutorTypes B, Size C, Size DK>
struct FalconGain {
  using Real = typename B::Real;
  struct Args {
    typename B::In x;
    typename B::RowIn beta, lambda, active;
    typename B::RowOut eta, gamma;
    Real eps, floor;  // no floor: 0
    Coupling coupling;
    int group;
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> X;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const auto decay_of = [&](auto eta, auto ridge) {
      const auto gamma = 1 - eta * ridge;
      return a.floor > 0 && gamma <= a.floor ? b.planted("floor_forgotten"_s, a.floor, Real(gamma)) : Real(gamma);
    };
    b.pipeline(
        Shape<2>{}, 1, [&](int, int) { b.load(s.X, a.x, head / a.group, chunk * C); },
        [&](int, int) {
          auto beta = b.load_row("beta"_s, Shape<C>{}, a.beta, head, chunk * C);
          auto on = b.load_row("beta"_s, Shape<C>{}, a.active, head, chunk * C);
          auto energy = b.dot("energy"_s, s.X, s.X);
          auto ridge = ridge_of(b, a, head, chunk, energy);
          auto den = denominator(b, a, energy, ridge);
          auto eta = b.rows("eta"_s, over_where_on, beta, den, on);
          b.store_row("eta"_s, a.eta, head, chunk * C, eta);
          b.store_row("gamma"_s, a.gamma, head, chunk * C, b.rows("gamma"_s, decay_of, eta, ridge));
        });
  }

  template <class Ex, class Row>
  TILE_FN static auto ridge_of(Ex& b, const auto& a, int head, int chunk, const Row& energy) {
    const bool raw = a.coupling == Coupling::raw;
    const auto ridge = [=](auto lambda, auto e) { return raw ? lambda : lambda * e; };
    return b.rows("ridge"_s, ridge, b.load_row("lambda"_s, Shape<C>{}, a.lambda, head, chunk * C), energy);
  }
  template <class Ex, class Row>
  TILE_FN static auto denominator(Ex& b, const auto& a, const Row& energy, const Row& ridge) {
    const Real eps = a.eps;
    return b.rows(
        "den"_s, [=, &b](auto e, auto r) { return e + b.planted("ridge_left_out"_s, r, r * 0) + eps; }, energy, ridge);
  }
};

template <ExecutorTypes B, Size C, Size DK>
struct FalconGainBackward {
  using Real = typename B::Real;
  struct Args {
    typename B::In x;
    typename B::RowIn beta, lambda, active, deta, dlog_gamma;
    typename B::RowOut dbeta, dlambda;
    typename B::Out dx;
    Real eps, floor;
    Coupling coupling;
    int group, parts;  // parts of dx for each head, of which this is the last
  };
  struct Smem {
    typename B::template Tile<"K", C, DK> X;
  };

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem& s, const Args& a, int head, int chunk) {
    const Coupling coupling = a.coupling;
    const Real floor = a.floor;
    const auto load = [&](auto site, const auto& in) { return b.load_row(site, Shape<C>{}, in, head, chunk * C); };
    const auto dalpha_of = [&](auto dlog_gamma, auto eta, auto ridge) {
      const auto gamma = 1 - eta * ridge;
      const bool held = b.planted("floor_passes_gradient"_s, floor > 0 && gamma <= floor, false);
      return held ? gamma * 0 : -dlog_gamma / gamma;
    };
    const auto step_of = [](auto deta, auto ridge, auto dalpha, auto on) {
      return on != 0 ? deta + ridge * dalpha : deta * 0;
    };
    const auto over_gain = [](auto x, auto den) { return den != 0 ? x / den : den * 0; };
    const auto dridge_of = [](auto eta, auto dalpha, auto dden) { return eta * dalpha + dden; };
    const auto dlambda_of = [=](auto dridge, auto e) { return coupling == Coupling::raw ? dridge : dridge * e; };
    const auto denergy_of = [&, coupling](auto dden, auto dridge, auto lambda) {
      const bool live = b.planted("detached_ridge_stays_live"_s, coupling == Coupling::live, coupling != Coupling::raw);
      return live ? dden + lambda * dridge : dden;
    };
    const auto twice_times = [](auto x, auto de) { return 2 * de * x; };
    b.pipeline(
        Shape<2>{}, 1, [&](int, int) { b.load(s.X, a.x, head / a.group, chunk * C); },
        [&](int, int) {
          using Gain = FalconGain<B, C, DK>;
          auto on = load("beta"_s, a.active);
          auto lambda = load("lambda"_s, a.lambda);
          auto energy = b.dot("energy"_s, s.X, s.X);
          auto ridge = Gain::ridge_of(b, a, head, chunk, energy);
          auto den = Gain::denominator(b, a, energy, ridge);
          auto eta = b.rows("eta"_s, over_where_on, load("beta"_s, a.beta), den, on);
          auto dalpha = b.rows("dgain"_s, dalpha_of, load("dlog_decay"_s, a.dlog_gamma), eta, ridge);
          auto step = b.rows("dgain"_s, step_of, load("dbeta"_s, a.deta), ridge, dalpha, on);
          auto dbeta = b.rows("dgain"_s, over_gain, step, den);
          auto dden = b.rows("dgain"_s, negative_times, dbeta, eta);
          auto dridge = b.rows("dgain"_s, dridge_of, eta, dalpha, dden);
          b.store_row("dbeta"_s, a.dbeta, head, chunk * C, dbeta);
          b.store_row("dbeta"_s, a.dlambda, head, chunk * C, b.rows("dgain"_s, dlambda_of, dridge, energy));
          auto denergy = b.rows("dgain"_s, denergy_of, dden, dridge, lambda);
          auto dx = b.acc("part"_s, Shape<C, DK>{});
          dx.zip(
              "part"_s, [](auto, auto x) { return x; }, s.X);
          dx.map("part"_s, twice_times, denergy);
          b.store("part"_s, a.dx, head * a.parts + a.parts - 1, chunk * C, dx);
        });
  }
};

inline constexpr SiteTable::Init falcon_gain_site_list[] = {
    {"lambda", Role::gate}, {"eta", Role::gate}, {"gamma", Role::gate}, {"energy", Role::accumulator},
    {"ridge", Role::gate},  {"den", Role::gate}, {"dgain", Role::gate}};

}  // namespace assay::tile
