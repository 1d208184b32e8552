#pragma once
// Functions of gates and norms, of one number. Those of the host, and of draws on a device, are our own: libm differs
// between machines.
#include <cmath>

#include "kernels/core/tile.hpp"

namespace assay::tile {

#if defined(__CUDACC__) && !defined(ASSAY_HOST_FUNCTIONS)
TILE_FN float natural_exponential(float x) { return ::expf(x); }
TILE_FN double natural_exponential(double x) { return ::exp(x); }
TILE_FN float log_of_one_plus(float x) { return ::log1pf(x); }
TILE_FN double log_of_one_plus(double x) { return ::log1p(x); }
TILE_FN float square_root(float x) { return ::sqrtf(x); }
TILE_FN double square_root(double x) { return ::sqrt(x); }
#else
template <class T>
TILE_FN T natural_exponential(T x) {
  return ex2(x * T(1.442695040888963407359924681001892137L));
}
/// For x >= 0: where 1 + x has lost bits of x, so has its logarithm, by the same factor.
template <class T>
TILE_FN T log_of_one_plus(T x) {
  const T sum = 1 + x, kept = sum - 1;
  return kept == 0 ? x : lg2(sum) * T(0.693147180559945309417232121458176568L) * (x / kept);
}
template <class T>
TILE_FN T square_root(T x) {
  return std::sqrt(x);
}
#endif

template <class T>
TILE_FN T sigmoid_of(T x) {
  const T e = natural_exponential(x < 0 ? x : -x);
  return (x < 0 ? e : T(1)) / (1 + e);
}
template <class T>
TILE_FN T softplus_of(T x) {
  const T tail = log_of_one_plus(natural_exponential(x < 0 ? x : -x));
  return x < 0 ? tail : x + tail;
}

/// How log decays are made.
enum class GateKind { softplus, bounded, logsigmoid };

/// A log decay of x = a + dt_bias and the logarithm of its head's factor, and what its gradient makes of them.
template <class T>
struct Gate {
  GateKind kind;
  bool has_threshold, has_minimum;
  T threshold, bound, normalizer, minimum;
  bool slope_forgotten = false, factor_forgotten = false, passes_minimum = false;  ///< faults

  TILE_FN T log_decay(T x, T log_factor) const {
    if (kind == GateKind::bounded) return bound * sigmoid_of(natural_exponential(log_factor) * x);
    if (kind == GateKind::softplus) return -natural_exponential(log_factor) * smooth(x);
    const T g = unlimited(x);
    return has_minimum && g < minimum ? minimum : g;
  }
  /// The gradient of x.
  TILE_FN T gradient(T x, T log_factor, T dg) const {
    const T factor = natural_exponential(log_factor);
    if (kind == GateKind::bounded) return factor * of_bounded(factor * x, dg);
    if (kind == GateKind::softplus)
      return -factor * ((has_threshold && x > threshold) || slope_forgotten ? T(1) : sigmoid_of(x)) * dg;
    return has_minimum && unlimited(x) < minimum && !passes_minimum ? T(0) : sigmoid_of(-x) * dg / normalizer;
  }
  /// And of the logarithm.
  TILE_FN T factor_gradient(T x, T log_factor, T dg) const {
    const T factor = natural_exponential(log_factor);
    if (kind == GateKind::logsigmoid) return T(0);
    if (kind == GateKind::softplus) return -(factor_forgotten ? T(1) : factor) * smooth(x) * dg;
    return (factor_forgotten ? T(1) : factor) * x * of_bounded(factor * x, dg);
  }

 private:
  TILE_FN T smooth(T x) const { return has_threshold && x > threshold ? x : softplus_of(x); }
  TILE_FN T unlimited(T x) const { return -softplus_of(-x) / normalizer; }
  TILE_FN T of_bounded(T y, T dg) const { return bound * sigmoid_of(y) * sigmoid_of(-y) * dg; }
};

/// The divisor of a row, from its squares n^2.
enum class NormKind { root, sum, max };

template <class T>
struct Norm {
  NormKind kind;
  T eps;

  TILE_FN T divisor(T squares) const {
    if (kind == NormKind::root) return square_root(squares + eps);
    const T n = square_root(squares);
    return kind == NormKind::sum ? n + eps : maxi(n, eps);
  }
  /// w of dx = dy / d - y <y, dy> w, y = x / d.
  TILE_FN T weight(T squares) const {
    const T n = square_root(squares), d = kind == NormKind::root ? divisor(squares) : n;
    return d == 0 || (kind == NormKind::max && n < eps) ? T(0) : 1 / d;
  }
};

/// A step Delta of u = dt + dt_bias.
template <class T>
struct StepSize {
  bool smooth, has_maximum;
  T minimum, maximum;
  bool passes_limits = false;  ///< a fault

  TILE_FN T size(T u) const {
    const T y = smooth ? softplus_of(u) : u;
    return y < minimum ? minimum : has_maximum && y > maximum ? maximum : y;
  }
  TILE_FN T gradient(T u, T dsize) const {
    const T y = smooth ? softplus_of(u) : u;
    const bool limited = y < minimum || (has_maximum && y > maximum);
    return limited && !passes_limits ? T(0) : smooth ? sigmoid_of(u) * dsize : dsize;
  }
};

}  // namespace assay::tile
