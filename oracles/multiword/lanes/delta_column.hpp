#pragma once
// Effects of steps of the delta rule, forwards and backwards, on a column as a whole: their writes, and the errors of
// its numbers. Everything here is a sum of non-negative products; the coefficients have room for its roundings.
// docs/error-analysis.md, sections 4 and 4.1.
#include "oracles/multiword/lanes/delta_kernels.hpp"
#include "oracles/multiword/lanes/sum.hpp"

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
/// The size of a column of renormalised numbers in the 2-norm: the root of the sum of (c[w] / u^w)^2.
template <int W>
struct ColumnSize {
  // |c[1]| <= u |c[0]| after a renormalisation of two words: twice the square of the first is enough.
  static constexpr int counted = W == 2 ? 1 : W;
  Lanes squares[counted];

  ASSAY_INLINE ColumnSize() {
    for (Lanes& sum : squares) sum = broadcast(0);
  }
  ASSAY_INLINE void add(const Words<Lanes, W>& x) {
    double unit = 1;
    ASSAY_UNROLL
    for (int w = 0; w < counted; ++w) {
      const Lanes scaled = w == 0 ? x.w[0] : x.w[w] * broadcast(unit);
      squares[w] = fma(scaled, scaled, squares[w]);
      unit *= 0x1p53;
    }
  }
  /// Rounded up, squares that underflow included.
  ASSAY_INLINE Lanes total() const {
    Lanes sum = squares[counted - 1];
    for (int w = counted - 2; w >= 0; --w) sum = sum + squares[w];
    if constexpr (counted < W) sum = sum + sum;
    return fma(sqrt(sum), broadcast(1 + 0x1p-30), broadcast(0x1p-530));
  }
};

/// The write of a step to a column.
template <int W>
struct StepWrite {
  Words<Lanes, W> residual, write;  ///< e, beta e
  Lanes sizes;                      ///< |v| + size(P^T k)
};
template <int W>
ASSAY_INLINE StepWrite<W> step_write(const Words<Lanes, W>& read, Lanes v, double beta) {
  StepWrite<W> s;
  s.residual = plus(-read, v), s.write = times(s.residual, broadcast(beta));
  s.sizes = abs(v) + size_of(read);
  return s;
}

/// The error of a column after a step, from its error and size before.
template <int W>
ASSAY_INLINE Lanes error_after(const DeltaBound& bound, const StepWrite<W>& step, Lanes error, Lanes size) {
  Lanes e = fma(broadcast(bound.growth), error, broadcast(bound.floor));
  e = fma(broadcast(bound.of_state), size, e);
  e = fma(broadcast(bound.of_residual), step.sizes, e);
  return fma(broadcast(bound.of_write), size_of(step.write), e);
}
ASSAY_INLINE Lanes residual_error(const ResidualBound& bound, Lanes error, Lanes size, Lanes sizes) {
  Lanes e = fma(broadcast(bound.of_error), error, broadcast(pack_underflow));
  e = fma(broadcast(bound.of_state), size, e);
  return fma(broadcast(bound.of_sizes), sizes, e);
}
/// The error of scale times `out`, which was read off a column of that error and size.
template <int W>
ASSAY_INLINE Lanes out_error(const DeltaBound& bound, double of_size, double of_scale, const Words<Lanes, W>& out,
                             Lanes error, Lanes size) {
  const Lanes read_error = fma(broadcast(of_size), size, error);
  const Lanes scaling = fma(broadcast(of_scale), size_of(out), broadcast(bound.out_floor));
  return fma(broadcast(bound.out_of_state), read_error, scaling);
}

/// The columns' numbers and their errors, while a step goes back.
template <int W>
struct StepBack {
  Words<Lanes, W> read, erased, write;  ///< k^T G, beta k^T G, beta e
  Lanes error, size;                    ///< of G with the read at t
  Lanes own;                            ///< of `erased`, without G's error
  Lanes whole;                          ///< with it
  Lanes read_whole;                     ///< of `read`
};

/// From c, |cotangent|, the column's error and size before the step back, k^T G, and the size of G with the read at t.
template <int W>
ASSAY_INLINE StepBack<W> back_of(const AdjointBound& b, double beta, const Words<Lanes, W>& c, Lanes sizes, Lanes error,
                                 Lanes size, const Words<Lanes, W>& read, Lanes size_with_read) {
  StepBack<W> back;
  const Lanes floor = broadcast(b.floor);
  Lanes e = fma(broadcast(b.read_state), size, error + floor);
  e = fma(broadcast(b.read), size_of(c), e);
  back.error = fma(broadcast(b.read_cotangent), sizes, e);
  back.size = size_with_read;
  back.read = read;
  back.erased = times(back.read, broadcast(beta));
  const Lanes own = fma(broadcast(b.reading), back.size, floor), carried = broadcast(b.key) * back.error;
  back.read_whole = own + carried;
  back.own = fma(broadcast(b.beta), own, fma(broadcast(b.product), size_of(back.read), floor));
  back.whole = fma(broadcast(b.beta), carried, back.own);
  return back;
}

/// The error of the column's part of dbeta; e is off by `error`.
template <int W>
ASSAY_INLINE Lanes strength_error(const StepBack<W>& back, double rounding, const Words<Lanes, W>& e, Lanes error) {
  const Lanes of_e = size_of(e), of_read = size_of(back.read);
  return fma(back.read_whole, of_e + error, of_read * fma(broadcast(rounding), of_e, error));
}

/// The error of the column's part of dk, where the state before has that size and error.
template <int W, bool Corrected>
ASSAY_INLINE Lanes key_error(const AdjointBound& b, const StepBack<W>& back, double sum_error, const Words<Lanes, W>& e,
                             Lanes error, Lanes size, Lanes state) {
  const Lanes rounding = broadcast(sum_error), of_e = size_of(e);
  const Lanes of_write = size_of(back.write), floor = broadcast(b.floor);
  const Lanes write_error = fma(broadcast(b.beta), error, fma(broadcast(b.product), of_e, floor));
  Lanes keys = fma(of_write, fma(rounding, back.size, back.error), write_error * (back.size + back.error));
  if constexpr (Corrected) {
    const Lanes all = size + state, erased = broadcast(b.erased);
    Lanes of_state = fma(broadcast(b.erased_error), all, erased * state);
    of_state = fma(rounding * erased, size, of_state);
    keys = fma(size_of(back.erased), of_state, fma(back.whole * erased, all, keys));
  }
  return keys;
}

/// The error of <G, S> where G is off by `error` and of size `size`, and the state before has that size and error.
ASSAY_INLINE Lanes decay_error(double rounding, Lanes error, Lanes size, Lanes state_size, Lanes state_error) {
  return fma(error, state_size + state_error, size * fma(broadcast(rounding), state_size, state_error));
}

/// The error of G once the step is undone.
template <int W>
ASSAY_INLINE Lanes error_before(const AdjointBound& b, const StepBack<W>& back) {
  Lanes e = fma(broadcast(b.growth), back.error, broadcast(b.floor));
  e = fma(broadcast(b.of_state), back.size, e);
  e = fma(broadcast(b.of_own), back.own, e);
  return fma(broadcast(b.of_size), size_of(back.erased), e);
}

}  // namespace assay::words::ASSAY_WORDS_ISA
