#pragma once
// Linear attention's launches, planned once for every device (kernels/host/host_device.hpp).
#include "kernels/plans/normalized_read.hpp"

namespace assay::tile {

enum class Normalization { none, count, features };

inline Normalization normalization_of(const Problem& problem) {
  Normalization normalization = Normalization::none;
  OptionReader read(problem.params);
  read("normalization", normalization,
       {{"none", Normalization::none}, {"count", Normalization::count}, {"features", Normalization::features}});
  return normalization;
}

/// o = scale, or scale / t, times what the state reads, t counted from 1, for every token of every head.
template <class Device>
typename Device::Values read_scales(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  using Wide = typename Device::Wide;
  const Wide scale = device.scale(shape, problem);
  if (normalization_of(problem) != Normalization::count) return for_all_tokens<"scale">(device, shape, scale);
  const int first = device.planted("counts_from_two"_s, 1, 2);
  std::vector<Wide> all(static_cast<std::size_t>(shape.heads) * static_cast<std::size_t>(shape.len));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = scale / static_cast<Wide>(first + static_cast<int>(i) % shape.len);
  return device.template array<"scale">(shape.heads, shape.len, 1, device.template gates<"scale">(all));
}

/// `Features`: reads are normalized by those of the features.
template <class Tiles, bool Features, class Device>
Answer linear_attention_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  const SumInputs<Device> x(device, shape, problem);
  const auto scale = read_scales(device, shape, problem), open = device.template result<"scale">(shape.heads, 0, 1),
             ones = unit_masses(device, shape.heads, Features ? shape.len : 0);
  NormalizedPlan<Tiles, false, Features, Device> reads(device, shape, problem, x, x.k, x.v, ones, open, true, scale,
                                                       "eps");
  device.forward([&] { reads.forward(); });
  Answer answer{reads.outputs(), {}};
  if (problem.cotangents.empty()) return answer;

  const SumCotangents<Device> cotangents(device, shape, problem);
  SumGradients<false, Device> d(device, shape, reads.parts);
  device.backward([&] {
    reads.backward(cotangents, d);
    d.sum_shared();
  });
  answer.gradients = reads.gradients(d);
  return answer;
}

}  // namespace assay::tile
