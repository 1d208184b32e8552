#pragma once
// The launches of kernels/core/gated_delta.hpp on the device, shared by the rooms whose arithmetic it is.
#include "kernels/core/gated_delta.hpp"
#include "kernels/cuda/recurrence.cuh"

namespace assay::tile {

/// A chunk and the value blocks of each pass that fit in shared memory; a forward pass that keeps its states has the
/// chunk of the backward one. `tile` is the CPU's with the same chunk. Value columns do not touch each other in the
/// outputs. In the gradients of what they share, each block rounds its own part, so bits agree with the CPU's only
/// where one block holds all values.
struct Chunk {
  int tile, length, forward_values, backward_values;
};
template <Format F, int D, bool Predicts, bool WithGradients>
constexpr Chunk chunk_of() {
  if (F == Format::fp64 && Predicts) return {2, 16, 16, 16};
  if (F == Format::fp64) return {1, 32, 16, 16};
  if (F == Format::tf32) return {2, 16, 64, 64};
  if (F == Format::bf16 && !WithGradients && !(Predicts && D == 128)) return {0, 64, 64, 0};
  return {1, 32, 64, D == 64 ? 64 : 32};
}

/// The answer of a rule whose errors are taken `lag` decays behind; P is the contract in format F.
template <class P, Format F, int D, bool Predicts, bool WithGradients>
Answer gated_delta(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times, int lag) {
  constexpr int stages = 2;
  constexpr Chunk shapes = chunk_of<F, D, Predicts, WithGradients>();
  constexpr int C = shapes.length;
  using B = MmaBlock<P, C / 16>;
  using Forward = GatedDeltaForward<B, C, D, shapes.forward_values, stages, Predicts>;
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const int chunks = imax(1, ceil_div(len, C));

  const auto q = upload<P, "Q">(problem.inputs, "q", shared, len, K);
  const auto k = upload<P, "K">(problem.inputs, "k", shared, len, K);
  const auto v = upload<P, "V">(problem.inputs, "v", heads, len, V);
  // An operand like the key; rules without a prediction key have no site for it.
  const auto p = upload<P, "K">(problem.inputs, "p", shared, Predicts ? len : 0, K);
  const auto beta = upload<P, "beta">(problem.inputs, "beta", heads, len, 1);
  const auto log_decay = upload<P, "decay">(problem.inputs, "log_decay", heads, len, 1);
  const auto initial_state = upload<P, "S0">(problem.inputs, "initial_state", heads, K, V);
  const auto scale = real<P>(shape.scale<double>(problem, Policy::of(gated_delta_sites, F)));
  auto o = result<P, "out">(heads, len, V), final_state = result<P, "final">(heads, K, V);
  auto states = result<P, "H">(heads, WithGradients ? chunks * D : 0, V);
  const double forward = run_timed(times, [&] {
    launch<Forward, B, 1>(
        {in<B>(q), in<B>(k), in<B>(v), in<B>(p), row_in<B>(beta), row_in<B>(log_decay), in<B>(initial_state), out<B>(o),
         out<B>(final_state), out<B>(states), scale, len, lag, shape.group, shared},
        BlockGrid{heads, ceil_div(V, shapes.forward_values)});
  });
  if (times != nullptr) times->forward = forward;
  Answer answer{{{"o", download(o, array_shape(shape, heads, len, V))},
                 {"final_state", download(final_state, array_shape(shape, heads, K, V))}},
                {}};
  if constexpr (WithGradients) {
    using Backward = GatedDeltaBackward<B, C, D, shapes.backward_values, stages, Predicts>;
    const int blocks = ceil_div(V, shapes.backward_values);
    const auto o_cotangent = upload<P, "dO">(problem.cotangents, "o", heads, len, V);
    const auto final_cotangent = upload<P, "dfinal">(problem.cotangents, "final_state", heads, K, V);
    auto dq_parts = result<P, "part">(heads * blocks, len, K), dk_parts = result<P, "part">(heads * blocks, len, K);
    auto dbeta_parts = result<P, "dbeta">(heads * blocks, len, 1), dbeta = result<P, "dbeta">(heads, len, 1);
    auto dlog_decay_parts = result<P, "dlog_decay">(heads * blocks, len, 1);
    auto dlog_decay = result<P, "dlog_decay">(heads, len, 1);
    auto dq = result<P, "out">(shared, len, K), dk = result<P, "out">(shared, len, K);
    auto dp_parts = result<P, "part">(heads * blocks, Predicts ? len : 0, K);
    auto dp = result<P, "out">(shared, Predicts ? len : 0, K);
    auto dv = result<P, "out">(heads, len, V), initial_gradient = result<P, "initial">(heads, K, V);
    const double backward = run_timed(times, [&] {
      launch<Backward, B, 1>({in<B>(q),
                              in<B>(k),
                              in<B>(v),
                              in<B>(p),
                              row_in<B>(beta),
                              row_in<B>(log_decay),
                              in<B>(states),
                              in<B>(o_cotangent),
                              in<B>(final_cotangent),
                              out<B>(dq_parts),
                              out<B>(dk_parts),
                              out<B>(dv),
                              out<B>(dp_parts),
                              out<B>(initial_gradient),
                              row_out<B>(dbeta_parts),
                              row_out<B>(dlog_decay_parts),
                              scale,
                              len,
                              lag,
                              shape.group,
                              blocks},
                             BlockGrid{heads, blocks});
      sum_parts<P, "part", "out">(dq_parts, dq);
      sum_parts<P, "part", "out">(dk_parts, dk);
      sum_parts<P, "part", "out">(dp_parts, dp);
      sum_parts<P, "dbeta", "dbeta">(dbeta_parts, dbeta);
      sum_parts<P, "dlog_decay", "dlog_decay">(dlog_decay_parts, dlog_decay);
    });
    if (times != nullptr) times->backward = backward;
    answer.gradients = {{"q", download(dq, array_shape(shape, shared, len, K))},
                        {"k", download(dk, array_shape(shape, shared, len, K))},
                        {"v", download(dv, array_shape(shape, heads, len, V))},
                        {"beta", download(dbeta, token_shape(shape))},
                        {"log_decay", download(dlog_decay, token_shape(shape))},
                        {"initial_state", download(initial_gradient, array_shape(shape, heads, K, V))}};
    if (Predicts) answer.gradients["p"] = download(dp, array_shape(shape, shared, len, K));
  }
  return answer;
}

template <bool Predicts>
int gated_delta_tile(const Problem& problem, Format precision) {
  return with_instance(precision, RecurrenceShape(problem).key_dim, [&]<Format F, int D>() {
    return problem.cotangents.empty() ? chunk_of<F, D, Predicts, false>().tile : chunk_of<F, D, Predicts, true>().tile;
  });
}

}  // namespace assay::tile
