#pragma once
// Gated linear attention's launches, planned once for every device (kernels/host/host_device.hpp).
#include "kernels/plans/channel_sums.hpp"

namespace assay::tile {

template <class Tiles, class Device>
Answer gla_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  using Pass = typename Tiles::Pass;
  constexpr Size C = Tiles::tokens, D = Tiles::dim, pass_DV = Tiles::pass_values;
  constexpr int stages = Tiles::stages;
  const int heads = shape.heads, len = shape.len;
  ChannelPlan<Tiles, Device, false> sums(device, shape, problem);
  device.forward([&] {
    sums.scores(sums.scale, sums.scores_of_chunks, sums.scores_of_chunks);  // no strengths, no system
    device.template launch<StatePass<Pass, C, D, pass_DV, stages, false, true, false>, Pass, 2>(
        1, heads, sums.of_values,
        {sums.zk.in(), sums.x.v.in(), sums.x.initial_state.in(), sums.scale.row_in(), sums.scale.row_in(),
         sums.totals.row_in(), sums.states.out(), sums.final_state.out(), len, 1, heads});
    sums.read(sums.x.v);
  });
  Answer answer{sums.outputs(), {}};
  if (problem.cotangents.empty()) return answer;
  device.backward([&] {
    device.template launch<StatePass<Pass, C, D, pass_DV, stages, false, true, true>, Pass, 2>(
        4, heads, sums.of_values,
        {sums.aq.in(), sums.cotangents.o.in(), sums.cotangents.final_state.in(), sums.scale.row_in(),
         sums.scale.row_in(), sums.totals.row_in(), sums.adjoints.out(), sums.dinitial_state.out(), len, 1, heads});
    sums.gradients_of(sums.x.v, sums.x.v, sums.scores_of_chunks, sums.scale);  // neither errors nor strengths
  });
  answer.gradients = sums.gradients();
  return answer;
}

}  // namespace assay::tile
