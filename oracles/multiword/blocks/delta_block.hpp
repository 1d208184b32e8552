#pragma once
// The slab of lanes/delta_slab.hpp by a block of threads: every sum along the keys is made by one thread, in the slab's
// order, and elements are updated by all, so that the bits are the slab's. Threads meet between phases; compiled for
// the CPU, a phase is a loop over threads. docs/error-analysis.md, section 4.
#include "oracles/multiword/blocks/delta_arguments.hpp"
#include "oracles/multiword/lanes/delta_column.hpp"

namespace assay::words::ASSAY_WORDS_ISA {

inline constexpr std::size_t block_threads = 256;

#ifndef ASSAY_WORDS_ON_DEVICE
/// Tasks of a phase may be done in any order: tests try the other one.
inline thread_local bool last_task_first = false;
#endif

/// Calls f(i) for every i below n, by all threads; none goes on before all are done.
template <class F>
ASSAY_INLINE void each_task(std::size_t n, F&& f) {
#ifdef ASSAY_WORDS_ON_DEVICE
  for (std::size_t i = threadIdx.x; i < n; i += block_threads) f(i);
  __syncthreads();
#else
  for (std::size_t i = 0; i < n; ++i) f(last_task_first ? n - 1 - i : i);
#endif
}

/// Words of a number, `step` apart.
template <int W>
ASSAY_INLINE Words<Lanes, W> words_at(const double* p, std::size_t step) {
  Words<Lanes, W> r;
  for (std::size_t w = 0; w < W; ++w) r.w[w] = load(p + w * step);
  return r;
}
template <int W>
ASSAY_INLINE void put_words(double* p, std::size_t step, const Words<Lanes, W>& x) {
  for (std::size_t w = 0; w < W; ++w) store(p + w * step, x.w[w]);
}
/// Number i of a plane and its bound.
template <int W>
ASSAY_INLINE void put_number(const BlockPlanes& to, std::size_t i, const Words<Lanes, W>& x, Lanes bound) {
  put_words<W>(to.data + i, to.plane, x);
  store(to.data + W * to.plane + i, bound);
}

/// As many sums along the keys as KeySum has.
template <int W>
inline constexpr std::size_t key_parts = delta_parts(W);

/// Part `part` of KeySum: add(sum, i) for its keys.
template <int W, class F>
ASSAY_INLINE Words<Lanes, W> key_part(std::size_t keys, std::size_t part, F&& add) {
  constexpr std::size_t parts = key_parts<W>;
  const std::size_t whole = keys / parts;
  Words<Lanes, W> sum = words<Lanes, W>(0);
  for (std::size_t n = 0; n < whole; ++n) {
    add(sum, n * parts + part);
    if ((n + 1) % terms_per_renormalisation == 0) renormalise<W>(sum.w);
  }
  for (std::size_t i = whole * parts; part == 0 && i < keys; ++i) add(sum, i);
  renormalise<W>(sum.w);
  return sum;
}

/// The state of a block's columns: one number each, or words of one.
template <int W>
struct BlockColumns {
  static constexpr std::size_t parts = key_parts<W>, n = block_columns;
  double error[n], size[n], write[W * n];
  double reads[parts * W * n], outs[parts * W * n];  ///< outs: of decays, on the way back
  // For the way back alone:
  double cotangent[W * n], minus[W * n], read[W * n], decay[W * n];
  double next_error[n], read_error[n], read_size[n];
  double errors[4 * n];  ///< of their parts of dq, dk, dbeta and the decays'
  double of_errors[4 * column_sums], of_strength[W * column_sums], of_decay[W * column_sums];
};

/// The trace that the steps of a segment leave behind, as DeltaTrace, with block_columns for lanes.
struct BlockTrace {
  double *state, *error, *size, *residual, *residual_error;
};

/// The way forward of a block's columns.
template <int W>
class DeltaBlock {
 public:
  static constexpr std::size_t parts = key_parts<W>, columns_step = block_columns;

  ASSAY_INLINE DeltaBlock(const DeltaBlocks& arguments, std::size_t block, BlockColumns<W>& columns, double* close)
      : x(arguments),
        at(block * block_columns),
        columns_(arguments.stride - at < block_columns ? arguments.stride - at : block_columns),
        c(columns),
        state(close) {}

  /// All steps, `keep(segment)` before each segment.
  template <class F>
  ASSAY_FUNCTION void forward(F&& keep) {
    each_task(x.keys * block_columns, [&](std::size_t e) {
      const std::size_t i = e / block_columns, j = e % block_columns;
      const double first = x.initial_state != nullptr && j < columns_ ? x.initial_state[i * x.stride + at + j] : 0;
      put_words<W>(element(state, i, j), columns_step, words<Lanes, W>(first));
    });
    each_task(block_columns, [&](std::size_t j) { c.error[j] = 0; });
    for (std::size_t t = 0; t < x.steps; t += x.length) {
      keep(t / x.length);
      steps(t, x.steps - t < x.length ? x.steps - t : x.length, nullptr);
    }
    each_task(x.keys * block_columns, [&](std::size_t e) {
      const std::size_t i = e / block_columns, j = e % block_columns;
      if (j < columns_)
        put_number<W>(x.final_state, i * x.stride + at + j, words_at<W>(element(state, i, j), columns_step),
                      load(&c.error[j]));
    });
  }

  /// `count` steps from `first` on, from `state` and c.error; what they leave behind goes to `trace`, if there is one,
  /// and there are no outputs.
  ASSAY_FUNCTION void steps(std::size_t first, std::size_t count, const BlockTrace* trace) {
    const std::size_t end = first + count;
    if (trace != nullptr) each_task(block_state(x.keys, W), [&](std::size_t e) { trace->state[e] = state[e]; });
    look(first, first < end, false);
    for (std::size_t t = first; t < end; ++t) {
      each_task(columns_, [&](std::size_t j) {
        if (trace == nullptr && t > first) put_output(t - 1, j);
        begin_step(t, t - first, j, trace);
      });
      double* after = trace == nullptr ? nullptr : trace->state + (t + 1 - first) * block_state(x.keys, W);
      each_task(x.keys * block_columns, [&](std::size_t e) { update(t, e / block_columns, e % block_columns, after); });
      look(t + 1, t + 1 < end, trace == nullptr);
    }
    each_task(columns_, [&](std::size_t j) {
      if (trace == nullptr && count > 0) put_output(end - 1, j);
      if (trace != nullptr) {
        trace->error[count * block_columns + j] = c.error[j];
        trace->size[count * block_columns + j] = c.size[j];
      }
    });
  }

 protected:
  /// Where element (i, j) of a state has its first word.
  static ASSAY_INLINE double* element(double* states, std::size_t i, std::size_t j) {
    return states + i * W * block_columns + j;
  }
  ASSAY_INLINE bool decays(DeltaDecay kind) const { return x.decay_kind == kind; }
  /// The decay of step t, of key i where every channel has its own.
  ASSAY_INLINE Words<Lanes, W> decay_of(std::size_t t, std::size_t i) const {
    return broadcast_words<W>(x.decay + (decays(DeltaDecay::per_step) ? t : t * x.keys + i) * W);
  }
  /// The sum of its parts for column j.
  static ASSAY_INLINE Words<Lanes, W> total(const double* sums, std::size_t j) {
    Words<Lanes, W> sum = words_at<W>(sums + j, columns_step);
    for (std::size_t part = 1; part < parts; ++part)
      sum = sum + words_at<W>(sums + part * W * block_columns + j, columns_step);
    return sum;
  }
  ASSAY_INLINE Lanes size_of_column(double* states, std::size_t j) const {
    ColumnSize<W> column;
    for (std::size_t i = 0; i < x.keys; ++i) column.add(words_at<W>(element(states, i, j), columns_step));
    return column.total();
  }

  const DeltaBlocks& x;
  std::size_t at, columns_;
  BlockColumns<W>& c;
  double* state;

 private:
  /// Sums along the columns as they are before step t: what it reads, if there is one, what the step before puts out,
  /// if that is wanted, and their sizes.
  ASSAY_FUNCTION void look(std::size_t t, bool reads, bool outs) {
    reads = reads && x.error_kind != DeltaError::none;
    each_task((2 * parts + 1) * block_columns, [&](std::size_t task) {
      const std::size_t j = task % block_columns, role = task / block_columns;
      if (j >= columns_) return;
      if (role == 2 * parts) {
        store(&c.size[j], size_of_column(state, j));
      } else if (role < parts) {
        if (reads) put_words<W>(c.reads + role * W * block_columns + j, columns_step, read(t, role, j));
      } else if (outs) {
        const double* q = x.q + (t - 1) * x.keys;
        put_words<W>(c.outs + (role - parts) * W * block_columns + j, columns_step,
                     key_part<W>(x.keys, role - parts, [&](Words<Lanes, W>& sum, std::size_t i) {
                       multiply_add<W, W>(sum.w, broadcast(q[i]), words_at<W>(element(state, i, j), columns_step).w);
                     }));
      }
    });
  }
  ASSAY_INLINE Words<Lanes, W> read(std::size_t t, std::size_t part, std::size_t j) const {
    const bool decayed = decays(DeltaDecay::per_channel) && x.error_kind == DeltaError::decayed;
    const double* k = x.k + t * x.keys;
    return key_part<W>(x.keys, part, [&](Words<Lanes, W>& sum, std::size_t i) {
      Words<Lanes, W> s = words_at<W>(element(state, i, j), columns_step);
      if (decayed) s = decay_of(t, i) * s;
      multiply_add<W, W>(sum.w, broadcast(k[i]), s.w);
    });
  }
  ASSAY_INLINE void begin_step(std::size_t t, std::size_t i, std::size_t j, const BlockTrace* trace) {
    Words<Lanes, W> read = words<Lanes, W>(0);
    if (x.error_kind != DeltaError::none) read = total(c.reads, j);
    if (decays(DeltaDecay::per_step) && x.error_kind == DeltaError::decayed) read = decay_of(t, 0) * read;
    const StepWrite<W> step = step_write(read, load(x.v + t * x.stride + at + j), x.beta[t]);
    const Lanes error = load(&c.error[j]), size = load(&c.size[j]);
    if (trace != nullptr) {
      put_words<W>(trace->residual + i * W * block_columns + j, columns_step, step.residual);
      const std::size_t row = i * block_columns + j;
      store(trace->residual_error + row, residual_error(x.residual[t], error, size, step.sizes));
      store(trace->error + row, error), store(trace->size + row, size);
    }
    put_words<W>(c.write + j, columns_step, step.write);
    store(&c.error[j], error_after(x.bound[t], step, error, size));
  }
  ASSAY_INLINE void update(std::size_t t, std::size_t i, std::size_t j, double* after) {
    if (j >= columns_) return;
    double* to = element(state, i, j);
    Words<Lanes, W> s = words_at<W>(to, columns_step);
    if (decays(DeltaDecay::per_channel)) s = decay_of(t, i) * s;
    if (decays(DeltaDecay::per_step)) s = product(decay_of(t, 0), s);
    multiply_add<W, W>(s.w, broadcast(x.k[t * x.keys + i]), words_at<W>(c.write + j, columns_step).w);
    renormalise<W>(s.w);
    put_words<W>(to, columns_step, s);
    if (after != nullptr) put_words<W>(element(after, i, j), columns_step, s);
  }
  ASSAY_INLINE void put_output(std::size_t t, std::size_t j) {
    const Words<Lanes, W> out = total(c.outs, j), o = out * broadcast_words<W>(x.scale);
    put_number<W>(x.o, t * x.stride + at + j, o,
                  out_error(x.bound[t], x.read_error, x.scale_error, out, load(&c.error[j]), load(&c.size[j])));
  }
};

}  // namespace assay::words::ASSAY_WORDS_ISA
