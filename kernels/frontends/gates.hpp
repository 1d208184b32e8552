#pragma once
// Front ends of recurrences: what makes log decays, write strengths and steps of raw numbers, in blocks of R tokens.
//   softplus    g = -e^a_log softplus(a + dt_bias)
//   bounded     g = L sigmoid(e^a_log (a + dt_bias))
//   logsigmoid  g = max(ln sigmoid(a + dt_bias) / n, gate_min)
//   strength    beta = s sigmoid(b)
//   step        Delta = min(max(y, dt_min), dt_max), y = dt + dt_bias or its softplus; g = Delta A
#include "kernels/core/functions.hpp"
#include "kernels/frontends/functions.hpp"

namespace assay::tile {

/// A log decay for every token.
template <ExecutorTypes B, Size R>
struct TokenGates {
  using Real = typename B::Real;
  struct Args {
    typename B::RowIn a, bias, log_factor;
    typename B::RowOut log_decay;
    Gate<Real> gate;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const Gate<Real> gate = a.gate;
    const auto x = raw(b, a.a, a.bias, head, block * R);
    const auto log_factor = b.load_row("logit"_s, Shape<R>{}, a.log_factor, head, block * R);
    b.store_row("gate"_s, a.log_decay, head, block * R,
                b.rows(
                    "gate"_s, [=](auto y, auto l) { return gate.log_decay(y, l); }, x, log_factor));
  }
  template <class Ex>
  TILE_FN static auto raw(Ex& b, const typename B::RowIn& a, const typename B::RowIn& bias, int head, int row0) {
    const auto x = b.load_row("logit"_s, Shape<R>{}, a, head, row0);
    return b.rows("logit"_s, plus, x, b.load_row("logit"_s, Shape<R>{}, bias, head, row0));
  }
};

template <ExecutorTypes B, Size R>
struct TokenGateGradients {
  using Real = typename B::Real;
  struct Args {
    typename B::RowIn a, bias, log_factor, cotangent;
    typename B::RowOut da, dlog_factor;
    Gate<Real> gate;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const int row0 = block * R;
    Gate<Real> gate = a.gate;
    gate.slope_forgotten = b.planted("gate_slope_forgotten"_s, false, true);
    gate.factor_forgotten = b.planted("da_log_without_factor"_s, false, true);
    gate.passes_minimum = b.planted("gate_minimum_passes_gradient"_s, false, true);
    const auto x = TokenGates<B, R>::raw(b, a.a, a.bias, head, row0);
    const auto l = b.load_row("logit"_s, Shape<R>{}, a.log_factor, head, row0);
    const auto dg = b.load_row("dgate"_s, Shape<R>{}, a.cotangent, head, row0);
    b.store_row("dlogit"_s, a.da, head, row0,
                b.rows(
                    "dlogit"_s, [=](auto y, auto f, auto d) { return gate.gradient(y, f, d); }, x, l, dg));
    b.store_row("dlogit"_s, a.dlog_factor, head, row0,
                b.rows(
                    "dlogit"_s, [=](auto y, auto f, auto d) { return gate.factor_gradient(y, f, d); }, x, l, dg));
  }
};

/// A log decay for every channel of D. A bias is one of every channel.
template <ExecutorTypes B, Size R, Size D>
struct ChannelGates {
  using Real = typename B::Real;
  struct Args {
    typename B::In a;
    typename B::RowIn bias, log_factor;
    typename B::Out log_decay;
    Gate<Real> gate;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const Gate<Real> gate = a.gate;
    auto x = raw(b, a.a, a.bias, head, block * R);
    x.map(
        "gate"_s, [=](auto y, auto l) { return gate.log_decay(y, l); },
        b.load_row("logit"_s, Shape<R>{}, a.log_factor, head, block * R));
    b.store("gate"_s, a.log_decay, head, block * R, x);
  }
  template <class Ex>
  TILE_FN static auto raw(Ex& b, const typename B::In& a, const typename B::RowIn& bias, int head, int row0) {
    auto x = b.load_acc("logit"_s, Shape<R, D>{}, a, head, row0);
    x.map("logit"_s, plus, b.load_col("logit"_s, Shape<1, D>{}, bias, head, 0));
    return x;
  }
};

template <ExecutorTypes B, Size R, Size D>
struct ChannelGateGradients {
  using Real = typename B::Real;
  struct Args {
    typename B::In a, cotangent;
    typename B::RowIn bias, log_factor;
    typename B::Out da;
    typename B::RowOut dlog_factor;
    Gate<Real> gate;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const int row0 = block * R;
    Gate<Real> gate = a.gate;
    gate.slope_forgotten = b.planted("gate_slope_forgotten"_s, false, true);
    gate.factor_forgotten = b.planted("da_log_without_factor"_s, false, true);
    gate.passes_minimum = b.planted("gate_minimum_passes_gradient"_s, false, true);
    const auto l = b.load_row("logit"_s, Shape<R>{}, a.log_factor, head, row0);
    auto dg = b.load_acc("dgate"_s, Shape<R, D>{}, a.cotangent, head, row0);
    auto x = ChannelGates<B, R, D>::raw(b, a.a, a.bias, head, row0), of_factor = x;
    x.zip(
        "dlogit"_s, [=](auto y, auto d, auto f) { return gate.gradient(y, f, d); }, dg, l);
    b.store("dlogit"_s, a.da, head, row0, x);
    of_factor.zip(
        "dlogit"_s, [=](auto y, auto d, auto f) { return gate.factor_gradient(y, f, d); }, dg, l);
    auto sum = b.partial("dlogit"_s, Shape<R>{});
    sum.fold(b.row("dlogit"_s, Shape<R>{}, 1), of_factor);
    b.store_row("dlogit"_s, a.dlog_factor, head, row0, sum.total());
  }
};

/// Write strengths.
template <ExecutorTypes B, Size R>
struct Strengths {
  using Real = typename B::Real;
  struct Args {
    typename B::RowIn b;
    typename B::RowOut beta;
    Real scale;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const Real scale = b.planted("beta_scale_forgotten"_s, a.scale, Real(1));
    b.store_row("strength"_s, a.beta, head, block * R,
                b.rows(
                    "strength"_s, [=](auto x) { return scale * sigmoid_of(x); },
                    b.load_row("logit"_s, Shape<R>{}, a.b, head, block * R)));
  }
};

template <ExecutorTypes B, Size R>
struct StrengthGradients {
  using Real = typename B::Real;
  struct Args {
    typename B::RowIn b, cotangent;
    typename B::RowOut db;
    Real scale;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const Real scale = a.scale, inner = b.planted("dbeta_of_the_unscaled"_s, Real(1), a.scale);
    const auto d_beta = b.load_row("dgate"_s, Shape<R>{}, a.cotangent, head, block * R);
    b.store_row("dlogit"_s, a.db, head, block * R,
                b.rows(
                    "dlogit"_s,
                    [=](auto x, auto d) {
                      const auto beta = scale * sigmoid_of(x);
                      return inner == 1 ? d * beta * sigmoid_of(-x) : d * beta * (1 - beta);
                    },
                    b.load_row("logit"_s, Shape<R>{}, a.b, head, block * R), d_beta));
  }
};

/// Steps, and the log decays that they make of a rate A, or of ln(-A).
template <ExecutorTypes B, Size R>
struct Steps {
  using Real = typename B::Real;
  struct Args {
    typename B::RowIn dt, bias, rate;
    typename B::RowOut step, log_decay;
    StepSize<Real> size;
    bool is_log;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const StepSize<Real> size = a.size;
    auto u = b.load_row("logit"_s, Shape<R>{}, a.dt, head, block * R);
    const auto bias = b.load_row("logit"_s, Shape<R>{}, a.bias, head, block * R);
    const bool late = b.planted("dt_bias_after_the_softplus"_s, false, true);
    if (!late) u = b.rows("logit"_s, plus, u, bias);
    auto step = b.rows(
        "dt"_s, [=](auto x) { return size.size(x); }, u);
    if (late) step = b.rows("dt"_s, plus, step, bias);
    b.store_row("dt"_s, a.step, head, block * R, step);
    b.store_row("gate"_s, a.log_decay, head, block * R,
                b.rows("gate"_s, times, step, rates(b, a.rate, a.is_log, head, block * R)));
  }
  template <class Ex>
  TILE_FN static auto rates(Ex& b, const typename B::RowIn& rate, bool is_log, int head, int row0) {
    const auto x = b.load_row("logit"_s, Shape<R>{}, rate, head, row0);
    return b.rows(
        "logit"_s, [=](auto y) { return is_log ? -natural_exponential(y) : y; }, x);
  }
};

inline constexpr SiteTable::Init gate_site_list[] = {{"logit", Role::gate},    {"gate", Role::gate},
                                                     {"dgate", Role::gate},    {"dlogit", Role::gate},
                                                     {"strength", Role::gate}, {"dt", Role::gate}};

}  // namespace assay::tile
