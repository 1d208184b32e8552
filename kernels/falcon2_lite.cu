// FALCON-2-lite on the device: launches and instances.
#include "kernels/cuda/falcon_rule.cuh"
#include "kernels/falcon2_lite.hpp"

namespace assay::tile {
namespace {

template <Format F>
struct ChunkPolicy : StaticPolicy<falcon2_lite_sites, F> {};
template <Format F>
struct RenormalizedPolicy : StaticPolicy<renormalized_sites, F> {};

Answer run_chunkwise(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim, [&]<Format F, int D>() {
    using P = ChunkPolicy<F>;
    return problem.cotangents.empty() ? falcon_rule<P, F, D, false>(shape, problem, times)
                                      : falcon_rule<P, F, D, true>(shape, problem, times);
  });
}

template <Format F, int D>
Answer renormalized(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times) {
  using P = RenormalizedPolicy<F>;
  constexpr int C = chunk_of<F>().length, DV = chunk_of<F>().pass_values, stages = 2;
  using B = MmaBlock<P, C / 16>;
  const bool with_gradients = !problem.cotangents.empty();
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const int chunks = imax(1, ceil_div(len, C)), blocks = ceil_div(V, DV);
  const BlockGrid by_chunk{heads, chunks}, by_block{heads, blocks};
  const DeviceFalconRows<P> rows(shape, problem);
  const auto q = upload<P, "Q">(problem.inputs, "q", shared, len, K);
  const auto x = rows.template features_array<P>(problem);
  const auto v = upload<P, "V">(problem.inputs, "v", heads, len, V);
  const auto beta = upload<P, "beta">(problem.inputs, "beta", heads, len, 1);
  const auto initial_state = upload<P, "S0">(problem.inputs, "initial_state", heads, K, V);
  auto eta = result<P, "eta">(heads, len, 1), gamma = result<P, "gamma">(heads, len, 1);
  auto o = result<P, "out">(heads, len, V), final_state = result<P, "final">(heads, K, V);
  auto states = result<P, "H">(heads, with_gradients ? chunks * D : 0, V);
  const RenormalizedInputs<B> inputs{in<B>(q), in<B>(x),   in<B>(v), row_in<B>(eta), row_in<B>(gamma, false),
                                     len,      shape.group};
  const double forward = run_timed(times, [&] {
    launch<FalconGain<B, C, D>, B, 1>(
        {in<B>(x), row_in<B>(beta), row_in<B>(rows.lambda), row_in<B>(rows.active), row_out<B>(eta), row_out<B>(gamma),
         rows.eps, rows.floor, rows.options.coupling, shape.group},
        by_chunk);
    launch<RenormalizedForward<B, C, D, DV, stages>, B, 1>(
        {inputs, in<B>(initial_state), out<B>(o), out<B>(final_state), out<B>(states)}, by_block);
  });
  if (times != nullptr) times->forward = forward;
  const auto state_shape = array_shape(shape, heads, K, V);
  Answer answer{
      {{"o", download(o, array_shape(shape, heads, len, V))}, {"final_state", download(final_state, state_shape)}}, {}};
  if (!with_gradients) return answer;

  require_open(gamma);
  const int parts = heads * blocks, key_parts = blocks + 1;  // the last of the gains
  const auto o_cotangent = upload<P, "dO">(problem.cotangents, "o", heads, len, V);
  const auto final_cotangent = upload<P, "dfinal">(problem.cotangents, "final_state", heads, K, V);
  const auto of_tokens = [&](int h) { return result<P, "dbeta">(h, len, 1); };
  auto dq_parts = result<P, "part">(parts, len, K), dx_parts = result<P, "part">(heads * key_parts, len, K);
  auto deta_parts = of_tokens(parts), deta = of_tokens(heads), dbeta = of_tokens(heads), dlambda = of_tokens(heads);
  auto dlog_parts = result<P, "dlog_decay">(parts, len, 1), dlog_gamma = result<P, "dlog_decay">(heads, len, 1);
  auto dq = result<P, "out">(shared, len, K), dx = result<P, "out">(shared, len, K),
       dv = result<P, "out">(heads, len, V);
  auto dinitial_state = result<P, "initial">(heads, K, V);
  const double backward = run_timed(times, [&] {
    launch<RenormalizedBackward<B, C, D, DV, stages>, B, 1>(
        {inputs, in<B>(states), in<B>(o_cotangent), in<B>(final_cotangent), out<B>(dq_parts), out<B>(dx_parts),
         out<B>(dv), out<B>(dinitial_state), row_out<B>(deta_parts), row_out<B>(dlog_parts), blocks, key_parts},
        by_block);
    sum_parts<P, "dbeta", "dbeta">(deta_parts, deta);
    sum_parts<P, "dlog_decay", "dlog_decay">(dlog_parts, dlog_gamma);
    launch<FalconGainBackward<B, C, D>, B, 1>(
        {in<B>(x), row_in<B>(beta), row_in<B>(rows.lambda), row_in<B>(rows.active), row_in<B>(deta),
         row_in<B>(dlog_gamma), row_out<B>(dbeta), row_out<B>(dlambda), out<B>(dx_parts), rows.eps, rows.floor,
         rows.options.coupling, shape.group, key_parts},
        by_chunk);
    sum_parts<P, "part", "out">(dq_parts, dq);
    sum_parts<P, "part", "out">(dx_parts, dx);
  });
  if (times != nullptr) times->backward = backward;
  answer.gradients = {{"q", download(dq, array_shape(shape, shared, len, K))},
                      {"v", download(dv, array_shape(shape, heads, len, V))},
                      {"beta", download(dbeta, token_shape(shape))},
                      {"lambda", download(dlambda, token_shape(shape))},
                      {"initial_state", download(dinitial_state, state_shape)}};
  rows.of_keys(problem, dx.values(), answer.gradients);
  return answer;
}

Answer run_renormalized(const Problem& problem, Format precision, GpuTimes* times) {
  const RecurrenceShape shape(problem);
  return with_instance(precision, shape.key_dim,
                       [&]<Format F, int D>() { return renormalized<F, D>(shape, problem, times); });
}

constexpr GpuForm forms[] = {{"chunkwise", recurrence_obstacle, gated_delta_tile, run_chunkwise},
                             {"renormalized", recurrence_obstacle, gated_delta_tile, run_renormalized}};

}  // namespace
}  // namespace assay::tile

namespace assay::gpu {
extern const GpuRoom falcon2_lite = {"falcon2_lite", tile::forms};
}
