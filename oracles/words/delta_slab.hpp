#pragma once
// A few columns of a delta-rule state, one per lane, through the whole sequence, with a bound on the error of each.
//
//   R = D_t S,   e = v_t - P^T p_t  (P = R: decayed, P = S: undecayed, none),   S <- R + beta_t k_t e^T,   o_t = scale
//   S^T q_t
//
// Columns never meet, so a slab stays in the first-level cache. docs/error-analysis.md, section 4.
#include "oracles/words/exp.hpp"
#include "oracles/words/kernels.hpp"
#include "oracles/words/passes.hpp"
#include "oracles/words/sum.hpp"

namespace assay::words::ASSAY_WORDS_ISA {

template <int W>
ASSAY_INLINE Words<Lanes, W> load_words(const double* p) {
  Words<Lanes, W> r;
  for (int w = 0; w < W; ++w) r.w[w] = load(p + static_cast<std::size_t>(w) * lane_count);
  return r;
}
template <int W>
ASSAY_INLINE void store_words(double* p, const Words<Lanes, W>& x) {
  for (int w = 0; w < W; ++w) store(p + static_cast<std::size_t>(w) * lane_count, x.w[w]);
}
/// sum over words of (c[w] / u^w)^2, word by word: the square of a size in the 2-norm.
template <int W>
ASSAY_INLINE void add_squares(Lanes* squares, const Lanes* c) {
  squares[0] = fma(c[0], c[0], squares[0]);
  double unit = 1;
#pragma GCC unroll 4
  for (int w = 1; w < W; ++w) {
    unit *= 0x1p53;
    const Lanes scaled = c[w] * broadcast(unit);
    squares[w] = fma(scaled, scaled, squares[w]);
  }
}
/// The size of a column, rounded up, squares that underflow included.
template <int W>
ASSAY_INLINE Lanes column_size(const Lanes* squares) {
  Lanes sum = squares[W - 1];
  for (int w = W - 2; w >= 0; --w) sum = sum + squares[w];
  return fma(sqrt(sum), broadcast(1 + 0x1p-30), broadcast(0x1p-530));
}

template <int W, DeltaDecay Decay, DeltaError Error>
inline void delta_steps(const DeltaSlab& s) {
  const std::size_t K = s.keys;
  Lanes squares[W];
  for (int w = 0; w < W; ++w) squares[w] = broadcast(0);
  for (std::size_t i = 0; i < K; ++i) add_squares<W>(squares, load_words<W>(s.state + i * W * lane_count).w);
  Lanes size = column_size<W>(squares), error = load(s.error);
  const Words<Lanes, W> scale = broadcast_words<W>(s.scale);

  for (std::size_t t = 0; t < s.steps; ++t) {
    const double *q = s.q + t * K, *k = s.k + t * K, *p = s.p + t * K;
    const DeltaBound& bound = s.bound[t];

    Words<Lanes, W> alpha, read = words<Lanes, W>(0);
    if constexpr (Decay == DeltaDecay::per_step) alpha = broadcast_words<W>(s.decay + t * W);
    if constexpr (Decay != DeltaDecay::none || Error != DeltaError::none)
      for (std::size_t i = 0; i < K; ++i) {
        double* row = s.state + i * W * lane_count;
        Words<Lanes, W> x = load_words<W>(row);
        if constexpr (Error == DeltaError::undecayed) multiply_add<W, W>(read.w, broadcast(p[i]), x.w);
        if constexpr (Decay == DeltaDecay::per_channel) alpha = broadcast_words<W>(s.decay + (t * K + i) * W);
        if constexpr (Decay != DeltaDecay::none) {
          x = alpha * x;
          store_words<W>(row, x);
        }
        if constexpr (Error == DeltaError::decayed) multiply_add<W, W>(read.w, broadcast(p[i]), x.w);
        if constexpr (Error != DeltaError::none)
          if ((i + 1) % terms_per_renormalisation == 0) renormalise<W>(read.w);
      }
    if constexpr (Error != DeltaError::none) renormalise<W>(read.w);

    const Lanes v = load(s.v + t * s.value_stride);
    const Words<Lanes, W> write = times(plus(-read, v), broadcast(s.beta[t]));

    Words<Lanes, W> out = words<Lanes, W>(0);
    for (int w = 0; w < W; ++w) squares[w] = broadcast(0);
    for (std::size_t i = 0; i < K; ++i) {
      double* row = s.state + i * W * lane_count;
      Words<Lanes, W> x = load_words<W>(row);
      multiply_add<W, W>(x.w, broadcast(k[i]), write.w);
      renormalise<W>(x.w);
      store_words<W>(row, x);
      add_squares<W>(squares, x.w);
      multiply_add<W, W>(out.w, broadcast(q[i]), x.w);
      if ((i + 1) % terms_per_renormalisation == 0) renormalise<W>(out.w);
    }
    renormalise<W>(out.w);

    // Everything here is a sum of non-negative products; the coefficients have room for its roundings.
    const Lanes residual = abs(v) + size_of(read);
    Lanes e = fma(broadcast(bound.growth), error, broadcast(bound.floor));
    e = fma(broadcast(bound.of_state), size, e);
    e = fma(broadcast(bound.of_residual), residual, e);
    error = fma(broadcast(bound.of_write), size_of(write), e);
    size = column_size<W>(squares);
    const Lanes read_error = fma(broadcast(s.read_error), size, error);
    const Words<Lanes, W> o = out * scale;
    for (int w = 0; w < W; ++w) store(s.out[w] + t * s.value_stride, o.w[w]);
    const Lanes scaling = fma(broadcast(s.scale_error), size_of(out), broadcast(bound.out_floor));
    store(s.out_bound + t * s.value_stride, fma(broadcast(bound.out_of_state), read_error, scaling));
  }
  store(s.error, error);
}

template <int W, DeltaDecay Decay>
inline void delta_steps_of(const DeltaSlab& s) {
  switch (s.error_form) {
    case DeltaError::none:
      return delta_steps<W, Decay, DeltaError::none>(s);
    case DeltaError::undecayed:
      return delta_steps<W, Decay, DeltaError::undecayed>(s);
    case DeltaError::decayed:
      // Without decay the two are one.
      return delta_steps < W, Decay, Decay == DeltaDecay::none ? DeltaError::undecayed : DeltaError::decayed > (s);
  }
}

template <int W>
void delta_slab(const DeltaSlab& s) {
  switch (s.decay_form) {
    case DeltaDecay::none:
      return delta_steps_of<W, DeltaDecay::none>(s);
    case DeltaDecay::per_step:
      return delta_steps_of<W, DeltaDecay::per_step>(s);
    case DeltaDecay::per_channel:
      return delta_steps_of<W, DeltaDecay::per_channel>(s);
  }
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
