#pragma once
// One step of the delta rule backwards, for as many columns as there are lanes, with a bound on the error of each; G is
// the gradient of the state, c the cotangent of o times the scale.
//
//   dq += S_t do,  G += c q^T,  de = beta k^T G = dv,  dbeta += e . k^T G,  dk += beta e G - P de,  G <- D^T ...
//
// Each lane sums what all columns share, over its own columns in their order; total_columns adds the eight sums up.
// docs/error-analysis.md, section 4.1.
#include "oracles/multiword/lanes/delta_slab.hpp"

namespace assay::words::ASSAY_WORDS_ISA {

/// A place in the sums over columns: word w of the lanes of this slab.
template <int W>
ASSAY_INLINE Words<Lanes, W> load_sums(const double* p) {
  Words<Lanes, W> r;
  for (int w = 0; w < W; ++w) r.w[w] = load(p + static_cast<std::size_t>(w) * column_sums);
  return r;
}
template <int W>
ASSAY_INLINE void store_sums(double* p, const Words<Lanes, W>& x) {
  for (int w = 0; w < W; ++w) store(p + static_cast<std::size_t>(w) * column_sums, x.w[w]);
}
ASSAY_INLINE void add_error(double* sums, Lanes error) { store(sums, load(sums) + error); }

/// G += c q^T and dq += S_t do in one pass, and what that makes of k^T G.
template <int W>
ASSAY_INLINE StepBack<W> read_back(const DeltaAdjoint& s) {
  const Lanes cotangent = load(s.cotangent), sizes = abs(cotangent);
  const Words<Lanes, W> c = times(broadcast_words<W>(s.scale), cotangent);
  KeySum<W> reads;
  ColumnSize<W> column;
  each_key<W>(
      s.keys,
      [&](std::size_t i, std::size_t part) __attribute__((always_inline)) {
        double *row = s.adjoint + i * W * lane_count, *sum = s.of_query + i * W * column_sums;
        Words<Lanes, W> g = load_words<W>(row), query = load_sums<W>(sum);
        multiply_add<W, W>(query.w, cotangent, load_words<W>(s.after + i * W * lane_count).w);
        store_sums<W>(sum, query);
        multiply_add<W, W>(g.w, broadcast(s.q[i]), c.w);
        renormalise<W>(g.w);
        column.add(g);
        multiply_add<W, W>(reads.part[part].w, broadcast(s.k[i]), g.w);
        store_words<W>(row, g);
      },
      [&] { reads.settle(); });
  add_error(s.query_error, sizes * fma(broadcast(s.sum_error), load(s.after_size), load(s.after_error)));
  return back_of(*s.bound, s.beta, c, sizes, load(s.error), load(s.size), reads.total(), column.total());
}

/// dv, dbeta, and what dk will be off by.
template <int W, bool Corrected>
ASSAY_INLINE void gradients_back(const DeltaAdjoint& s, StepBack<W>& back) {
  const Lanes error = load(s.residual_error);
  const Words<Lanes, W> e = load_words<W>(s.residual);
  back.write = times(e, broadcast(s.beta));
  for (int w = 0; w < W; ++w) store(s.value[w], back.erased.w[w]);
  store(s.value_bound, back.whole);

  Words<Lanes, W> strength = load_sums<W>(s.of_strength);
  multiply_add_words<W>(strength.w, back.read.w, e.w);
  store_sums<W>(s.of_strength, strength);
  add_error(s.strength_error, strength_error(back, s.sum_error, e, error));
  add_error(s.key_error,
            key_error<W, Corrected>(*s.bound, back, s.sum_error, e, error, load(s.before_size), load(s.before_error)));
}

template <int W, DeltaDecay Decay, DeltaError Error>
inline void step_back(const DeltaAdjoint& s) {
  constexpr bool by_step = Decay == DeltaDecay::per_step, by_channel = Decay == DeltaDecay::per_channel,
                 corrected = Error != DeltaError::none, decayed = Error == DeltaError::decayed;
  StepBack<W> back = read_back<W>(s);
  gradients_back<W, corrected>(s, back);
  Words<Lanes, W> alpha, erased = back.erased;
  if constexpr (by_step) alpha = broadcast_words<W>(s.decay);
  if constexpr (by_step && decayed) erased = alpha * erased;
  const Words<Lanes, W> minus = -erased;

  ColumnSize<W> column;
  KeySum<W> decay;
  each_key<W>(
      s.keys,
      [&](std::size_t i, std::size_t part) __attribute__((always_inline)) {
        double *row = s.adjoint + i * W * lane_count, *sum = s.of_key + i * W * column_sums;
        Words<Lanes, W> g = load_words<W>(row), key = load_sums<W>(sum);
        const Words<Lanes, W> state = load_words<W>(s.before + i * W * lane_count);
        const Lanes k = broadcast(s.k[i]);
        multiply_add_words<W>(key.w, back.write.w, g.w);
        if constexpr (by_channel) alpha = broadcast_words<W>(s.decay + i * W);
        if constexpr (by_channel && decayed)
          multiply_add_words<W>(key.w, minus.w, (alpha * state).w);
        else if constexpr (corrected)
          multiply_add_words<W>(key.w, minus.w, state.w);
        store_sums<W>(sum, key);

        if constexpr (by_step && corrected && !decayed) multiply_add_words<W>(decay.part[part].w, g.w, state.w);
        if constexpr (by_step) g = product(alpha, g);
        if constexpr (corrected) multiply_add<W, W>(g.w, k, minus.w);
        if constexpr (by_step || corrected) renormalise<W>(g.w);
        if constexpr (by_channel) g = alpha * g;
        column.add(g);
        if constexpr (by_step && (decayed || !corrected)) multiply_add_words<W>(decay.part[part].w, g.w, state.w);
        if constexpr (by_channel) {
          double* to = s.of_decay + i * W * column_sums;
          Words<Lanes, W> channel = load_sums<W>(to);
          multiply_add_words<W>(channel.w, g.w, state.w);
          store_sums<W>(to, channel);
        }
        store_words<W>(row, g);
      },
      [&] { decay.settle(); });

  const Lanes error = error_before(*s.bound, back), size = column.total();
  const Lanes state_size = load(s.before_size), state_error = load(s.before_error);
  if constexpr (by_step) {
    store_sums<W>(s.of_decay, load_sums<W>(s.of_decay) + decay.total());
    constexpr bool before = corrected && !decayed;
    add_error(s.decay_error, decay_error(s.dot_error, before ? back.error : error, before ? back.size : size,
                                         state_size, state_error));
  }
  if constexpr (by_channel) add_error(s.decay_error, decay_error(s.sum_error, error, size, state_size, state_error));
  store(s.error, error);
  store(s.size, size);
}

template <int W>
void delta_back(const DeltaAdjoint& s) {
  with_kinds(s.decay_kind, s.error_kind, [&]<DeltaDecay Decay, DeltaError Error>() { step_back<W, Decay, Error>(s); });
}

/// The eight sums of a number, renormalised and added one after the other.
template <int W>
void total_columns(const ColumnTotals& s) {
  Words<Lanes, W> factor;
  if (s.factor != nullptr) factor = broadcast_words<W>(s.factor);
  for (std::size_t first = 0; first < s.n; first += lane_count) {
    double planes[W][column_sums][lane_count] = {};
    const std::size_t count = s.n - first < lane_count ? s.n - first : lane_count;
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t w = 0; w < W; ++w)
        for (std::size_t l = 0; l < column_sums; ++l) planes[w][l][i] = s.sums[((first + i) * W + w) * column_sums + l];
    Words<Lanes, W> sum = words<Lanes, W>(0);
    for (std::size_t l = 0; l < column_sums; ++l) {
      Words<Lanes, W> x;
      for (int w = 0; w < W; ++w) x.w[w] = load(planes[w][l]);
      renormalise<W>(x.w);
      sum = l == 0 ? x : sum + x;
    }
    double out[W + 1][lane_count];
    store(out[W], fma(broadcast(s.of_total), size_of(sum), broadcast(s.error)));
    if (s.factor != nullptr) sum = sum * factor;
    for (int w = 0; w < W; ++w) store(out[w], sum.w[w]);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t w = 0; w < W; ++w) s.word[w][first + i] = out[w][i];
      s.bound[first + i] = out[W][i];
    }
  }
}

template <int W>
constexpr DeltaKernels delta_kernels_of() {
  return {traced_slab<W>, delta_back<W>, total_columns<W>};
}
inline const DeltaKernels& delta_table(int words) {
  static constexpr DeltaKernels all[] = {delta_kernels_of<2>(), delta_kernels_of<3>(), delta_kernels_of<4>()};
  return all[words - 2];
}

}  // namespace assay::words::ASSAY_WORDS_ISA
