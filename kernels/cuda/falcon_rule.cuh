#pragma once
// FALCON's rule with one step size per token on the device: the programs of kernels/programs/falcon_gain.hpp around
// those of kernels/programs/gated_delta.hpp.
#include "kernels/cuda/falcon_rows.cuh"
#include "kernels/cuda/gated_delta.cuh"

namespace assay::tile {

template <class P, Format F, int D, bool WithGradients>
Answer falcon_rule(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times) {
  using Rule = DeviceDelta<P, F, D, false, WithGradients>;
  using B = typename Rule::B;
  constexpr int C = Rule::C;
  const int heads = shape.heads, len = shape.len;
  const DeviceFalconRows<P> rows(shape, problem);
  Rule rule(shape, problem, rows.template features_array<P>(problem), 1, 1, 1);
  rule.logs = false;
  const auto beta = upload<P, "beta">(problem.inputs, "beta", heads, len, 1);
  auto eta = result<P, "eta">(heads, len, 1), gamma = result<P, "gamma">(heads, len, 1);
  const BlockGrid chunks{heads, rule.chunks};
  const double forward = run_timed(times, [&] {
    launch<FalconGain<B, C, D>, B, 1>(
        {in<B>(rule.k), row_in<B>(beta), row_in<B>(rows.lambda), row_in<B>(rows.active), row_out<B>(eta),
         row_out<B>(gamma), rows.eps, rows.floor, rows.options.coupling, shape.group},
        chunks);
    rule.forward(eta, gamma);
  });
  if (times != nullptr) times->forward = forward;
  Answer answer{rule.outputs(), {}};
  if constexpr (WithGradients) {
    require_open(gamma);
    auto dbeta = result<P, "dbeta">(heads, len, 1), dlambda = result<P, "dbeta">(heads, len, 1);
    const double backward = run_timed(times, [&] {
      rule.backward(eta, gamma);
      launch<FalconGainBackward<B, C, D>, B, 1>(
          {in<B>(rule.k), row_in<B>(beta), row_in<B>(rows.lambda), row_in<B>(rows.active), row_in<B>(rule.dbeta),
           row_in<B>(rule.dlog_decay), row_out<B>(dbeta), row_out<B>(dlambda), out<B>(rule.dk_parts), rows.eps,
           rows.floor, rows.options.coupling, shape.group, rule.key_parts},
          chunks);
      rule.sum_keys();
    });
    if (times != nullptr) times->backward = backward;
    answer.gradients = rule.gradients();
    rows.of_keys(problem, rule.dk.values(), answer.gradients);
    answer.gradients["beta"] = download(dbeta, token_shape(shape));
    answer.gradients["lambda"] = download(dlambda, token_shape(shape));
  }
  return answer;
}

}  // namespace assay::tile
