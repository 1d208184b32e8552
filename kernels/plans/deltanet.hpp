#pragma once
// DeltaNet's launches, planned once for every device (kernels/host/host_device.hpp): those of
// kernels/plans/gated_delta.hpp without decays.
#include "kernels/launches/next_latent.hpp"
#include "kernels/plans/gated_delta.hpp"

namespace assay::tile {

/// The keys that are written are those of a token, or, under next-latent alignment, of the one before it.
template <class Tiles, class Device>
Answer deltanet_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  const int shared = shape.shared_heads, len = shape.len, K = shape.key_dim;
  bool next_latent = false;
  OptionReader read(problem.params);
  read("alignment", next_latent, {{"same_step", false}, {"next_latent", true}});
  if (!next_latent) return gated_delta_plan<Tiles, DeltaRule::plain>(device, shape, problem, 0);
  const std::size_t row = static_cast<std::size_t>(K), head_size = row * static_cast<std::size_t>(len);
  Answer answer = gated_delta_plan<Tiles, DeltaRule::plain>(
      device, shape, problem, 0,
      device.template array<"K">(shared, len, K, next_latent_features(problem, head_size, row)));
  if (!answer.gradients.empty()) gradients_of_keys(problem, head_size, row, answer.gradients);
  return answer;
}

}  // namespace assay::tile
