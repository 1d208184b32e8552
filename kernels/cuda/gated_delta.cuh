#pragma once
// The launches of kernels/programs/gated_delta.hpp on the device, shared by the rooms whose arithmetic it is.
#include "kernels/cuda/recurrence.cuh"
#include "kernels/programs/gated_delta.hpp"

namespace assay::tile {

/// A chunk and the value columns of a block, in a pass over the states and in what is done for all chunks at once.
/// `tile` is the CPU's with the same chunk. Narrow blocks of a pass take short steps, and columns do not touch each
/// other there. In the gradients of what columns share, each block rounds its own part, so bits agree with the CPU's
/// only where one block holds all values.
struct Chunk {
  int tile, length, pass_values, values;
};
template <Format F>
constexpr Chunk chunk_of() {
  if (F == Format::fp64) return {1, 32, 16, 16};
  if (F == Format::tf32) return {1, 32, 16, 64};
  return {0, 64, 16, 64};
}

/// Arrays of a forward and a backward pass; the passes themselves allocate nothing. P is the contract in format F.
template <class P, Format F, int D, bool Predicts, bool WithGradients>
struct DeviceDelta {
  static constexpr Chunk sizes = chunk_of<F>();
  static constexpr int C = sizes.length, DV = sizes.values, pass_DV = sizes.pass_values, stages = 3;
  using B = MmaBlock<P, C / 16>;
  using Real = typename P::Real;

  const RecurrenceShape& shape;
  int lag, chunks, blocks, parts, key_parts;
  Real scale;
  bool logs = true;  ///< decays are given as logs
  DeviceArray q, k, v, p, initial_state, o_cotangent, final_cotangent;
  DeviceArray o, final_state, states, inverse, u;
  DeviceArray to_row, to_error, to_end, totals;  ///< products of decays
  DeviceArray du, updates, errors, adjoints;
  DeviceArray dq_parts, dk_parts, dp_parts, dbeta_parts, dlog_decay_parts;
  DeviceArray dq, dk, dp, dbeta, dlog_decay, dv, dinitial_state;

  /// `keys`: the keys that are written; `more`: parts of their gradient for each head that another program writes.
  DeviceDelta(const RecurrenceShape& s, const Problem& problem, DeviceArray keys, double read_scale, int errors_lag,
              int more = 0)
      : shape(s),
        lag(errors_lag),
        chunks(imax(1, ceil_div(s.len, C))),
        blocks(ceil_div(s.value_dim, DV)),
        parts(WithGradients ? blocks : 0),
        key_parts(WithGradients ? blocks + more : 0),
        scale(real<P>(read_scale)),
        q(upload<P, "Q">(problem.inputs, "q", s.shared_heads, s.len, s.key_dim)),
        k(std::move(keys)),
        v(upload<P, "V">(problem.inputs, "v", s.heads, s.len, s.value_dim)),
        // An operand like the key; rules without a prediction key have no site for it.
        p(upload<P, "K">(problem.inputs, "p", s.shared_heads, Predicts ? s.len : 0, s.key_dim)),
        initial_state(upload<P, "S0">(problem.inputs, "initial_state", s.heads, s.key_dim, s.value_dim)),
        o_cotangent(upload<P, "dO">(problem.cotangents, "o", s.heads, s.len, s.value_dim)),
        final_cotangent(upload<P, "dfinal">(problem.cotangents, "final_state", s.heads, s.key_dim, s.value_dim)),
        o(result<P, "out">(s.heads, s.len, s.value_dim)),
        final_state(result<P, "final">(s.heads, s.key_dim, s.value_dim)),
        states(result<P, "H">(s.heads, chunks * D, s.value_dim)),
        inverse(result<P, "Tc">(s.heads, chunks * C, C)),
        u(result<P, "Uc">(s.heads, s.len, s.value_dim)),
        to_row(result<P, "decay">(s.heads, s.len, 1)),
        to_error(result<P, "decay">(s.heads, s.len, 1)),
        to_end(result<P, "decay">(s.heads, s.len, 1)),
        totals(result<P, "decay">(s.heads, chunks * D, 1)),
        du(result<P, "dU">(s.heads, WithGradients ? s.len : 0, s.value_dim)),
        updates(result<P, "G">(s.heads, WithGradients ? chunks * D : 0, s.value_dim)),
        errors(result<P, "E">(s.heads, WithGradients ? s.len : 0, s.value_dim)),
        adjoints(result<P, "G">(s.heads, WithGradients ? chunks * D : 0, s.value_dim)),
        dq_parts(result<P, "part">(s.heads * parts, s.len, s.key_dim)),
        dk_parts(result<P, "part">(s.heads * key_parts, s.len, s.key_dim)),
        dp_parts(result<P, "part">(s.heads * parts, Predicts ? s.len : 0, s.key_dim)),
        dbeta_parts(result<P, "dbeta">(s.heads * parts, s.len, 1)),
        dlog_decay_parts(result<P, "dlog_decay">(s.heads * parts, s.len, 1)),
        dq(result<P, "out">(s.shared_heads, s.len, s.key_dim)),
        dk(result<P, "out">(s.shared_heads, s.len, s.key_dim)),
        dp(result<P, "out">(s.shared_heads, Predicts ? s.len : 0, s.key_dim)),
        dbeta(result<P, "dbeta">(s.heads, s.len, 1)),
        dlog_decay(result<P, "dlog_decay">(s.heads, s.len, 1)),
        dv(result<P, "out">(s.heads, s.len, s.value_dim)),
        dinitial_state(result<P, "initial">(s.heads, s.key_dim, s.value_dim)) {}

  BlockGrid by_chunk() const { return {shape.heads, chunks * blocks}; }
  BlockGrid by_block() const { return {shape.heads, ceil_div(shape.value_dim, pass_DV)}; }

  void forward(const DeviceArray& beta, const DeviceArray& decay) {
    launch<GatedDeltaSystem<B, C, D, Predicts>, B, 1>(
        {in<B>(k), in<B>(p), row_in<B>(beta), row_in<B>(decay, logs), out<B>(inverse), row_out<B>(to_row),
         row_out<B>(to_error), row_out<B>(to_end), row_out<B>(totals), shape.len, lag, shape.group, shape.shared_heads},
        BlockGrid{shape.heads, chunks});
    launch<GatedDeltaStates<B, C, D, pass_DV, stages, Predicts>, B, 1>(
        {in<B>(k), in<B>(v), in<B>(p), in<B>(inverse), row_in<B>(beta), row_in<B>(to_error), row_in<B>(to_end),
         row_in<B>(totals), in<B>(initial_state), out<B>(u), out<B>(states), out<B>(final_state), shape.len,
         shape.group, shape.shared_heads},
        by_block());
    launch<GatedDeltaOutputs<B, C, D, DV>, B, 1>(
        {in<B>(q), in<B>(k), in<B>(u), in<B>(states), row_in<B>(decay, logs), row_in<B>(to_row), out<B>(o), scale,
         shape.group, shape.shared_heads, blocks},
        by_chunk());
  }
  /// All gradients, but those of the keys as parts.
  void backward(const DeviceArray& beta, const DeviceArray& decay) {
    launch<GatedDeltaReads<B, C, D, DV>, B, 1>(
        {in<B>(q), in<B>(k), in<B>(o_cotangent), row_in<B>(decay, logs), row_in<B>(to_row), out<B>(du), out<B>(updates),
         scale, shape.group, blocks},
        by_chunk());
    launch<GatedDeltaAdjoints<B, C, D, pass_DV, stages, Predicts>, B, 1>(
        {in<B>(k), in<B>(p), in<B>(inverse), in<B>(du), in<B>(updates), in<B>(final_cotangent), row_in<B>(beta),
         row_in<B>(to_error), row_in<B>(to_end), row_in<B>(totals), out<B>(errors), out<B>(adjoints),
         out<B>(dinitial_state), shape.len, shape.group},
        by_block());
    launch<GatedDeltaGradients<B, C, D, DV, Predicts>, B, 1>({in<B>(q),
                                                              in<B>(k),
                                                              in<B>(v),
                                                              in<B>(p),
                                                              in<B>(u),
                                                              row_in<B>(beta),
                                                              row_in<B>(decay, logs),
                                                              row_in<B>(to_row),
                                                              row_in<B>(to_error),
                                                              row_in<B>(to_end),
                                                              row_in<B>(totals),
                                                              in<B>(states),
                                                              in<B>(adjoints),
                                                              in<B>(errors),
                                                              in<B>(o_cotangent),
                                                              out<B>(dq_parts),
                                                              out<B>(dk_parts),
                                                              out<B>(dv),
                                                              out<B>(dp_parts),
                                                              row_out<B>(dbeta_parts),
                                                              row_out<B>(dlog_decay_parts),
                                                              scale,
                                                              lag,
                                                              shape.group,
                                                              blocks,
                                                              key_parts},
                                                             by_chunk());
    sum_parts<P, "part", "out">(dq_parts, dq);
    sum_parts<P, "part", "out">(dp_parts, dp);
    sum_parts<P, "dbeta", "dbeta">(dbeta_parts, dbeta);
    sum_parts<P, "dlog_decay", "dlog_decay">(dlog_decay_parts, dlog_decay);
  }
  void sum_keys() { sum_parts<P, "part", "out">(dk_parts, dk); }

  Arrays outputs() const {
    return {{"o", download(o, array_shape(shape, shape.heads, shape.len, shape.value_dim))},
            {"final_state", download(final_state, array_shape(shape, shape.heads, shape.key_dim, shape.value_dim))}};
  }
  /// Of q, v and the initial state.
  Arrays gradients() const {
    return {
        {"q", download(dq, array_shape(shape, shape.shared_heads, shape.len, shape.key_dim))},
        {"v", download(dv, array_shape(shape, shape.heads, shape.len, shape.value_dim))},
        {"initial_state", download(dinitial_state, array_shape(shape, shape.heads, shape.key_dim, shape.value_dim))}};
  }
};

/// The answer of a rule whose gates are its inputs and whose errors are taken `lag` decays behind.
template <class P, Format F, int D, bool Predicts, bool WithGradients>
Answer gated_delta(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times, int lag) {
  DeviceDelta<P, F, D, Predicts, WithGradients> rule(
      shape, problem, upload<P, "K">(problem.inputs, "k", shape.shared_heads, shape.len, shape.key_dim),
      shape.scale<double>(problem, Policy::of(gated_delta_sites, F)), lag);
  const auto beta = upload<P, "beta">(problem.inputs, "beta", shape.heads, shape.len, 1);
  const auto log_decay = upload<P, "decay">(problem.inputs, "log_decay", shape.heads, shape.len, 1);
  const double forward = run_timed(times, [&] { rule.forward(beta, log_decay); });
  if (times != nullptr) times->forward = forward;
  Answer answer{rule.outputs(), {}};
  if constexpr (WithGradients) {
    const double backward = run_timed(times, [&] {
      rule.backward(beta, log_decay);
      rule.sum_keys();
    });
    if (times != nullptr) times->backward = backward;
    answer.gradients = rule.gradients();
    answer.gradients["k"] = download(rule.dk, array_shape(shape, shape.shared_heads, shape.len, shape.key_dim));
    answer.gradients["beta"] = download(rule.dbeta, token_shape(shape));
    answer.gradients["log_decay"] = download(rule.dlog_decay, token_shape(shape));
    if (Predicts)
      answer.gradients["p"] = download(rule.dp, array_shape(shape, shape.shared_heads, shape.len, shape.key_dim));
  }
  return answer;
}

inline int gated_delta_tile(const Problem&, Format precision) {
  return precision == Format::fp64 || precision == Format::tf32 ? 1 : 0;
}

}  // namespace assay::tile
