#pragma once
// FALCON-2's launches, planned once for every device (kernels/host/host_device.hpp).
#include "kernels/falcon/falcon2.hpp"
#include "kernels/plans/falcon_rows.hpp"

namespace assay::tile {

/// Its gradients, from what the forward pass has kept.
template <class Tiles, class Device, class Values, class Inputs>
Arrays falcon2_gradients(const Device& device, const RecurrenceShape& shape, const Problem& problem,
                         const FalconInputs<Device>& rows, const Inputs& in, const Values& x, const Values& beta,
                         const Values& states, const Values& errors) {
  using B = typename Tiles::Executor;
  constexpr Size C = Tiles::tokens, D = Tiles::dim, DV = Tiles::values;
  constexpr int stages = 2;
  const int heads = shape.heads, shared = shape.shared_heads, group = shape.group, len = shape.len;
  const int K = shape.key_dim, V = shape.value_dim, chunks = imax(1, ceil_div(len, C));
  const int blocks = in.blocks, of_chunks = chunks * blocks, key_parts = blocks + 1;  // the last of the gains
  const auto o_cotangent = device.template input<"dO">(problem.cotangents, "o", heads, len, V);
  const auto final_cotangent = device.template input<"dfinal">(problem.cotangents, "final_state", heads, K, V);
  auto dq_parts = device.template result<"part">(heads * blocks, len, K),
       dx_parts = device.template result<"part">(heads * key_parts, len, K);
  auto dv = device.template result<"out">(heads, len, V), deta = device.template result<"deta">(heads, len, V),
       dgamma = device.template result<"dgamma">(heads, len, V), dbeta = device.template result<"dbeta">(heads, len, V),
       reads = device.template result<"F">(heads, len, V), cotangents = device.template result<"F">(heads, len, V);
  auto adjoints = device.template result<"G">(heads, chunks * D, V);
  auto dlambda = device.template result<"dbeta">(heads, len, 1),
       dinitial_state = device.template result<"initial">(heads, K, V);
  auto dq = device.template result<"out">(shared, len, K), dx = device.template result<"out">(shared, len, K);
  device.backward([&] {
    device.template launch<ChannelDeltaReads<B, C, D, DV>, B>(3, heads, of_chunks, {in, o_cotangent.in(), reads.out()});
    device.template launch<ChannelDeltaAdjoints<B, C, D, DV, stages>, B>(
        4, heads, blocks,
        {in, o_cotangent.in(), final_cotangent.in(), reads.in(), cotangents.out(), adjoints.out(),
         dinitial_state.out()});
    device.template launch<ChannelDeltaGradients<B, C, D, DV>, B>(
        5, heads, of_chunks,
        {in, states.in(), errors.in(), adjoints.in(), cotangents.in(), o_cotangent.in(), dq_parts.out(), dx_parts.out(),
         dv.out(), deta.out(), dgamma.out(), key_parts});
    device.template launch<ChannelGainBackward<B, C, D, DV, stages>, B>(
        6, heads, chunks,
        {x.in(), beta.in(), deta.in(), dgamma.in(), rows.lambda.row_in(), rows.active.row_in(), dbeta.out(),
         dx_parts.out(), dlambda.row_out(), rows.eps, rows.floor, rows.options.coupling, group, blocks, key_parts});
    device.template sum<"part", "out">(7, dq_parts, blocks, dq);
    device.template sum<"part", "out">(7, dx_parts, key_parts, dx);
  });
  Arrays gradients{
      {"q", device.array_of(dq, {len, K})},        {"k", device.array_of(dx, {len, K})},
      {"v", device.array_of(dv, {len, V})},        {"beta", device.array_of(dbeta, {len, V})},
      {"lambda", device.array_of(dlambda, {len})}, {"initial_state", device.array_of(dinitial_state, {K, V})}};
  rows.of_keys(problem, gradients);
  return gradients;
}

/// `Tiles`: tokens of a chunk, the compiled key dimension, the value columns of a block, and its executor.
template <class Tiles, class Device>
Answer falcon2_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  using B = typename Tiles::Executor;
  constexpr Size C = Tiles::tokens, D = Tiles::dim, DV = Tiles::values;
  constexpr int stages = 2;
  const int heads = shape.heads, shared = shape.shared_heads, group = shape.group, len = shape.len;
  const int K = shape.key_dim, V = shape.value_dim;
  const int chunks = imax(1, ceil_div(len, C)), blocks = ceil_div(V, DV), of_chunks = chunks * blocks;
  const FalconInputs<Device> rows(device, shape, problem);
  const auto q = device.template input<"Q">(problem.inputs, "q", shared, len, K);
  const auto x = rows.features(device, problem);
  const auto v = device.template input<"V">(problem.inputs, "v", heads, len, V);
  const auto beta = device.template input<"beta">(problem.inputs, "beta", heads, len, V);
  const auto initial_state = device.template input<"S0">(problem.inputs, "initial_state", heads, K, V);
  auto eta = device.template result<"eta">(heads, len, V), gamma = device.template result<"gamma">(heads, len, V);
  auto o = device.template result<"out">(heads, len, V), final_state = device.template result<"final">(heads, K, V);
  auto states = device.template result<"H">(heads, chunks * D, V), errors = device.template result<"R">(heads, len, V);
  const typename ChannelRule<B, C, D, DV>::Inputs in{q.in(), x.in(), v.in(), eta.in(), gamma.in(),
                                                     len,    V,      group,  shared,   blocks};
  device.forward([&] {
    device.template launch<ChannelGain<B, C, D, DV>, B>(
        0, heads, of_chunks,
        {x.in(), beta.in(), rows.lambda.row_in(), rows.active.row_in(), eta.out(), gamma.out(), rows.eps, rows.floor,
         rows.options.coupling, group, blocks});
    device.template launch<ChannelDeltaStates<B, C, D, DV, stages>, B>(
        1, heads, blocks, {in, initial_state.in(), errors.out(), states.out(), final_state.out()});
    device.template launch<ChannelDeltaOutputs<B, C, D, DV>, B>(2, heads, of_chunks,
                                                                {in, states.in(), errors.in(), o.out()});
  });
  Answer answer{{{"o", device.array_of(o, {len, V})}, {"final_state", device.array_of(final_state, {K, V})}}, {}};
  if (!problem.cotangents.empty())
    answer.gradients = falcon2_gradients<Tiles>(device, shape, problem, rows, in, x, beta, states, errors);
  return answer;
}

}  // namespace assay::tile
