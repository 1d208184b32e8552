#pragma once
// Kimi Delta Attention's launches, planned once for every device (kernels/host/host_device.hpp).
#include "kernels/delta/kda.hpp"
#include "kernels/plans/channel_sums.hpp"

namespace assay::tile {

template <class Tiles, class Device>
Answer kda_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  using Pass = typename Tiles::Pass;
  constexpr Size C = Tiles::tokens, D = Tiles::dim, pass_DV = Tiles::pass_values, adjoint_DV = Tiles::adjoint_values;
  constexpr int stages = Tiles::stages;
  const int heads = shape.heads, len = shape.len, V = shape.value_dim;
  ChannelPlan<Tiles, Device, true> sums(device, shape, problem);
  const auto beta = device.template input<"beta">(problem.inputs, "beta", heads, len, 1);
  auto read = device.template result<"Lc">(heads, sums.chunks * C, C),
       inverse = device.template result<"Tc">(heads, sums.chunks * C, C);
  auto u = device.template result<"U">(heads, len, V);
  device.forward([&] {
    sums.scores(beta, read, inverse);
    device.template launch<DeltaPass<Pass, C, D, pass_DV, stages>, Pass, 2>(
        1, heads, sums.of_values,
        {sums.ak.in(), sums.zk.in(), sums.x.v.in(), inverse.in(), sums.x.initial_state.in(), beta.row_in(),
         sums.totals.row_in(), u.out(), sums.states.out(), sums.final_state.out(), len});
    sums.read(u);
  });
  Answer answer{sums.outputs(), {}};
  if (problem.cotangents.empty()) return answer;
  auto errors = device.template result<"E">(heads, len, V);
  device.backward([&] {
    sums.read_backward();
    device.template launch<DeltaAdjointPass<Pass, C, D, adjoint_DV, stages>, Pass>(
        4, heads, ceil_div(V, adjoint_DV),
        {sums.ak.in(), sums.zk.in(), sums.du.in(), sums.updates.in(), inverse.in(), sums.cotangents.final_state.in(),
         beta.row_in(), sums.totals.row_in(), errors.out(), sums.adjoints.out(), sums.dinitial_state.out(), len});
    sums.gradients_of(u, errors, read, beta);
  });
  answer.gradients = sums.gradients();
  answer.gradients["beta"] = device.array_of(sums.dbeta, {len});
  return answer;
}

}  // namespace assay::tile
