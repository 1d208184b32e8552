#pragma once
// DeltaNet's launches, planned once for every device (kernels/host/host_device.hpp).
#include <vector>

#include "kernels/delta/deltanet.hpp"
#include "kernels/launches/next_latent.hpp"
#include "kernels/launches/recurrence.hpp"

namespace assay::tile {

/// Gradients, that of the features as "k", from what the forward pass has kept.
template <class Tiles, class Device, class Values>
Arrays deltanet_gradients(const Device& device, const RecurrenceShape& shape, const Problem& problem, const Values& q,
                          const Values& x, const Values& v, const Values& inverse, const Values& beta,
                          const Values& states) {
  using B = typename Tiles::Executor;
  constexpr Size C = Tiles::tokens, D = Tiles::dim;
  const int heads = shape.heads, shared = shape.shared_heads, group = shape.group, len = shape.len;
  const int K = shape.key_dim, V = shape.value_dim;
  const auto scale = device.scale(shape, problem);
  const int blocks = ceil_div(V, Tiles::backward_values);
  const auto o_cotangent = device.template input<"dO">(problem.cotangents, "o", heads, len, V);
  const auto final_cotangent = device.template input<"dfinal">(problem.cotangents, "final_state", heads, K, V);
  auto dq_parts = device.template result<"part">(heads * blocks, len, K),
       dx_parts = device.template result<"part">(heads * blocks, len, K),
       dbeta_parts = device.template result<"dbeta">(heads * blocks, len, 1);
  auto dq = device.template result<"out">(shared, len, K), dx = device.template result<"out">(shared, len, K),
       dv = device.template result<"out">(heads, len, V), dbeta = device.template result<"dbeta">(heads, len, 1),
       initial_gradient = device.template result<"initial">(heads, K, V);
  device.backward([&] {
    device.template launch<DeltaNetBackward<B, C, D, Tiles::backward_values, Tiles::backward_stages>, B>(
        3, heads, blocks,
        {q.in(), x.in(), v.in(), inverse.in(), beta.row_in(), states.in(), o_cotangent.in(), final_cotangent.in(),
         dq_parts.out(), dx_parts.out(), dv.out(), initial_gradient.out(), dbeta_parts.row_out(), scale, len, group,
         blocks});
    device.template sum<"part", "out">(4, dq_parts, blocks, dq);
    device.template sum<"part", "out">(4, dx_parts, blocks, dx);
    device.template sum<"dbeta", "dbeta">(4, dbeta_parts, blocks, dbeta);
  });
  return {{"q", device.array_of(dq, {len, K})},
          {"k", device.array_of(dx, {len, K})},
          {"v", device.array_of(dv, {len, V})},
          {"beta", device.array_of(dbeta, {len})},
          {"initial_state", device.array_of(initial_gradient, {K, V})}};
}

/// `Tiles` says how many tokens a chunk has, the value columns of a block in each program (0 `output_values`: outputs
/// on the way of the forward pass), and their executor; `Systems` is the executor of the triangular systems.
template <class Tiles, class Device>
Answer deltanet_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  using B = typename Tiles::Executor;
  using Systems = typename Tiles::Systems;
  constexpr Size C = Tiles::tokens, D = Tiles::dim;
  constexpr bool with_outputs = same_size(Tiles::output_values, 0);
  const int heads = shape.heads, shared = shape.shared_heads, group = shape.group, len = shape.len;
  const int K = shape.key_dim, V = shape.value_dim, chunks = imax(1, ceil_div(len, C));
  const std::size_t row = static_cast<std::size_t>(K), head_size = row * static_cast<std::size_t>(len);
  bool next_latent = false;
  OptionReader read(problem.params);
  read("alignment", next_latent, {{"same_step", false}, {"next_latent", true}});
  const bool with_gradients = !problem.cotangents.empty();

  const auto q = device.template input<"Q">(problem.inputs, "q", shared, len, K);
  const auto x = next_latent ? device.template array<"X">(shared, len, K, next_latent_features(problem, head_size, row))
                             : device.template input<"X">(problem.inputs, "k", shared, len, K);
  const auto v = device.template input<"V">(problem.inputs, "v", heads, len, V);
  const auto beta = device.template input<"beta">(problem.inputs, "beta", heads, len, 1);
  const auto initial_state = device.template input<"S0">(problem.inputs, "initial_state", heads, K, V);
  const auto scale = device.scale(shape, problem);
  auto o = device.template result<"out">(heads, len, V), final_state = device.template result<"final">(heads, K, V);
  auto states = device.template result<"H">(heads, with_gradients || !with_outputs ? chunks * D : 0, V);
  auto u = device.template result<"Uc">(heads, with_outputs ? 0 : len, V);
  auto inverse = device.template result<"Tc">(heads, chunks * C, C);
  device.forward([&] {
    device.template launch<DeltaNetSystem<Systems, C, D, Tiles::doubling>, Systems>(
        0, heads, chunks, {x.in(), beta.row_in(), inverse.out(), group, shared});
    device.template launch<DeltaNetForward<B, C, D, Tiles::forward_values, Tiles::forward_stages, with_outputs>, B>(
        1, heads, ceil_div(V, Tiles::forward_values),
        {q.in(), x.in(), v.in(), inverse.in(), beta.row_in(), initial_state.in(), o.out(), u.out(), final_state.out(),
         states.out(), scale, len, group, shared});
    if constexpr (!with_outputs) {
      const int blocks = ceil_div(V, Tiles::output_values);
      device.template launch<DeltaNetOutputs<B, C, D, Tiles::output_values>, B>(
          2, heads, chunks * blocks, {q.in(), x.in(), u.in(), states.in(), o.out(), scale, group, shared, blocks});
    }
  });
  Answer answer{{{"o", device.array_of(o, {len, V})}, {"final_state", device.array_of(final_state, {K, V})}}, {}};
  if (!with_gradients) return answer;
  answer.gradients = deltanet_gradients<Tiles>(device, shape, problem, q, x, v, inverse, beta, states);
  if (next_latent) gradients_of_keys(problem, head_size, row, answer.gradients);
  return answer;
}

}  // namespace assay::tile
