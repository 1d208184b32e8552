#pragma once
// Gated linear attention's launches, planned once for every device (kernels/host/host_device.hpp).
#include "kernels/plans/channel_sums.hpp"

namespace assay::tile {

template <class Tiles, class Device>
Answer gla_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  using B = typename Tiles::Executor;
  constexpr Size C = Tiles::tokens, D = Tiles::dim, DV = Tiles::values, pass_DV = Tiles::pass_values;
  constexpr int stages = Tiles::stages;
  const int heads = shape.heads, len = shape.len;
  ChannelPlan<Tiles, Device, false> sums(device, shape, problem);
  device.forward([&] {
    sums.decay();
    device.template launch<ChannelUpdates<B, C, D, DV>, B>(
        0, heads, sums.of_chunks, {sums.zk.in(), sums.x.v.in(), sums.updates.out(), sums.blocks});
    device.template launch<StatePass<B, C, D, pass_DV, stages, true, false>, B>(
        1, heads, sums.of_values,
        {sums.x.initial_state.in(), sums.updates.in(), sums.totals.row_in(), sums.states.out(), sums.final_state.out(),
         len});
    sums.read(sums.x.v);
  });
  Answer answer{sums.outputs(), {}};
  if (problem.cotangents.empty()) return answer;
  device.backward([&] {
    sums.read_backward();
    device.template launch<StatePass<B, C, D, pass_DV, stages, true, true>, B>(
        4, heads, sums.of_values,
        {sums.cotangents.final_state.in(), sums.updates.in(), sums.totals.row_in(), sums.adjoints.out(),
         sums.dinitial_state.out(), len});
    sums.gradients_of(sums.x.v, sums.du, sums.du, sums.scale);  // neither errors nor strengths
  });
  answer.gradients = sums.gradients();
  return answer;
}

}  // namespace assay::tile
