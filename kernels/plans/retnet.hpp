#pragma once
// RetNet's launches, planned once for every device (kernels/host/host_device.hpp).
#include <cmath>
#include <numeric>

#include "kernels/plans/decayed_sums.hpp"

namespace assay::tile {

template <class Tiles, class Device>
Answer retnet_plan(const Device& device, const RecurrenceShape& shape, const Problem& problem) {
  using Wide = typename Device::Wide;
  int head = 0;
  OptionReader read(problem.params);
  read("head", head);
  // gamma = 1 - 2^{-5-head} at every token: no exponential of a logarithm is as exact.
  const int exponent = device.planted("heads_from_one"_s, -5 - head, -6 - head);
  std::vector<Wide> decays(1, device.template gate<"decay">(1 - std::ldexp(Wide(1), exponent)));
  std::vector<int> heads;  // the shape of the gradient
  if (shape.head_axis) heads = {shape.heads};
  const auto given = problem.inputs.find("log_decay");
  const bool logs = given != problem.inputs.end();
  if (logs) decays.assign(given->second.data.begin(), given->second.data.end()), heads = given->second.shape;
  /// The gradient of log gamma: the sum over all tokens, and over the heads that have one gamma together.
  const auto over_tokens = [&](const auto& by_token) {
    const auto values = device.values(by_token);
    Array sums(heads);
    for (std::size_t h = 0; h < static_cast<std::size_t>(shape.heads); ++h) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(h) * shape.len;
      sums.data[sums.data.size() == 1 ? 0 : h] +=
          static_cast<double>(std::accumulate(first, first + shape.len, Wide(0)));
    }
    return sums;
  };
  return decayed_sums_plan<Tiles>(device, shape, problem, for_all_tokens<"decay">(device, shape, decays), logs,
                                  over_tokens);
}

}  // namespace assay::tile
