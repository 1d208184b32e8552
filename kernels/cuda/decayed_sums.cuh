#pragma once
// The launches of kernels/programs/decayed_sums.hpp on the device, shared by the rooms whose arithmetic it is.
#include <algorithm>
#include <vector>

#include "kernels/cuda/recurrence.cuh"
#include "kernels/programs/decayed_sums.hpp"

namespace assay::tile {

/// A chunk and the value columns of a block that fit in shared memory; `tile` is the CPU's with the same chunk.
struct SumChunk {
  int tile, length, values;
};
template <Format F>
constexpr SumChunk sum_chunk() {
  if (F == Format::fp64 || F == Format::tf32) return {1, 32, 64};
  return {0, 64, 64};
}
inline int sum_tile(const Problem&, Format precision) {
  return precision == Format::fp64 || precision == Format::tf32 ? 1 : 0;
}

/// Arrays of a forward and, with cotangents, a backward pass; the passes themselves allocate nothing. `Divided`: o
/// holds sums that a denominator will divide.
template <class P, Format F, int D, bool Decays, bool Divided = false>
struct DeviceSums {
  static constexpr int C = sum_chunk<F>().length, DV = sum_chunk<F>().values, stages = 2;
  using B = MmaBlock<P, C / 16>;

  const RecurrenceShape& shape;
  int chunks, blocks;
  const DeviceArray &q, &k, &v, &decay, &scale, &initial_state;
  bool logs = true;  ///< `decay` holds logs
  DeviceArray o, final_state, states, adjoints, updates, totals, dv, dinitial_state;

  DeviceSums(const RecurrenceShape& s, const DeviceArray& queries, const DeviceArray& keys, const DeviceArray& values,
             const DeviceArray& decays, const DeviceArray& scales, const DeviceArray& initial, bool with_gradients)
      : shape(s),
        chunks(imax(1, ceil_div(s.len, C))),
        blocks(ceil_div(values.cols(), DV)),
        q(queries),
        k(keys),
        v(values),
        decay(decays),
        scale(scales),
        initial_state(initial),
        o(Divided ? result<P, "W">(s.heads, s.len, v.cols()) : result<P, "out">(s.heads, s.len, v.cols())),
        final_state(result<P, "end">(s.heads, s.key_dim, v.cols())),
        states(result<P, "Sc">(s.heads, chunks * D, v.cols())),
        adjoints(result<P, "Sc">(s.heads, with_gradients ? chunks * D : 0, v.cols())),
        updates(result<P, "W">(s.heads, chunks * D, v.cols())),
        totals(result<P, "scale">(s.heads, Decays ? chunks * D : 0, 1)),  // gates, like the scale
        dv(result<P, "out">(s.heads, with_gradients ? s.len : 0, v.cols())),
        dinitial_state(result<P, "end">(s.heads, with_gradients ? s.key_dim : 0, v.cols())) {}

  BlockGrid grid() const { return {shape.heads, chunks * blocks}; }

  void forward() {
    pass<false>(k, v, initial_state, states, final_state);
    launch<ChunkOutputs<B, C, D, DV, Decays, Divided>, B, 1>(
        {in<B>(q), in<B>(k), in<B>(v), in<B>(states), row_in<B>(decay, logs), row_in<B>(scale), out<B>(o), shape.group,
         shape.shared_heads, blocks},
        grid());
  }
  /// Parts are written to dq, dk and dlog_decay, after `first` others of each head.
  void backward(const DeviceArray& o_cotangent, const DeviceArray& final_cotangent, DeviceArray& dq, DeviceArray& dk,
                DeviceArray& dlog_decay, int first = 0) {
    pass<true>(q, o_cotangent, final_cotangent, adjoints, dinitial_state);
    launch<ChunkGradients<B, C, D, DV, Decays>, B, 1>(
        {in<B>(q), in<B>(k), in<B>(v), in<B>(states), in<B>(adjoints), in<B>(o_cotangent), row_in<B>(decay, logs),
         row_in<B>(scale), out<B>(dq), out<B>(dk), out<B>(dv), row_out<B>(dlog_decay), shape.group, blocks,
         dq.heads() / shape.heads, first},
        grid());
  }

 private:
  template <bool Backward>
  void pass(const DeviceArray& left, const DeviceArray& right, const DeviceArray& start, DeviceArray& all,
            DeviceArray& end) {
    launch<ChunkUpdates<B, C, D, DV, Decays, Backward>, B, 1>(
        {in<B>(left), in<B>(right), row_in<B>(decay, logs), row_in<B>(scale), out<B>(updates), row_out<B>(totals),
         shape.len, shape.group, shape.shared_heads, blocks},
        grid());
    launch<StatePass<B, C, D, DV, stages, Decays, Backward>, B, 1>(
        {in<B>(start), in<B>(updates), row_in<B>(totals), out<B>(all), out<B>(end), shape.len},
        BlockGrid{shape.heads, blocks});
  }
};

/// Inputs and cotangents that all rooms read as they are.
template <class P>
struct SumInputs {
  DeviceArray q, k, v, initial_state, o_cotangent, final_cotangent;
  SumInputs(const RecurrenceShape& s, const Problem& p)
      : q(upload<P, "Q">(p.inputs, "q", s.shared_heads, s.len, s.key_dim)),
        k(upload<P, "K">(p.inputs, "k", s.shared_heads, s.len, s.key_dim)),
        v(upload<P, "V">(p.inputs, "v", s.heads, s.len, s.value_dim)),
        initial_state(upload<P, "S0">(p.inputs, "initial_state", s.heads, s.key_dim, s.value_dim)),
        o_cotangent(upload<P, "dO">(p.cotangents, "o", s.heads, s.len, s.value_dim)),
        final_cotangent(upload<P, "S0">(p.cotangents, "final_state", s.heads, s.key_dim, s.value_dim)) {}
};

/// Parts of the gradients of shared inputs, and their sums.
template <class P>
struct SumGradients {
  DeviceArray dq_parts, dk_parts, dlog_decay_parts, dq, dk, dlog_decay;
  SumGradients(const RecurrenceShape& s, int parts, bool decays)
      : dq_parts(result<P, "part">(s.heads * parts, s.len, s.key_dim)),
        dk_parts(result<P, "part">(s.heads * parts, s.len, s.key_dim)),
        dlog_decay_parts(result<P, "scale">(s.heads * parts, decays ? s.len : 0, 1)),
        dq(result<P, "out">(s.shared_heads, s.len, s.key_dim)),
        dk(result<P, "out">(s.shared_heads, s.len, s.key_dim)),
        dlog_decay(result<P, "scale">(s.heads, decays ? s.len : 0, 1)) {}
  void sum() {
    sum_parts<P, "part", "out">(dq_parts, dq);
    sum_parts<P, "part", "out">(dk_parts, dk);
    sum_parts<P, "scale", "scale">(dlog_decay_parts, dlog_decay);  // gates, like the scale
  }
};

/// `number` for every token of every head, as a gate.
template <class P, FixedString S>
DeviceArray for_all_tokens(const RecurrenceShape& s, double number) {
  return DeviceArray(format_of<P, S>, s.heads, s.len, 1,
                     std::vector<double>(static_cast<std::size_t>(s.heads) * s.len, number));
}

/// The answer of a room under decays, the gradients of log_decay by token in `dlog_decay`.
template <class P, Format F, int D>
Answer decayed_answer(const RecurrenceShape& shape, const Problem& problem, const SiteTable& sites,
                      const DeviceArray& decay, bool logs, GpuTimes* times, Array& dlog_decay) {
  const bool with_gradients = !problem.cotangents.empty();
  const SumInputs<P> x(shape, problem);
  const DeviceArray scale = for_all_tokens<P, "scale">(shape, shape.scale<double>(problem, Policy::of(sites, F)));
  DeviceSums<P, F, D, true> sums(shape, x.q, x.k, x.v, decay, scale, x.initial_state, with_gradients);
  sums.logs = logs;
  const double forward = run_timed(times, [&] { sums.forward(); });
  if (times != nullptr) times->forward = forward;
  const int heads = shape.heads, K = shape.key_dim, V = shape.value_dim;
  Answer answer{{{"o", download(sums.o, array_shape(shape, heads, shape.len, V))},
                 {"final_state", download(sums.final_state, array_shape(shape, heads, K, V))}},
                {}};
  if (!with_gradients) return answer;
  SumGradients<P> d(shape, sums.blocks, true);
  const double backward = run_timed(times, [&] {
    sums.backward(x.o_cotangent, x.final_cotangent, d.dq_parts, d.dk_parts, d.dlog_decay_parts);
    d.sum();
  });
  if (times != nullptr) times->backward = backward;
  answer.gradients = {{"q", download(d.dq, array_shape(shape, shape.shared_heads, shape.len, K))},
                      {"k", download(d.dk, array_shape(shape, shape.shared_heads, shape.len, K))},
                      {"v", download(sums.dv, array_shape(shape, heads, shape.len, V))},
                      {"initial_state", download(sums.dinitial_state, array_shape(shape, heads, K, V))}};
  dlog_decay = download(d.dlog_decay, token_shape(shape));
  return answer;
}

}  // namespace assay::tile
