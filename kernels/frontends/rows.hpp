#pragma once
// Front ends and back ends of recurrences on rows of R tokens and D channels: normalisation of queries and keys, steps
// that values are multiplied by, skips, and gates of the output.
//   norm    y = x / d, d = sqrt(n^2 + eps), n + eps or max(n, eps);  dx = dy / d - y <y, dy> w
//   step    written = Delta v;  dDelta = A dg + <v, dwritten>, dA = Delta dg, dv = Delta dwritten + skip o do'
//   output  o = (read + skip o v) z sigmoid(z);  do' = do o z sigmoid(z)
#include "kernels/frontends/gates.hpp"

namespace assay::tile {

template <ExecutorTypes B, Size R, Size D>
struct UnitRows {
  using Real = typename B::Real;
  struct Args {
    typename B::In x;
    typename B::Out y;
    Norm<Real> norm;
    int columns;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    auto x = b.load_acc("raw"_s, Shape<R, D>{}, a.x, head, block * R);
    const Norm<Real> norm = healthy_or_not(b, a.norm, a.columns);
    x.map("unit"_s, over_or_zero,
          b.rows(
              "length"_s, [=](auto n2) { return norm.divisor(n2); }, b.dot("square"_s, x, x)));
    b.store("unit"_s, a.y, head, block * R, x);
  }
  template <class Ex>
  TILE_FN static Norm<Real> healthy_or_not(Ex& b, Norm<Real> norm, int columns) {
    norm.kind = b.planted("eps_outside_the_root"_s, norm.kind, NormKind::sum);
    norm.eps = b.planted("eps_of_the_mean"_s, norm.eps, norm.eps * Real(columns));
    return norm;
  }
};

template <ExecutorTypes B, Size R, Size D>
struct UnitRowGradients {
  using Real = typename B::Real;
  struct Args {
    typename B::In x, cotangent;
    typename B::Out dx;
    Norm<Real> norm;
    int columns;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const int row0 = block * R;
    Norm<Real> norm = UnitRows<B, R, D>::healthy_or_not(b, a.norm, a.columns);
    norm.eps = b.planted("eps_of_the_forward_pass_alone"_s, norm.eps, Real(0));
    auto y = b.load_acc("raw"_s, Shape<R, D>{}, a.x, head, row0),
         dx = b.load_acc("dunit"_s, Shape<R, D>{}, a.cotangent, head, row0);
    const auto squares = b.dot("square"_s, y, y);
    const auto divisor = b.rows(
        "length"_s, [=](auto n2) { return norm.divisor(n2); }, squares);
    const auto weight = b.rows(
        "length"_s, [=](auto n2) { return norm.weight(n2); }, squares);
    y.map("square"_s, over_or_zero, divisor);
    auto along = b.rows("square"_s, times, b.dot("square"_s, y, dx), weight);
    if (b.planted("norm_gradient_not_projected"_s, false, true)) along = b.row("square"_s, Shape<R>{}, 0);
    dx.map("square"_s, over_or_zero, divisor);
    dx.zip("square"_s, minus_times, y, along);
    b.store("draw"_s, a.dx, head, row0, dx);
  }
};

/// Delta v. Blocks are pairs of R tokens and D columns, here and below.
template <ExecutorTypes B, Size R, Size D>
struct WrittenValues {
  struct Args {
    typename B::In v;
    typename B::RowIn step;
    typename B::Out written;
    int blocks;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const int row0 = block / a.blocks * R, col0 = block % a.blocks * D;
    auto v = b.load_acc("raw"_s, Shape<R, D>{}, a.v, head, row0, col0);
    v.map("written"_s, times, b.load_row("dt"_s, Shape<R>{}, a.step, head, row0));
    b.store("written"_s, a.written, head, row0, v, col0);
  }
};

/// Gradients of steps and their rate, from those of log decays and of written values. Blocks are R tokens.
template <ExecutorTypes B, Size R, Size D>
struct StepGradients {
  using Real = typename B::Real;
  struct Args {
    typename B::RowIn dt, bias, rate, step, cotangent;
    typename B::In v, dwritten;
    typename B::RowOut ddt, drate;
    StepSize<Real> size;
    bool is_log;
    int blocks;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const int row0 = block * R;
    StepSize<Real> size = a.size;
    size.passes_limits = b.planted("dt_limits_pass_gradient"_s, false, true);
    auto sum = b.partial("dgate"_s, Shape<R>{});
    const auto one = b.row("dgate"_s, Shape<R>{}, 1);
    for (int j = 0; j < a.blocks; ++j) {
      auto v = b.load_acc("raw"_s, Shape<R, D>{}, a.v, head, row0, j * D);
      auto dv = b.load_acc("dunit"_s, Shape<R, D>{}, a.dwritten, head, row0, j * D);
      v.zip("dgate"_s, times, dv);
      sum.fold(one, v);
    }
    const auto rate = Steps<B, R>::rates(b, a.rate, a.is_log, head, row0);
    const auto dg = b.load_row("dgate"_s, Shape<R>{}, a.cotangent, head, row0);
    const auto of_decay = b.planted("dt_gradient_of_values_alone"_s, dg, b.row("dgate"_s, Shape<R>{}, 0));
    const auto dstep = b.rows("dgate"_s, plus_times, sum.total(), of_decay, rate);
    const auto bias = b.load_row("logit"_s, Shape<R>{}, a.bias, head, row0);
    const auto u = b.rows("logit"_s, plus, b.load_row("logit"_s, Shape<R>{}, a.dt, head, row0), bias);
    b.store_row("dlogit"_s, a.ddt, head, row0,
                b.rows(
                    "dlogit"_s, [=](auto x, auto d) { return size.gradient(x, d); }, u, dstep));
    const auto step = b.load_row("dt"_s, Shape<R>{}, a.step, head, row0);
    auto drate = b.rows("dlogit"_s, times, step, dg);
    if (a.is_log) drate = b.rows("dlogit"_s, times, drate, rate);
    b.store_row("dlogit"_s, a.drate, head, row0, drate);
  }
};

/// dv. Steps are there or not, and so is a skip.
template <ExecutorTypes B, Size R, Size D>
struct ValueGradients {
  struct Args {
    typename B::In dwritten, dread;
    typename B::RowIn step, skip;
    typename B::Out dv;
    bool has_step, has_skip;
    int blocks;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const int row0 = block / a.blocks * R, col0 = block % a.blocks * D;
    auto dv = b.load_acc("dunit"_s, Shape<R, D>{}, a.dwritten, head, row0, col0);
    if (a.has_step && b.planted("dv_without_step"_s, true, false))
      dv.map("square"_s, times, b.load_row("dt"_s, Shape<R>{}, a.step, head, row0));
    if (a.has_skip) {
      auto dread = b.load_acc("dread"_s, Shape<R, D>{}, a.dread, head, row0, col0);
      dv.zip("square"_s, plus_times, dread, b.load_col("skip"_s, Shape<1, D>{}, a.skip, head, col0));
    }
    b.store("draw"_s, a.dv, head, row0, dv, col0);
  }
};

/// z sigmoid(z), and its slope.
template <class T>
TILE_FN T silu_of(T z) {
  return z * sigmoid_of(z);
}
template <class T>
TILE_FN T silu_slope(T z, bool of_sigmoid_alone) {
  return sigmoid_of(z) * (of_sigmoid_alone ? T(1) : 1 + z * sigmoid_of(-z));
}

/// o, of what is read.
template <ExecutorTypes B, Size R, Size D>
struct GatedOutput {
  struct Args {
    typename B::In read, v, z;
    typename B::RowIn skip;
    typename B::Out o;
    bool has_skip, has_z;
    int blocks;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const int row0 = block / a.blocks * R, col0 = block % a.blocks * D;
    auto o = b.load_acc("read"_s, Shape<R, D>{}, a.read, head, row0, col0);
    const bool early = b.planted("gated_before_the_skip"_s, false, true);
    if (!early) skipped(b, a, o, head, row0, col0);
    if (a.has_z) {
      auto z = b.load_acc("raw"_s, Shape<R, D>{}, a.z, head, row0, col0);
      o.zip(
          "read"_s, [](auto x, auto y) { return x * silu_of(y); }, z);
    }
    if (early) skipped(b, a, o, head, row0, col0);
    b.store("gated"_s, a.o, head, row0, o, col0);
  }
  template <class Ex, class A, class Acc>
  TILE_FN static void skipped(Ex& b, const A& a, Acc& o, int head, int row0, int col0) {
    if (!a.has_skip) return;
    auto v = b.load_acc("raw"_s, Shape<R, D>{}, a.v, head, row0, col0);
    o.zip("read"_s, plus_times, v, b.load_col("skip"_s, Shape<1, D>{}, a.skip, head, col0));
  }
};

/// do', which the recurrence's backward pass begins with.
template <ExecutorTypes B, Size R, Size D>
struct ReadCotangents {
  struct Args {
    typename B::In o_cotangent, z;
    typename B::Out dread;
    int blocks;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const int row0 = block / a.blocks * R, col0 = block % a.blocks * D;
    auto d = b.load_acc("raw"_s, Shape<R, D>{}, a.o_cotangent, head, row0, col0),
         z = b.load_acc("raw"_s, Shape<R, D>{}, a.z, head, row0, col0);
    d.zip(
        "read"_s, [](auto x, auto y) { return x * silu_of(y); }, z);
    b.store("dread"_s, a.dread, head, row0, d, col0);
  }
};

/// dz, and do' o v for every token, whose sum is dskip.
template <ExecutorTypes B, Size R, Size D>
struct OutputGradients {
  struct Args {
    typename B::In read, v, z, o_cotangent, dread;
    typename B::RowIn skip;
    typename B::Out dz, dskip;
    bool has_skip, has_z;
    int blocks;
  };
  struct Smem {};

  template <class Ex>
  TILE_FN static void run(Ex& b, Smem&, const Args& a, int head, int block) {
    const int row0 = block / a.blocks * R, col0 = block % a.blocks * D;
    if (a.has_z) {
      auto o = b.load_acc("read"_s, Shape<R, D>{}, a.read, head, row0, col0),
           d = b.load_acc("raw"_s, Shape<R, D>{}, a.o_cotangent, head, row0, col0),
           z = b.load_acc("raw"_s, Shape<R, D>{}, a.z, head, row0, col0);
      if (b.planted("dz_without_the_skip"_s, true, false)) GatedOutput<B, R, D>::skipped(b, a, o, head, row0, col0);
      const bool alone = b.planted("dz_of_the_sigmoid_alone"_s, false, true);
      z.map("read"_s, [=](auto x) { return silu_slope(x, alone); });
      o.zip("read"_s, times, d);
      o.zip("read"_s, times, z);
      b.store("draw"_s, a.dz, head, row0, o, col0);
    }
    if (a.has_skip) {
      auto d = b.load_acc("dread"_s, Shape<R, D>{}, a.dread, head, row0, col0),
           v = b.load_acc("raw"_s, Shape<R, D>{}, a.v, head, row0, col0);
      d.zip("dskip"_s, times, v);
      b.store("dskip"_s, a.dskip, head, row0, d, col0);
    }
  }
};

inline constexpr SiteTable::Init row_site_list[] = {
    {"raw", Role::output},     {"square", Role::accumulator}, {"length", Role::accumulator},
    {"unit", Role::output},    {"dunit", Role::accumulator},  {"draw", Role::output},
    {"written", Role::output}, {"read", Role::accumulator},   {"dread", Role::output},
    {"skip", Role::gate},      {"dskip", Role::accumulator},  {"gated", Role::output}};
inline constexpr SiteTable front_end_only_sites = SiteTable(gate_site_list).with(row_site_list);

}  // namespace assay::tile
