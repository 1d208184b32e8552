#pragma once
// FALCON-2A's launches, planned once for every device (kernels/host/host_device.hpp).
#include "kernels/falcon/falcon2a.hpp"
#include "kernels/plans/falcon_rows.hpp"
#include "kernels/plans/normalized_read.hpp"

namespace assay::tile {

/// Its gradients, from what the forward pass has kept.
template <class Tiles, bool Features, class Device, class Reads, class Values>
Arrays falcon2a_gradients(const Device& device, const RecurrenceShape& shape, const Problem& problem,
                          const FalconInputs<Device>& rows, Reads& reads, const Values& x, const Values& v,
                          const Values& beta, const Values& eta, const Values& gamma) {
  using B = typename Tiles::Executor;
  constexpr Size C = Tiles::tokens, D = Tiles::dim, DV = Tiles::values;
  const int heads = shape.heads, len = shape.len, V = shape.value_dim, blocks = reads.sums.blocks;
  rows.require_open(device, gamma);
  const SumCotangents<Device> cotangents(device, shape, problem);
  SumGradients<true, Device> d(device, shape, reads.parts + 1);
  // The last part of every head is the gains': it holds zeros where they add nothing.
  d.dq_parts = device.template zeros<"part">(heads * d.parts, len, shape.key_dim);
  d.dlog_decay_parts = device.template zeros<"scale">(heads * d.parts, len, 1);
  const auto of_tokens = [&](int n) { return device.template result<"dbeta">(heads, n, 1); };
  auto dweight = of_tokens(Features ? len : 0), deta = of_tokens(len), dbeta = of_tokens(len), dlambda = of_tokens(len);
  auto dv = device.template result<"out">(heads, len, V);
  device.backward([&] {
    reads.backward(cotangents, d);
    d.sum_decays();
    if constexpr (Features) device.template copy_first_column<"out", "dbeta">(reads.mass->dv, dweight);
    device.template launch<StepValuesBackward<B, C, DV, 2>, B>(
        13, heads, reads.sums.chunks,
        {v.in(), reads.sums.dv.in(), eta.row_in(), dweight.row_in(), dv.out(), deta.row_out(), blocks});
    device.template launch<FalconGainBackward<B, C, D>, B>(
        14, heads, reads.sums.chunks,
        {x.in(), beta.row_in(), rows.lambda.row_in(), rows.active.row_in(), deta.row_in(), d.dlog_decay.row_in(),
         dbeta.row_out(), dlambda.row_out(), d.dk_parts.out(), rows.eps, rows.floor, rows.options.coupling, shape.group,
         d.parts});
    d.sum_shared();
  });
  Arrays gradients = reads.gradients(d);
  rows.of_keys(problem, gradients);
  gradients["v"] = device.array_of(dv, {len, V});
  gradients["beta"] = device.array_of(dbeta, {len});
  gradients["lambda"] = device.array_of(dlambda, {len});
  return gradients;
}

inline bool normalizes(const Problem& problem) {
  bool features = false;
  OptionReader read(problem.params);
  read("normalization", features, {{"none", false}, {"features", true}});
  return features;
}

/// `Features`: reads are normalized by those of the features.
template <class Tiles, bool Features, class Device>
Answer falcon2a_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  using B = typename Tiles::Executor;
  constexpr Size C = Tiles::tokens, D = Tiles::dim, DV = Tiles::values;
  const int heads = shape.heads, len = shape.len, V = shape.value_dim, masses = Features ? len : 0;
  const FalconInputs<Device> rows(device, shape, problem);
  const SumInputs<Device> inputs(device, shape, problem);
  const auto x = rows.features(device, problem);
  const auto beta = device.template input<"beta">(problem.inputs, "beta", heads, len, 1);
  const auto scale = for_all_tokens<"scale">(device, shape, 1);
  auto eta = device.template result<"eta">(heads, len, 1), gamma = device.template result<"gamma">(heads, len, 1);
  auto u = device.template result<"V">(heads, len, V);
  auto weights = device.template zeros<"V">(heads, masses, mass_columns);
  NormalizedPlan<Tiles, true, Features, Device> reads(device, shape, problem, inputs, x, u, weights, gamma, false,
                                                      scale, "eps_normalizer");
  device.forward([&] {
    device.template launch<FalconGain<B, C, D>, B>(
        11, heads, reads.sums.chunks,
        {x.in(), beta.row_in(), rows.lambda.row_in(), rows.active.row_in(), eta.row_out(), gamma.row_out(), rows.eps,
         rows.floor, rows.options.coupling, shape.group});
    device.template launch<StepValues<B, C, DV>, B>(12, heads, reads.sums.of_chunks,
                                                    {inputs.v.in(), eta.row_in(), u.out(), reads.sums.blocks});
    if constexpr (Features) device.template copy_first_column<"eta", "V">(eta, weights);
    reads.forward();
  });
  Answer answer{reads.outputs(), {}};
  if (!problem.cotangents.empty())
    answer.gradients =
        falcon2a_gradients<Tiles, Features>(device, shape, problem, rows, reads, x, inputs.v, beta, eta, gamma);
  return answer;
}

}  // namespace assay::tile
