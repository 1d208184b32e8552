#pragma once
// exp of a number of W words, W = 2, 3, 4; the relative error bound is constants(W).exp, derived in
// docs/error-analysis.md, section 3.
//
// x = k L + r, L = ln 2 / 65536, k = 65536 n + 256 i + j:  exp(x) = 2^n 2^(i/256) 2^(j/65536) exp(r), |r| < 5.29e-6.
#include <cstring>

#include "oracles/multiword/lanes/exp_table.hpp"
#include "oracles/multiword/lanes/kernels.hpp"
#include "oracles/multiword/lanes/sum.hpp"

namespace assay::words::ASSAY_WORDS_ISA {

/// Degree of the Taylor polynomial: its remainder r^(N+1)/(N+1)! stays below u^W / 64.
template <int W>
inline constexpr int exp_degree = W == 2   ? 5
                                  : W == 3 ? 8
                                           : 10;

/// r = x - k L.
template <int W, class V>
ASSAY_INLINE Words<V, W> exp_reduced(const Words<V, W>& x, const V& minus_k, const V* step) {
  V e[W + 1];
  for (int i = 0; i < W; ++i) e[i] = x.w[i];
  e[W] = splat<V>(0);
  multiply_add<W + 1, W + 1>(e, minus_k, step);
  sweep<W + 1, 0>(e);
  // Known because k is the nearest integer; without this the cancellation would look like an error.
  assume_at_most(e[0], exp_reduced_limit);
  assume_at_most(e[1], exp_reduced_limit * 0x1p-53);
  renormalise<W + 1, 1>(e);
  leave_out(e[0], e[W], splat<V>(1));
  Words<V, W> r;
  for (int i = 0; i < W; ++i) r.w[i] = e[i];
  return r;
}

/// sum of r^j / j!, j = 0 ... N, by Horner's rule.
template <int W, class V>
ASSAY_INLINE Words<V, W> exp_polynomial(const Words<V, W>& r, const V (*inverse_factorial)[4]) {
  Words<V, W> p;
  for (int i = 0; i < W; ++i) p.w[i] = inverse_factorial[exp_degree<W>][i];
  for (int j = exp_degree<W> - 1; j >= 0; --j) {
    Words<V, W> next;
    for (int i = 0; i < W; ++i) next.w[i] = inverse_factorial[j][i];
    multiply_add_words<W>(next.w, p.w, r.w);
    renormalise<W>(next.w);
    p = next;
  }
  return p;
}

/// exp(x) for finite |x| <= 500, the value of x being within 2^-40 of its first word; anything else is unspecified.
/// Larger arguments could lose their last words to underflow.
template <int W>
ASSAY_INLINE Words<Lanes, W> exp(const Words<Lanes, W>& x) {
  const ExpTable& table = exp_table();
  const Lanes shifter = broadcast(0x1.8p52);
  const Lanes k = (x.w[0] * broadcast(exp_steps_per_unit) + shifter) - shifter;

  Lanes step[W + 1];
  for (int i = 0; i <= W; ++i) step[i] = broadcast(table.step[i]);
  const Words<Lanes, W> r = exp_reduced<W>(x, broadcast(0) - k, step);

  Lanes inverse_factorial[exp_degree<W> + 1][4];
  for (int j = 0; j <= exp_degree<W>; ++j)
    for (int i = 0; i < W; ++i) inverse_factorial[j][i] = broadcast(table.inverse_factorial[j][i]);
  const Words<Lanes, W> p = exp_polynomial<W>(r, inverse_factorial);

  double steps[lane_count], coarse[W][lane_count], fine[W][lane_count], scale[lane_count];
  store(steps, k);
  for (int l = 0; l < lane_count; ++l) {
    // Out of range arguments must not index out of the tables.
    const std::int64_t n = std::fabs(steps[l]) < 0x1p26 ? static_cast<std::int64_t>(steps[l]) : 0;
    const auto bits = static_cast<std::uint64_t>((n >> 16) + 1023) << 52;
    std::memcpy(&scale[l], &bits, sizeof bits);
    for (int i = 0; i < W; ++i) {
      coarse[i][l] = table.coarse[(n >> 8) & 255][i];
      fine[i][l] = table.fine[n & 255][i];
    }
  }
  Words<Lanes, W> a, b;
  for (int i = 0; i < W; ++i) a.w[i] = load(coarse[i]), b.w[i] = load(fine[i]);
  a = a * b * p;
  for (int i = 0; i < W; ++i) a.w[i] = a.w[i] * load(scale);
  return a;
}

/// out[i] = exp(x[i]) for one x per lane, 0 if below -500; layout [i][W].
template <int W>
void exp_of_doubles(const double* x, double* out) {
  Words<Lanes, W> a = words<Lanes, W>(0);
  double clamped[lane_count], planes[W][lane_count];
  for (int i = 0; i < lane_count; ++i) clamped[i] = x[i] < exp_lowest ? 0 : x[i];
  a.w[0] = load(clamped);
  a = exp<W>(a);
  for (int w = 0; w < W; ++w) store(planes[w], a.w[w]);
  for (int i = 0; i < lane_count; ++i)
    for (int w = 0; w < W; ++w) out[i * W + w] = x[i] < exp_lowest ? 0 : planes[w][i];
}

}  // namespace assay::words::ASSAY_WORDS_ISA
