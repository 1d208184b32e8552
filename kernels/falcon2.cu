// FALCON-2 on the device: launches and instances.
#include "kernels/cuda/channel_block.cuh"
#include "kernels/cuda/decayed_sums.cuh"
#include "kernels/cuda/falcon_rows.cuh"
#include "kernels/falcon2.hpp"

namespace assay::tile {
namespace {

template <Format F>
struct ChannelPolicy : StaticPolicy<falcon2_sites, F> {};

/// A chunk and the value channels of a block that fit in shared memory beside a state, its cotangent and what every
/// channel has of its own; `tile` is the CPU's with the same chunk.
template <Format F>
constexpr SumChunk channel_chunk() {
  if (F == Format::fp64) return {2, 16, 16};
  if (F == Format::tf32) return {2, 16, 32};
  return {1, 32, 32};
}
int channel_tile(const Problem&, Format precision) {
  return precision == Format::fp64 || precision == Format::tf32 ? 2 : 1;
}

template <Format F, int D>
Answer chunkwise(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times) {
  using P = ChannelPolicy<F>;
  constexpr int C = channel_chunk<F>().length, DV = channel_chunk<F>().values, stages = 2;
  using B = ChannelBlock<P, C / 16>;
  const bool with_gradients = !problem.cotangents.empty();
  const int heads = shape.heads, shared = shape.shared_heads, group = shape.group, len = shape.len;
  const int K = shape.key_dim, V = shape.value_dim, chunks = imax(1, ceil_div(len, C)), blocks = ceil_div(V, DV);
  const BlockGrid by_block{heads, blocks}, by_chunk{heads, chunks * blocks};
  const DeviceFalconRows<P> rows(shape, problem);
  const auto q = upload<P, "Q">(problem.inputs, "q", shared, len, K);
  const auto x = rows.template features_array<P>(problem);
  const auto v = upload<P, "V">(problem.inputs, "v", heads, len, V);
  const auto beta = upload<P, "beta">(problem.inputs, "beta", heads, len, V);
  const auto initial_state = upload<P, "S0">(problem.inputs, "initial_state", heads, K, V);
  auto eta = result<P, "eta">(heads, len, V), gamma = result<P, "gamma">(heads, len, V);
  auto o = result<P, "out">(heads, len, V), final_state = result<P, "final">(heads, K, V);
  auto states = result<P, "H">(heads, chunks * D, V), errors = result<P, "R">(heads, len, V);
  const typename ChannelRule<B, C, D, DV>::Inputs inputs{in<B>(q), in<B>(x), in<B>(v), in<B>(eta), in<B>(gamma),
                                                         len,      V,        group,    shared,     blocks};
  const double forward = run_timed(times, [&] {
    launch<ChannelGain<B, C, D, DV>, B, 1>(
        {in<B>(x), in<B>(beta), row_in<B>(rows.lambda), row_in<B>(rows.active), out<B>(eta), out<B>(gamma), rows.eps,
         rows.floor, rows.options.coupling, group, blocks},
        by_chunk);
    launch<ChannelDeltaStates<B, C, D, DV, stages>, B, 1>(
        {inputs, in<B>(initial_state), out<B>(errors), out<B>(states), out<B>(final_state)}, by_block);
    launch<ChannelDeltaOutputs<B, C, D, DV>, B, 1>({inputs, in<B>(states), in<B>(errors), out<B>(o)}, by_chunk);
  });
  if (times != nullptr) times->forward = forward;
  const auto state_shape = array_shape(shape, heads, K, V), value_shape = array_shape(shape, heads, len, V);
  Answer answer{{{"o", download(o, value_shape)}, {"final_state", download(final_state, state_shape)}}, {}};
  if (!with_gradients) return answer;

  const auto o_cotangent = upload<P, "dO">(problem.cotangents, "o", heads, len, V);
  const auto final_cotangent = upload<P, "dfinal">(problem.cotangents, "final_state", heads, K, V);
  auto dq_parts = result<P, "part">(heads * blocks, len, K), dx_parts = result<P, "part">(heads * (blocks + 1), len, K);
  auto dv = result<P, "out">(heads, len, V), deta = result<P, "deta">(heads, len, V);
  auto dgamma = result<P, "dgamma">(heads, len, V), dbeta = result<P, "dbeta">(heads, len, V);
  auto reads = result<P, "F">(heads, len, V), cotangents = result<P, "F">(heads, len, V);
  auto adjoints = result<P, "G">(heads, chunks * D, V);
  auto dlambda = result<P, "dbeta">(heads, len, 1), dinitial_state = result<P, "initial">(heads, K, V);
  auto dq = result<P, "out">(shared, len, K), dx = result<P, "out">(shared, len, K);
  const double backward = run_timed(times, [&] {
    launch<ChannelDeltaReads<B, C, D, DV>, B, 1>({inputs, in<B>(o_cotangent), out<B>(reads)}, by_chunk);
    launch<ChannelDeltaAdjoints<B, C, D, DV, stages>, B, 1>(
        {inputs, in<B>(o_cotangent), in<B>(final_cotangent), in<B>(reads), out<B>(cotangents), out<B>(adjoints),
         out<B>(dinitial_state)},
        by_block);
    launch<ChannelDeltaGradients<B, C, D, DV>, B, 1>(
        {inputs, in<B>(states), in<B>(errors), in<B>(adjoints), in<B>(cotangents), in<B>(o_cotangent), out<B>(dq_parts),
         out<B>(dx_parts), out<B>(dv), out<B>(deta), out<B>(dgamma), blocks + 1},
        by_chunk);
    launch<ChannelGainBackward<B, C, D, DV, stages>, B, 1>(
        {in<B>(x), in<B>(beta), in<B>(deta), in<B>(dgamma), row_in<B>(rows.lambda), row_in<B>(rows.active),
         out<B>(dbeta), out<B>(dx_parts), row_out<B>(dlambda), rows.eps, rows.floor, rows.options.coupling, group,
         blocks, blocks + 1},
        BlockGrid{heads, chunks});
    sum_parts<P, "part", "out">(dq_parts, dq);
    sum_parts<P, "part", "out">(dx_parts, dx);
  });
  if (times != nullptr) times->backward = backward;
  answer.gradients = {{"q", download(dq, array_shape(shape, shared, len, K))},
                      {"v", download(dv, value_shape)},
                      {"beta", download(dbeta, value_shape)},
                      {"lambda", download(dlambda, token_shape(shape))},
                      {"initial_state", download(dinitial_state, state_shape)}};
  rows.of_keys(problem, dx.values(), answer.gradients);
  return answer;
}

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim,
                       [&]<Format F, int D>() { return chunkwise<F, D>(shape, problem, times); });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, channel_tile, run_chunkwise}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom falcon2 = {"falcon2", tile::forms};
}
