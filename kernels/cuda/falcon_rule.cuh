#pragma once
// FALCON's rule with one step size per token on the device: the programs of kernels/core/falcon_gain.hpp around those
// of kernels/core/gated_delta.hpp.
#include "kernels/core/falcon_launch.hpp"
#include "kernels/cuda/gated_delta.cuh"

namespace assay::tile {

template <class P, Format F, int D, bool WithGradients>
Answer falcon_rule(const RecurrenceShape& shape, const Problem& problem, GpuTimes* times) {
  using Rule = DeviceDelta<P, F, D, false, WithGradients>;
  using B = typename Rule::B;
  constexpr int C = Rule::C;
  const FalconOptions options(problem);
  const int heads = shape.heads, shared = shape.shared_heads, len = shape.len, K = shape.key_dim;
  const std::size_t row = K, head_size = row * len;
  Rule rule(shape, problem,
            options.next_latent
                ? DeviceArray(format_of<P, "K">, shared, len, K, next_latent_features(problem, head_size, row))
                : upload<P, "K">(problem.inputs, "k", shared, len, K),
            1, 1, 1);
  rule.logs = false;
  const auto beta = upload<P, "beta">(problem.inputs, "beta", heads, len, 1);
  const auto lambda = upload<P, "lambda">(problem.inputs, "lambda", heads, len, 1);
  std::vector<double> rows(static_cast<std::size_t>(heads) * len, 1);
  if (options.next_latent && options.sequence_start)  // the first row of a sequence has no key before it
    for (int h = 0; h < heads && len > 0; ++h) rows[static_cast<std::size_t>(h) * len] = 0;
  const DeviceArray active(format_of<P, "beta">, heads, len, 1, rows);
  const auto eps = real<P>(parameter(problem, "eps", 0.0)), floor = real<P>(parameter(problem, "decay_floor", 0.0));
  auto eta = result<P, "eta">(heads, len, 1), gamma = result<P, "gamma">(heads, len, 1);
  const BlockGrid chunks{heads, rule.chunks};
  const double forward = run_timed(times, [&] {
    launch<FalconGain<B, C, D>, B, 1>({in<B>(rule.k), row_in<B>(beta), row_in<B>(lambda), row_in<B>(active),
                                       row_out<B>(eta), row_out<B>(gamma), eps, floor, options.coupling, shape.group},
                                      chunks);
    rule.forward(eta, gamma);
  });
  if (times != nullptr) times->forward = forward;
  Answer answer{rule.outputs(), {}};
  if constexpr (WithGradients) {
    const std::vector<double> decays = gamma.values();
    for (std::size_t i = 0; i < decays.size(); ++i)
      require(decays[i] != 0, "the decay of token ", i % static_cast<std::size_t>(len),
              " is 0: chunkwise gradients go through its logarithm");
    auto dbeta = result<P, "dbeta">(heads, len, 1), dlambda = result<P, "dbeta">(heads, len, 1);
    const double backward = run_timed(times, [&] {
      rule.backward(eta, gamma);
      launch<FalconGainBackward<B, C, D>, B, 1>(
          {in<B>(rule.k), row_in<B>(beta), row_in<B>(lambda), row_in<B>(active), row_in<B>(rule.dbeta),
           row_in<B>(rule.dlog_decay), row_out<B>(dbeta), row_out<B>(dlambda), out<B>(rule.dk_parts), eps, floor,
           options.coupling, shape.group, rule.key_parts},
          chunks);
      rule.sum_keys();
    });
    if (times != nullptr) times->backward = backward;
    const std::vector<double> of_features = rule.dk.values();
    answer.gradients = rule.gradients();
    answer.gradients["k"] =
        Array(array_shape(shape, shared, len, K),
              options.next_latent ? next_latent_gradient(of_features, head_size, row, false) : of_features);
    answer.gradients["beta"] = download(dbeta, token_shape(shape));
    answer.gradients["lambda"] = download(dlambda, token_shape(shape));
    if (const auto carry = problem.inputs.find("k_carry"); carry != problem.inputs.end())
      answer.gradients["k_carry"] = Array(carry->second.shape, next_latent_gradient(of_features, head_size, row, true));
  }
  return answer;
}

}  // namespace assay::tile
