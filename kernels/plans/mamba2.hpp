#pragma once
// Mamba-2's launches, planned once for every device (kernels/host/host_device.hpp).
#include "kernels/plans/decayed_sums.hpp"

namespace assay::tile {

template <class Tiles, class Device>
Answer mamba2_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  const auto log_decay = device.template input<"decay">(problem.inputs, "log_decay", shape.heads, shape.len, 1);
  const auto of_tokens = [&](const auto& dlog_decay) { return device.array_of(dlog_decay, {shape.len}); };
  return decayed_sums_plan<Tiles>(device, shape, problem, log_decay, true, of_tokens);
}

}  // namespace assay::tile
