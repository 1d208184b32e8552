#pragma once
// Arithmetic of eight numbers of W words at a time, each with a radius: no number is further from its middle than that.
// docs/error-analysis.md, section 7.
//
// A pack is [word][8], then the radii [8]. The radius of a result is what the radii of the operands become, plus what
// the operation rounds away, in terms of the operands' sizes (sum.hpp: size_of).
#include "oracles/words/exp.hpp"
#include "oracles/words/kernels.hpp"
#include "oracles/words/sum.hpp"

namespace assay::words::ASSAY_WORDS_ISA {

/// As many of a pack's eight numbers as there are lanes.
template <int W>
struct Balls {
  Words<Lanes, W> middle;
  Lanes radius, size;
};

template <int W>
ASSAY_INLINE Balls<W> load_balls(const double* pack, int first) {
  Balls<W> a;
  for (int w = 0; w < W; ++w) a.middle.w[w] = load(pack + w * pack_size + first);
  a.radius = load(pack + W * pack_size + first);
  a.size = size_of(a.middle);
  return a;
}

/// Rounded up: at most seven operations on non-negative numbers formed `radius`.
template <int W>
ASSAY_INLINE void store_balls(double* pack, int first, const Words<Lanes, W>& middle, Lanes radius) {
  for (int w = 0; w < W; ++w) store(pack + w * pack_size + first, middle.w[w]);
  store(pack + W * pack_size + first, radius * broadcast(1 + 0x1p-49));
}

/// Exact. Sums that cancel can leave the leading word empty after one pass; a size then tells nothing.
template <int W>
ASSAY_INLINE Words<Lanes, W> settled(Words<Lanes, W> x) {
  if constexpr (W > 2) renormalise<W>(x.w);
  return x;
}

/// What underflows of one operation may add up to, but nothing if `smallest` is zero: then the result is exact.
ASSAY_INLINE Lanes underflow_of(Lanes smallest) {
  return lesser(smallest * broadcast(1024), broadcast(pack_underflow));
}

template <int W>
inline void add_balls(double* r, const double* a, const double* b, const PackConstants& c) {
  for (int i = 0; i < pack_size; i += lane_count) {
    const Balls<W> x = load_balls<W>(a, i), y = load_balls<W>(b, i);
    const Lanes sizes = x.size + y.size;
    store_balls<W>(r, i, settled(x.middle + y.middle),
                   fma(broadcast(c.add), sizes, x.radius + y.radius) + underflow_of(sizes));
  }
}

template <int W>
inline void subtract_balls(double* r, const double* a, const double* b, const PackConstants& c) {
  for (int i = 0; i < pack_size; i += lane_count) {
    const Balls<W> x = load_balls<W>(a, i), y = load_balls<W>(b, i);
    const Lanes sizes = x.size + y.size;
    store_balls<W>(r, i, settled(x.middle - y.middle),
                   fma(broadcast(c.add), sizes, x.radius + y.radius) + underflow_of(sizes));
  }
}

/// What the radii of x and y make of that of x y, and how much an underflow may add.
template <int W>
ASSAY_INLINE Lanes product_radius(const Balls<W>& x, const Balls<W>& y) {
  return fma(x.size, y.radius, x.radius * (y.size + y.radius)) +
         underflow_of(lesser(x.size + x.radius, y.size + y.radius));
}

template <int W>
inline void multiply_balls(double* r, const double* a, const double* b, const PackConstants& c) {
  for (int i = 0; i < pack_size; i += lane_count) {
    const Balls<W> x = load_balls<W>(a, i), y = load_balls<W>(b, i);
    store_balls<W>(r, i, x.middle * y.middle, fma(broadcast(c.multiply) * x.size, y.size, product_radius(x, y)));
  }
}

/// r += a b, or r -= a b.
template <int W, bool Minus>
inline void multiply_add_balls(double* r, const double* a, const double* b, const PackConstants& c) {
  for (int i = 0; i < pack_size; i += lane_count) {
    const Balls<W> x = load_balls<W>(a, i), y = load_balls<W>(b, i), z = load_balls<W>(r, i);
    Words<Lanes, W> sum = z.middle;
    multiply_add_words<W>(sum.w, (Minus ? -x.middle : x.middle).w, y.middle.w);
    renormalise<W>(sum.w);
    const Lanes rounding = broadcast(c.multiply_add) * fma(x.size, y.size, z.size);
    store_balls<W>(r, i, settled(sum), z.radius + product_radius(x, y) + rounding);
  }
}

/// exp of middles within [-500, 500] and radii up to 1; anything else is unspecified.
template <int W>
inline void exp_balls(double* r, const double* a, const PackConstants& c) {
  for (int i = 0; i < pack_size; i += lane_count) {
    const Balls<W> x = load_balls<W>(a, i);
    const Words<Lanes, W> power = exp(x.middle);
    // |exp(d) - 1| <= d + d^2 up to d = 1.79.
    const Lanes growth = fma(x.radius, x.radius, x.radius);
    // The rounded power may be the smaller one: one more rounding for the inherited radius.
    store_balls<W>(r, i, power, size_of(power) * fma(growth, broadcast(1 + 0x1p-40), broadcast(c.exp)));
  }
}

template <int W>
constexpr PackKernels pack_kernels() {
  return {add_balls<W>, subtract_balls<W>, multiply_balls<W>, multiply_add_balls<W, false>, multiply_add_balls<W, true>,
          exp_balls<W>};
}

}  // namespace assay::words::ASSAY_WORDS_ISA
