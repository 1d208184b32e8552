#pragma once
// The launches of FALCON-2-lite's published form, planned once for every device (kernels/host/host_device.hpp).
#include "kernels/falcon/falcon2_lite.hpp"
#include "kernels/plans/falcon_rows.hpp"

namespace assay::tile {

/// Gradients, from what the forward pass has kept. Throws InputError where a decay is 0.
template <class Tiles, class Device, class Values, class Inputs>
Arrays renormalized_gradients(const Device& device, const RecurrenceShape& shape, const Problem& problem,
                              const FalconInputs<Device>& rows, const Inputs& inputs, const Values& x,
                              const Values& beta, const Values& gamma, const Values& states) {
  using B = typename Tiles::Executor;
  constexpr Size C = Tiles::tokens, D = Tiles::dim, DV = Tiles::values;
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const int blocks = ceil_div(V, DV), parts = heads * blocks, key_parts = blocks + 1;  // the last of the gains
  rows.require_open(device, gamma);
  const auto o_cotangent = device.template input<"dO">(problem.cotangents, "o", heads, len, V);
  const auto final_cotangent = device.template input<"dfinal">(problem.cotangents, "final_state", heads, K, V);
  const auto of_tokens = [&](int h) { return device.template result<"dbeta">(h, len, 1); };
  auto dq_parts = device.template result<"part">(parts, len, K),
       dx_parts = device.template result<"part">(heads * key_parts, len, K);
  auto deta_parts = of_tokens(parts), deta = of_tokens(heads), dbeta = of_tokens(heads), dlambda = of_tokens(heads);
  auto dlog_parts = device.template result<"dlog_decay">(parts, len, 1),
       dlog_gamma = device.template result<"dlog_decay">(heads, len, 1);
  auto dq = device.template result<"out">(shared, len, K), dx = device.template result<"out">(shared, len, K),
       dv = device.template result<"out">(heads, len, V),
       dinitial_state = device.template result<"initial">(heads, K, V);
  device.backward([&] {
    device.template launch<RenormalizedBackward<B, C, D, DV, 2>, B>(
        2, heads, blocks,
        {inputs, states.in(), o_cotangent.in(), final_cotangent.in(), dq_parts.out(), dx_parts.out(), dv.out(),
         dinitial_state.out(), deta_parts.row_out(), dlog_parts.row_out(), blocks, key_parts});
    device.template sum<"dbeta", "dbeta">(4, deta_parts, blocks, deta);
    device.template sum<"dlog_decay", "dlog_decay">(4, dlog_parts, blocks, dlog_gamma);
    device.template launch<FalconGainBackward<B, C, D>, B>(
        3, heads, imax(1, ceil_div(len, C)),
        {x.in(), beta.row_in(), rows.lambda.row_in(), rows.active.row_in(), deta.row_in(), dlog_gamma.row_in(),
         dbeta.row_out(), dlambda.row_out(), dx_parts.out(), rows.eps, rows.floor, rows.options.coupling, shape.group,
         key_parts});
    device.template sum<"part", "out">(4, dq_parts, blocks, dq);
    device.template sum<"part", "out">(4, dx_parts, key_parts, dx);
  });
  Arrays gradients{
      {"q", device.array_of(dq, {len, K})},        {"k", device.array_of(dx, {len, K})},
      {"v", device.array_of(dv, {len, V})},        {"beta", device.array_of(dbeta, {len})},
      {"lambda", device.array_of(dlambda, {len})}, {"initial_state", device.array_of(dinitial_state, {K, V})}};
  rows.of_keys(problem, gradients);
  return gradients;
}

/// `Tiles`: tokens of a chunk, the compiled key dimension, the value columns of a block, and its executor.
template <class Tiles, class Device>
Answer renormalized_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  using B = typename Tiles::Executor;
  constexpr Size C = Tiles::tokens, D = Tiles::dim, DV = Tiles::values;
  const int heads = shape.heads, len = shape.len, K = shape.key_dim, V = shape.value_dim;
  const int chunks = imax(1, ceil_div(len, C));
  const bool with_gradients = !problem.cotangents.empty();
  const FalconInputs<Device> rows(device, shape, problem);
  const auto q = device.template input<"Q">(problem.inputs, "q", shape.shared_heads, len, K);
  const auto x = rows.features(device, problem);
  const auto v = device.template input<"V">(problem.inputs, "v", heads, len, V);
  const auto beta = device.template input<"beta">(problem.inputs, "beta", heads, len, 1);
  const auto initial_state = device.template input<"S0">(problem.inputs, "initial_state", heads, K, V);
  auto eta = device.template result<"eta">(heads, len, 1), gamma = device.template result<"gamma">(heads, len, 1);
  auto o = device.template result<"out">(heads, len, V), final_state = device.template result<"final">(heads, K, V);
  auto states = device.template result<"H">(heads, with_gradients ? chunks * D : 0, V);
  const RenormalizedInputs<B> inputs{q.in(), x.in(), v.in(), eta.row_in(), gamma.row_in(false), len, shape.group};
  device.forward([&] {
    device.template launch<FalconGain<B, C, D>, B>(
        0, heads, chunks,
        {x.in(), beta.row_in(), rows.lambda.row_in(), rows.active.row_in(), eta.row_out(), gamma.row_out(), rows.eps,
         rows.floor, rows.options.coupling, shape.group});
    device.template launch<RenormalizedForward<B, C, D, DV, 2>, B>(
        1, heads, ceil_div(V, DV), {inputs, initial_state.in(), o.out(), final_state.out(), states.out()});
  });
  Answer answer{{{"o", device.array_of(o, {len, V})}, {"final_state", device.array_of(final_state, {K, V})}}, {}};
  if (with_gradients)
    answer.gradients = renormalized_gradients<Tiles>(device, shape, problem, rows, inputs, x, beta, gamma, states);
  return answer;
}

}  // namespace assay::tile
