#pragma once
// The launches of kernels/programs/channel_sums.hpp on the device, shared by the rooms whose arithmetic it is.
#include "kernels/cuda/decayed_sums.cuh"
#include "kernels/programs/channel_sums.hpp"

namespace assay::tile {

/// A chunk and the value columns of a block that fit in shared memory beside six wide tiles of a chunk's channels;
/// `tile` is the CPU's with the same chunk.
template <Format F>
constexpr SumChunk channel_chunk() {
  if (F == Format::fp64) return {2, 16, 32};
  if (F == Format::tf32) return {2, 16, 64};
  return {1, 32, 64};
}
inline int channel_tile(const Problem&, Format precision) {
  return precision == Format::fp64 || precision == Format::tf32 ? 2 : 1;
}

/// Arrays of a forward and, with cotangents, a backward pass.
template <class P, Format F, int D>
struct DeviceChannelSums {
  static constexpr int C = channel_chunk<F>().length, DV = channel_chunk<F>().values;
  /// Narrow blocks of a pass take short steps, and its columns do not touch each other.
  static constexpr int pass_DV = 16, stages = 3;
  using B = MmaBlock<P, C / 16>;

  const RecurrenceShape& shape;
  int chunks, blocks, parts;
  SumInputs<P> x;
  DeviceArray log_decay, scale;
  DeviceArray o, final_state, states, totals;
  DeviceArray updates, du, adjoints, dinitial_state;
  DeviceArray dq_parts, dk_parts, dlog_decay_parts, dbeta_parts, dq, dk, dv, dlog_decay;

  DeviceChannelSums(const RecurrenceShape& s, const Problem& problem, double read_scale)
      : shape(s),
        chunks(imax(1, ceil_div(s.len, C))),
        blocks(ceil_div(s.value_dim, DV)),
        parts(problem.cotangents.empty() ? 0 : s.heads * blocks),
        x(s, problem),
        log_decay(upload<P, "decay">(problem.inputs, "log_decay", s.heads, s.len, s.key_dim)),
        scale(for_all_tokens<P, "scale">(s, read_scale)),
        o(result<P, "out">(s.heads, s.len, s.value_dim)),
        final_state(result<P, "end">(s.heads, s.key_dim, s.value_dim)),
        states(result<P, "Sc">(s.heads, chunks * D, s.value_dim)),
        totals(result<P, "decay">(s.heads, chunks * D, 1)),
        updates(result<P, "W">(s.heads, chunks * D, s.value_dim)),
        du(result<P, "dU">(s.heads, parts > 0 ? s.len : 0, s.value_dim)),
        adjoints(result<P, "Sc">(s.heads, parts > 0 ? chunks * D : 0, s.value_dim)),
        dinitial_state(result<P, "end">(s.heads, s.key_dim, s.value_dim)),
        dq_parts(result<P, "part">(parts, s.len, s.key_dim)),
        dk_parts(result<P, "part">(parts, s.len, s.key_dim)),
        dlog_decay_parts(result<P, "dlog_decay">(parts, s.len, s.key_dim)),
        dbeta_parts(result<P, "decay">(parts, s.len, 1)),
        dq(result<P, "out">(s.shared_heads, s.len, s.key_dim)),
        dk(result<P, "out">(s.shared_heads, s.len, s.key_dim)),
        dv(result<P, "out">(s.heads, s.len, s.value_dim)),
        dlog_decay(result<P, "dlog_decay">(s.heads, s.len, s.key_dim)) {}

  BlockGrid by_chunk() const { return {shape.heads, chunks * blocks}; }
  BlockGrid by_block() const { return {shape.heads, ceil_div(shape.value_dim, pass_DV)}; }

  /// o, when the states and what is written are known.
  void read(const DeviceArray& u) {
    launch<ChannelOutputs<B, C, D, DV>, B, 1>({in<B>(x.q), in<B>(x.k), in<B>(u), in<B>(states), in<B>(log_decay),
                                               row_in<B>(scale), out<B>(o), shape.group, shape.shared_heads, blocks},
                                              by_chunk());
  }
  /// What the cotangents of o give those of the states and of what is written.
  void read_backward() {
    launch<ChannelReads<B, C, D, DV>, B, 1>({in<B>(x.q), in<B>(x.k), in<B>(x.o_cotangent), in<B>(log_decay),
                                             row_in<B>(scale), out<B>(updates), out<B>(du), shape.group, blocks},
                                            by_chunk());
  }
  /// Gradients, when the adjoints are known too; with errors, their gradients and the write strengths.
  template <bool Errors>
  void gradients(const DeviceArray& u, const DeviceArray& errors, const DeviceArray& beta) {
    launch<ChannelGradients<B, C, D, DV, Errors>, B, 1>(
        {in<B>(x.q), in<B>(x.k), in<B>(u), in<B>(states), in<B>(adjoints), in<B>(x.o_cotangent), in<B>(log_decay),
         row_in<B>(scale), in<B>(du), in<B>(x.v), in<B>(errors), row_in<B>(beta), out<B>(dq_parts), out<B>(dk_parts),
         out<B>(dv), out<B>(dlog_decay_parts), row_out<B>(dbeta_parts), shape.group, blocks},
        by_chunk());
    sum_parts<P, "part", "out">(dq_parts, dq);
    sum_parts<P, "part", "out">(dk_parts, dk);
    sum_parts<P, "dlog_decay", "dlog_decay">(dlog_decay_parts, dlog_decay);
  }
  Arrays outputs() const {
    return {{"o", download(o, array_shape(shape, shape.heads, shape.len, shape.value_dim))},
            {"final_state", download(final_state, array_shape(shape, shape.heads, shape.key_dim, shape.value_dim))}};
  }
  Arrays all_gradients() const {
    const int K = shape.key_dim, V = shape.value_dim;
    return {{"q", download(dq, array_shape(shape, shape.shared_heads, shape.len, K))},
            {"k", download(dk, array_shape(shape, shape.shared_heads, shape.len, K))},
            {"v", download(dv, array_shape(shape, shape.heads, shape.len, V))},
            {"log_decay", download(dlog_decay, array_shape(shape, shape.heads, shape.len, K))},
            {"initial_state", download(dinitial_state, array_shape(shape, shape.heads, K, V))}};
  }
};

}  // namespace assay::tile
