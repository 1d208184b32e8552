#pragma once
// A few columns of a delta-rule state, one per lane, through the whole sequence, with a bound on the error of each.
//
//   R = D_t S,   e = v_t - P^T k_t  (P = R: decayed, P = S: undecayed, none),   S <- R + beta_t k_t e^T,   o_t = scale
//   S^T q_t
//
// Columns never meet, so a slab stays in the first-level cache. A decay of the whole state is part of its update, S <-
// alpha S + ..., and e takes alpha (S^T k); decays by channel are applied a step ahead, so that R is what is stored.
// docs/error-analysis.md, section 4.
#include "oracles/multiword/lanes/delta_column.hpp"
#include "oracles/multiword/lanes/kernels.hpp"

namespace assay::words::ASSAY_WORDS_ISA {

/// A sum of products along the keys, in `parts` sums of every parts-th term that do not wait for each other.
template <int W>
struct KeySum {
  static constexpr std::size_t parts = delta_parts(W);
  Words<Lanes, W> part[parts];

  ASSAY_INLINE KeySum() {
    for (auto& p : part) p = words<Lanes, W>(0);
  }
  ASSAY_INLINE void settle() {
    for (auto& p : part) renormalise<W>(p.w);
  }
  ASSAY_INLINE Words<Lanes, W> total() {
    settle();
    Words<Lanes, W> sum = part[0];
    for (std::size_t i = 1; i < parts; ++i) sum = sum + part[i];
    return sum;
  }
};

/// Reads element i of a column before the update of step t, and decays it where each channel has a decay of its own.
template <int W, DeltaDecay Decay, DeltaError Error>
ASSAY_INLINE void look_ahead(const DeltaSlab& s, std::size_t t, std::size_t i, Words<Lanes, W>& x,
                             Words<Lanes, W>& read) {
  const std::size_t at = t * s.keys + i;
  if constexpr (Decay == DeltaDecay::per_channel) x = broadcast_words<W>(s.decay + at * W) * x;
  if constexpr (Error != DeltaError::none) multiply_add<W, W>(read.w, broadcast(s.k[at]), x.w);
}

/// Calls f(i, part) for every element of a column, and `settle` often enough for sums in KeySum::parts parts.
template <int W, class F, class Settle>
ASSAY_INLINE void each_key(std::size_t keys, F&& f, Settle&& settle) {
  constexpr std::size_t parts = KeySum<W>::parts, run = parts * terms_per_renormalisation;
  std::size_t i = 0;
  for (; i + parts <= keys; i += parts) {
    ASSAY_UNROLL
    for (std::size_t part = 0; part < parts; ++part) f(i + part, part);
    if ((i + parts) % run == 0) settle();
  }
  for (; i < keys; ++i) f(i, 0);
}

/// The residual of step t, |v| + size(P^T k) = `sizes`, and what the column was before.
template <int W>
ASSAY_INLINE void leave_residual(const DeltaTrace& trace, std::size_t t, const Words<Lanes, W>& residual, Lanes sizes,
                                 Lanes error, Lanes size) {
  store_words<W>(trace.residual + t * W * lane_count, residual);
  store(trace.residual_error + t * lane_count, residual_error(trace.bound[t], error, size, sizes));
  store(trace.error + t * lane_count, error);
  store(trace.size + t * lane_count, size);
}

/// One pass over the column for every step: the update, the output's sum, and the next step's look ahead. `Traced`:
/// what the steps leave behind goes to `trace`, and there are no outputs.
template <int W, DeltaDecay Decay, DeltaError Error, bool Traced>
ASSAY_FUNCTION void delta_steps(const DeltaSlab& s, [[maybe_unused]] const DeltaTrace* trace) {
  constexpr bool by_step = Decay == DeltaDecay::per_step;
  const std::size_t K = s.keys;
  ColumnSize<W> column;
  Lanes error = load(s.error);
  KeySum<W> reads;
  each_key<W>(
      K,
      [&](std::size_t i, std::size_t part) {
        double* row = s.state + i * W * lane_count;
        Words<Lanes, W> x = load_words<W>(row);
        column.add(x);
        if constexpr (Traced) store_words<W>(trace->state + i * W * lane_count, x);
        if (s.steps > 0) look_ahead<W, Decay, Error>(s, 0, i, x, reads.part[part]);
        if (s.steps > 0) store_words<W>(row, x);
      },
      [&] { reads.settle(); });
  Lanes size = column.total();
  const Words<Lanes, W> scale = broadcast_words<W>(s.scale);

  for (std::size_t t = 0; t < s.steps; ++t) {
    const double *q = s.q + t * K, *k = s.k + t * K;
    const DeltaBound& bound = s.bound[t];
    const bool last = t + 1 == s.steps;

    Words<Lanes, W> alpha, read = reads.total();
    if constexpr (by_step) alpha = broadcast_words<W>(s.decay + t * W);
    if constexpr (by_step && Error == DeltaError::decayed) read = alpha * read;
    const Lanes v = load(s.v + t * s.value_stride);
    const StepWrite<W> step = step_write(read, v, s.beta[t]);

    KeySum<W> outs;
    reads = KeySum<W>();
    column = ColumnSize<W>();
    const auto update = [&](std::size_t i, std::size_t part, const auto& next) __attribute__((always_inline)) {
      double* row = s.state + i * W * lane_count;
      Words<Lanes, W> x = load_words<W>(row);
      if constexpr (by_step) x = product(alpha, x);
      multiply_add<W, W>(x.w, broadcast(k[i]), step.write.w);
      renormalise<W>(x.w);
      column.add(x);
      if constexpr (Traced)
        store_words<W>(trace->state + ((t + 1) * K + i) * W * lane_count, x);
      else
        multiply_add<W, W>(outs.part[part].w, broadcast(q[i]), x.w);
      next(i, part, x);
      store_words<W>(row, x);
    };
    const auto settle = [&] { outs.settle(), reads.settle(); };
    const auto ahead = [&](std::size_t i, std::size_t part, Words<Lanes, W> & x) __attribute__((always_inline)) {
      look_ahead<W, Decay, Error>(s, t + 1, i, x, reads.part[part]);
    };
    const auto stay = [](std::size_t, std::size_t, Words<Lanes, W>&) {};
    if (last)
      each_key<W>(
          K, [&](std::size_t i, std::size_t part) __attribute__((always_inline)) { update(i, part, stay); }, settle);
    else
      each_key<W>(
          K, [&](std::size_t i, std::size_t part) __attribute__((always_inline)) { update(i, part, ahead); }, settle);

    if constexpr (Traced) leave_residual<W>(*trace, t, step.residual, step.sizes, error, size);
    error = error_after(bound, step, error, size);
    size = column.total();
    if constexpr (Traced) continue;
    const Words<Lanes, W> out = outs.total(), o = out * scale;
    for (int w = 0; w < W; ++w) store(s.out[w] + t * s.value_stride, o.w[w]);
    store(s.out_bound + t * s.value_stride, out_error(bound, s.read_error, s.scale_error, out, error, size));
  }
  store(s.error, error);
  if constexpr (Traced) {
    store(trace->error + s.steps * lane_count, error);
    store(trace->size + s.steps * lane_count, size);
  }
}

/// Calls f.operator()<Decay, Error>() for those kinds; without decay the two errors are one, and decays by channel have
/// one of them alone.
template <DeltaDecay Decay, class F>
ASSAY_FUNCTION void with_error(DeltaError error, F&& f) {
  constexpr DeltaError other = Decay == DeltaDecay::per_channel ? DeltaError::decayed : DeltaError::undecayed;
  constexpr DeltaError decayed = Decay == DeltaDecay::none ? other : DeltaError::decayed;
  switch (error) {
    case DeltaError::none:
      return f.template operator()<Decay, DeltaError::none>();
    case DeltaError::undecayed:  // NOLINT(bugprone-branch-clone): the same without decay
      return f.template operator()<Decay, other>();
    case DeltaError::decayed:
      return f.template operator()<Decay, decayed>();
  }
}
template <class F>
ASSAY_FUNCTION void with_kinds(DeltaDecay decay, DeltaError error, F&& f) {
  switch (decay) {
    case DeltaDecay::none:
      return with_error<DeltaDecay::none>(error, f);
    case DeltaDecay::per_step:
      return with_error<DeltaDecay::per_step>(error, f);
    case DeltaDecay::per_channel:
      return with_error<DeltaDecay::per_channel>(error, f);
  }
}

template <int W>
ASSAY_FUNCTION void delta_slab(const DeltaSlab& s) {
  with_kinds(s.decay_kind, s.error_kind,
             [&]<DeltaDecay Decay, DeltaError Error>() { delta_steps<W, Decay, Error, false>(s, nullptr); });
}
template <int W>
ASSAY_FUNCTION void traced_slab(const DeltaSlab& s, const DeltaTrace& trace) {
  with_kinds(s.decay_kind, s.error_kind,
             [&]<DeltaDecay Decay, DeltaError Error>() { delta_steps<W, Decay, Error, true>(s, &trace); });
}

}  // namespace assay::words::ASSAY_WORDS_ISA
