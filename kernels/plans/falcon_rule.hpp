#pragma once
// FALCON's rule with one step size per token, planned once for every device (kernels/host/host_device.hpp): the
// programs of kernels/programs/falcon_gain.hpp around those of kernels/programs/gated_delta.hpp.
#include "kernels/plans/falcon_rows.hpp"
#include "kernels/plans/gated_delta.hpp"

namespace assay::tile {

/// `Tiles` are those of the rule. Throws InputError where a gradient is wanted and a decay is 0: it would be that of a
/// logarithm.
template <class Tiles, class Device>
Answer falcon_rule_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  using B = typename Tiles::Executor;
  constexpr Size C = Tiles::tokens, D = Tiles::dim;
  const int heads = shape.heads, len = shape.len;
  const FalconInputs<Device> rows(device, shape, problem);
  GatedDeltaPlan<Tiles, DeltaRule::decays, Device> rule(device, shape, problem, rows.features(device, problem), 1,
                                                        {.lag = 1, .logs = false});
  const auto beta = device.template input<"beta">(problem.inputs, "beta", heads, len, 1);
  auto eta = device.template result<"eta">(heads, len, 1), gamma = device.template result<"gamma">(heads, len, 1);
  device.forward([&] {
    device.template launch<FalconGain<B, C, D>, B>(
        7, heads, rule.chunks,
        {rule.k.in(), beta.row_in(), rows.lambda.row_in(), rows.active.row_in(), eta.row_out(), gamma.row_out(),
         rows.eps, rows.floor, rows.options.coupling, shape.group});
    rule.forward(eta, gamma);
  });
  Answer answer{rule.outputs(), {}};
  if (problem.cotangents.empty()) return answer;

  rows.require_open(device, gamma);
  GatedDeltaGradientPlan<Tiles, DeltaRule::decays, Device> d(rule, problem, 1);
  auto dbeta = device.template result<"dbeta">(heads, len, 1), dlambda = device.template result<"dbeta">(heads, len, 1);
  device.backward([&] {
    d.backward(eta, gamma);
    device.template launch<FalconGainBackward<B, C, D>, B>(
        8, heads, rule.chunks,
        {rule.k.in(), beta.row_in(), rows.lambda.row_in(), rows.active.row_in(), d.dbeta.row_in(),
         d.dlog_decay.row_in(), dbeta.row_out(), dlambda.row_out(), d.dk_parts.out(), rows.eps, rows.floor,
         rows.options.coupling, shape.group, d.key_parts});
    d.sum_keys();
  });
  answer.gradients = d.gradients();
  rows.of_keys(problem, answer.gradients);
  answer.gradients["beta"] = device.array_of(dbeta, {len});
  answer.gradients["lambda"] = device.array_of(dlambda, {len});
  return answer;
}

}  // namespace assay::tile
