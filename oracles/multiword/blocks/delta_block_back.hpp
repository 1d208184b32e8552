#pragma once
// The way back of lanes/delta_adjoint.hpp by a block of threads, with its bits: a sum over columns is made by the one
// thread that updates these elements, and sums along the keys by one thread each. docs/error-analysis.md, section 4.1.
#include "oracles/multiword/blocks/delta_block.hpp"

namespace assay::words::ASSAY_WORDS_ISA {

template <int W>
class DeltaBlockBack : public DeltaBlock<W> {
 public:
  /// `close`: block_close numbers; `work`: the block's own of DeltaBlocks::work.
  ASSAY_INLINE DeltaBlockBack(const DeltaBlocks& arguments, std::size_t block, BlockColumns<W>& columns, double* close,
                              double* work)
      : DeltaBlock<W>(arguments, block, columns, close), block_(block), of_q_(close + all()) {
    const std::size_t sums = x.keys * W * column_sums;
    of_k_ = of_q_ + sums, of_channel_ = of_k_ + sums;
    adjoint_ = work + block_close(x.keys, W);  // NOLINT(cppcoreguidelines-prefer-member-initializer): in order of place
    firsts_ = adjoint_ + all();                // NOLINT(cppcoreguidelines-prefer-member-initializer)
    const std::size_t segments = (x.steps + x.length - 1) / x.length, n = x.length;
    trace_.state = firsts_ + segments * (all() + block_columns);
    trace_.error = trace_.state + (n + 1) * all();
    trace_.size = trace_.error + (n + 1) * block_columns;
    trace_.residual = trace_.size + (n + 1) * block_columns;
    trace_.residual_error = trace_.residual + n * W * block_columns;
  }

  ASSAY_FUNCTION void run() {
    if (!x.backward) return this->forward([](std::size_t) {});
    this->forward([&](std::size_t segment) { keep(segment); });
    double* adjoint = adjoint_;
    each_task(x.keys * block_columns, [&](std::size_t e) {
      const std::size_t i = e / block_columns, j = e % block_columns;
      const double last = j < columns_ ? x.final_cotangent[i * x.stride + at + j] : 0;
      put_words<W>(this->element(adjoint, i, j), block_columns, words<Lanes, W>(last));
    });
    each_task(columns_, [&](std::size_t j) { c.next_error[j] = 0, c.read_size[j] = x.final_size[at + j]; });
    for (std::size_t end = x.steps, begin = 0; end > 0; end = begin) {
      begin = (end - 1) / x.length * x.length;
      segment_back(begin, end);
    }
    each_task(x.keys * block_columns, [&](std::size_t e) {
      const std::size_t i = e / block_columns, j = e % block_columns;
      if (j < columns_)
        put_number<W>(x.first_state, i * x.stride + at + j, words_at<W>(this->element(adjoint, i, j), block_columns),
                      load(&c.next_error[j]));
    });
  }

 private:
  using DeltaBlock<W>::x;
  using DeltaBlock<W>::at;
  using DeltaBlock<W>::columns_;
  using DeltaBlock<W>::c;
  using DeltaBlock<W>::state;
  using DeltaBlock<W>::parts;
  ASSAY_INLINE std::size_t all() const { return block_state(x.keys, W); }
  ASSAY_INLINE bool by_step() const { return this->decays(DeltaDecay::per_step); }
  ASSAY_INLINE bool by_channel() const { return this->decays(DeltaDecay::per_channel); }
  ASSAY_INLINE bool corrected() const { return x.error_kind != DeltaError::none; }
  ASSAY_INLINE bool decayed() const { return x.error_kind == DeltaError::decayed; }
  /// Where <G, S> has G as it is before the decay.
  ASSAY_INLINE bool decays_first() const { return corrected() && !decayed(); }

  ASSAY_FUNCTION void copy(double* to, const double* from) {
    each_task(all(), [&](std::size_t e) { to[e] = from[e]; });
  }
  ASSAY_FUNCTION void keep(std::size_t segment) {
    double* to = firsts_ + segment * (all() + block_columns);
    each_task(columns_, [&](std::size_t j) { to[all() + j] = c.error[j]; });
    copy(to, state);
  }

  /// Steps [begin, end) once more, and back. Between segments the adjoint is kept beside, its errors and sizes in
  /// c.next_error and c.read_size.
  ASSAY_FUNCTION void segment_back(std::size_t begin, std::size_t end) {
    const double* from = firsts_ + begin / x.length * (all() + block_columns);
    copy(state, from);
    each_task(columns_, [&](std::size_t j) { c.error[j] = from[all() + j]; });
    this->steps(begin, end - begin, &trace_);
    copy(state, adjoint_);
    each_task(columns_, [&](std::size_t j) {
      c.error[j] = c.next_error[j], c.size[j] = c.read_size[j];
      scale_cotangent(end - 1, j);
    });
    for (std::size_t t = end; t-- > begin;) step_back(t, t - begin, t > begin);
    copy(adjoint_, state);
    each_task(columns_, [&](std::size_t j) { c.next_error[j] = c.error[j], c.read_size[j] = c.size[j]; });
  }

  ASSAY_INLINE void scale_cotangent(std::size_t t, std::size_t j) {
    put_words<W>(c.cotangent + j, block_columns,
                 times(broadcast_words<W>(x.scale), load(x.cotangent + t * x.stride + at + j)));
  }

  ASSAY_FUNCTION void step_back(std::size_t t, std::size_t i, bool more) {
    double *before = trace_.state + i * all(), *after = before + all();
    each_task(x.keys * column_sums, [&](std::size_t e) { read_in(t, e / column_sums, e % column_sums, after); });
    each_task((2 * parts + 1) * block_columns,
              [&](std::size_t e) { sum_read(t, e / block_columns, e % block_columns, before); });
    each_task(columns_, [&](std::size_t j) { column_back(t, i, j); });
    each_task(x.keys * column_sums, [&](std::size_t e) { undo(t, e / column_sums, e % column_sums, before); });
    each_task((parts + 1) * block_columns,
              [&](std::size_t e) { sum_undone(e / block_columns, e % block_columns, before); });
    each_task(columns_, [&](std::size_t j) {
      column_done(i, j);
      if (more) scale_cotangent(t - 1, j);
    });
    each_task(6 * column_sums, [&](std::size_t e) { sum_columns(i, e / column_sums, e % column_sums); });
    each_task(3 * x.keys + 1, [&](std::size_t e) { put_total(t, e); });
  }

  /// Sum l of dq += S_t do for key i, and G += c q^T of its elements.
  ASSAY_INLINE void read_in(std::size_t t, std::size_t i, std::size_t l, double* after) {
    Words<Lanes, W> query = words<Lanes, W>(0);
    for (std::size_t j = l; j < columns_; j += column_sums) {
      const Lanes cotangent = load(x.cotangent + t * x.stride + at + j);
      multiply_add<W, W>(query.w, cotangent, words_at<W>(this->element(after, i, j), block_columns).w);
      double* to = this->element(state, i, j);
      Words<Lanes, W> g = words_at<W>(to, block_columns);
      multiply_add<W, W>(g.w, broadcast(x.q[t * x.keys + i]), words_at<W>(c.cotangent + j, block_columns).w);
      renormalise<W>(g.w);
      put_words<W>(to, block_columns, g);
    }
    put_words<W>(of_q_ + i * W * column_sums + l, column_sums, query);
  }

  /// k^T G, the size of G, and <G, S> where that is before the decay.
  ASSAY_INLINE void sum_read(std::size_t t, std::size_t role, std::size_t j, double* before) {
    if (j >= columns_) return;
    if (role < parts) {
      const double* k = x.k + t * x.keys;
      put_words<W>(c.reads + role * W * block_columns + j, block_columns,
                   key_part<W>(x.keys, role, [&](Words<Lanes, W>& sum, std::size_t i) {
                     multiply_add<W, W>(sum.w, broadcast(k[i]),
                                        words_at<W>(this->element(state, i, j), block_columns).w);
                   }));
    } else if (role == 2 * parts) {
      store(&c.read_size[j], this->size_of_column(state, j));
    } else if (by_step() && decays_first()) {
      sum_decay(role - parts, j, before);
    }
  }
  ASSAY_INLINE void sum_decay(std::size_t part, std::size_t j, double* before) {
    put_words<W>(c.outs + part * W * block_columns + j, block_columns,
                 key_part<W>(x.keys, part, [&](Words<Lanes, W>& sum, std::size_t i) {
                   multiply_add_words<W>(sum.w, words_at<W>(this->element(state, i, j), block_columns).w,
                                         words_at<W>(this->element(before, i, j), block_columns).w);
                 }));
  }

  /// dv, and what the column's parts of all sums may be off by.
  ASSAY_INLINE void column_back(std::size_t t, std::size_t i, std::size_t j) {
    const AdjointBound& b = x.adjoint[t];
    const std::size_t row = i * block_columns + j;
    const Lanes sizes = abs(load(x.cotangent + t * x.stride + at + j));
    StepBack<W> back = back_of(b, x.beta[t], words_at<W>(c.cotangent + j, block_columns), sizes, load(&c.error[j]),
                               load(&c.size[j]), this->total(c.reads, j), load(&c.read_size[j]));
    const Words<Lanes, W> e = words_at<W>(trace_.residual + i * W * block_columns + j, block_columns);
    const Lanes error = load(trace_.residual_error + row);
    back.write = times(e, broadcast(x.beta[t]));
    put_number<W>(x.value, t * x.stride + at + j, back.erased, back.whole);

    const Lanes after_size = load(trace_.size + row + block_columns), size = load(trace_.size + row);
    const Lanes after_error = load(trace_.error + row + block_columns), of_state = load(trace_.error + row);
    store(&c.errors[j], sizes * fma(broadcast(x.sum_error), after_size, after_error));
    store(&c.errors[block_columns + j], corrected()
                                            ? key_error<W, true>(b, back, x.sum_error, e, error, size, of_state)
                                            : key_error<W, false>(b, back, x.sum_error, e, error, size, of_state));
    store(&c.errors[2 * block_columns + j], strength_error(back, x.sum_error, e, error));
    store(&c.next_error[j], error_before(b, back));
    store(&c.read_error[j], back.error);
    put_words<W>(c.read + j, block_columns, back.read);
    put_words<W>(c.write + j, block_columns, back.write);
    Words<Lanes, W> erased = back.erased;
    if (by_step() && decayed()) erased = this->decay_of(t, 0) * erased;
    put_words<W>(c.minus + j, block_columns, -erased);
  }

  /// Sum l of dk for key i, and of its decay's, and the step undone for its elements of G.
  ASSAY_INLINE void undo(std::size_t t, std::size_t i, std::size_t l, double* before) {
    Words<Lanes, W> key = words<Lanes, W>(0), channel = words<Lanes, W>(0), alpha = words<Lanes, W>(1);
    if (by_step() || by_channel()) alpha = this->decay_of(t, i);
    for (std::size_t j = l; j < columns_; j += column_sums) {
      double* to = this->element(state, i, j);
      Words<Lanes, W> g = words_at<W>(to, block_columns);
      const Words<Lanes, W> s = words_at<W>(this->element(before, i, j), block_columns),
                            minus = words_at<W>(c.minus + j, block_columns);
      multiply_add_words<W>(key.w, words_at<W>(c.write + j, block_columns).w, g.w);
      if (by_channel() && decayed())
        multiply_add_words<W>(key.w, minus.w, (alpha * s).w);
      else if (corrected())
        multiply_add_words<W>(key.w, minus.w, s.w);
      if (by_step()) g = product(alpha, g);
      if (corrected()) multiply_add<W, W>(g.w, broadcast(x.k[t * x.keys + i]), minus.w);
      if (by_step() || corrected()) renormalise<W>(g.w);
      if (by_channel()) {
        g = alpha * g;
        multiply_add_words<W>(channel.w, g.w, s.w);
      }
      put_words<W>(to, block_columns, g);
    }
    const std::size_t sum = i * W * column_sums + l;
    put_words<W>(of_k_ + sum, column_sums, key);
    if (by_channel()) put_words<W>(of_channel_ + sum, column_sums, channel);
  }

  ASSAY_INLINE void sum_undone(std::size_t role, std::size_t j, double* before) {
    if (j >= columns_) return;
    if (role == parts)
      store(&c.size[j], this->size_of_column(state, j));
    else if (by_step() && !decays_first())
      sum_decay(role, j, before);
  }

  ASSAY_INLINE void column_done(std::size_t i, std::size_t j) {
    const std::size_t row = i * block_columns + j;
    const Lanes error = load(&c.next_error[j]), size = load(&c.size[j]);
    const Lanes state_size = load(trace_.size + row), state_error = load(trace_.error + row);
    const bool first = by_step() && decays_first();
    store(&c.errors[3 * block_columns + j],
          decay_error(by_step() ? x.dot_error : x.sum_error, first ? load(&c.read_error[j]) : error,
                      first ? load(&c.read_size[j]) : size, state_size, state_error));
    if (by_step()) put_words<W>(c.decay + j, block_columns, this->total(c.outs, j));
    store(&c.error[j], error);
  }

  /// Sum l over columns: of four errors, of dbeta, and of the decay of a step.
  ASSAY_INLINE void sum_columns(std::size_t i, std::size_t what, std::size_t l) {
    Words<Lanes, W> sum = words<Lanes, W>(0);
    if (what < 4) {
      Lanes error = broadcast(0);
      for (std::size_t j = l; j < columns_; j += column_sums) error = error + load(&c.errors[what * block_columns + j]);
      store(&c.of_errors[what * column_sums + l], error);
    } else if (what == 4) {
      const double* residual = trace_.residual + i * W * block_columns;
      for (std::size_t j = l; j < columns_; j += column_sums)
        multiply_add_words<W>(sum.w, words_at<W>(c.read + j, block_columns).w,
                              words_at<W>(residual + j, block_columns).w);
      put_words<W>(c.of_strength + l, column_sums, sum);
    } else if (by_step()) {
      for (std::size_t j = l; j < columns_; j += column_sums) sum = sum + words_at<W>(c.decay + j, block_columns);
      put_words<W>(c.of_decay + l, column_sums, sum);
    }
  }

  /// Total number e of step t: of dq, dk, the decays' and dbeta's.
  ASSAY_INLINE void put_total(std::size_t t, std::size_t e) {
    const std::size_t i = e % x.keys, sum = i * W * column_sums, row = (block_ * x.steps + t) * x.keys + i;
    if (e == 3 * x.keys) {
      put_total(c.of_strength, nullptr, 1, 0, 2, x.of_beta, block_ * x.steps + t);
    } else if (e < x.keys) {
      put_total(of_q_ + sum, x.scale, x.of_query, x.of_query_total, 0, x.of_q, row);
    } else if (e < 2 * x.keys) {
      put_total(of_k_ + sum, nullptr, 1, 0, 1, x.of_k, row);
    } else if (by_channel()) {
      put_total(of_channel_ + sum, nullptr, 1, 0, 3, x.of_log_decay, row);
    } else if (by_step() && i == 0) {
      if (decays_first())
        put_total(c.of_decay, x.decay + t * W, x.of_decay[t], x.of_decay_total[t], 3, x.of_log_decay,
                  block_ * x.steps + t);
      else
        put_total(c.of_decay, nullptr, 1, 0, 3, x.of_log_decay, block_ * x.steps + t);
    }
  }
  /// As total_columns, of one number; its error is the sum of `errors` times `size`.
  ASSAY_INLINE void put_total(const double* sums, const double* factor, double size, double missed, std::size_t errors,
                              const BlockPlanes& to, std::size_t at_number) {
    Words<Lanes, W> sum = words<Lanes, W>(0);
    Lanes error = broadcast(0);
    for (std::size_t l = 0; l < column_sums; ++l) {
      Words<Lanes, W> part = words_at<W>(sums + l, column_sums);
      renormalise<W>(part.w);
      sum = l == 0 ? part : sum + part;
      error = error + load(&c.of_errors[errors * column_sums + l]);
    }
    const Lanes f = broadcast(size);
    const Lanes bound = error * f * broadcast(x.safety) + (f + broadcast(1)) * broadcast(x.underflow);
    const Lanes off = fma(broadcast(missed), size_of(sum), bound);
    if (factor != nullptr) sum = sum * broadcast_words<W>(factor);
    put_number<W>(to, at_number, sum, off);
  }

  std::size_t block_;
  double *of_q_, *of_k_, *of_channel_, *adjoint_, *firsts_;
  BlockTrace trace_;
};

}  // namespace assay::words::ASSAY_WORDS_ISA
