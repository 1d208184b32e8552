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
  const auto decay =
      for_all_tokens<"decay">(device, shape, device.template gate<"decay">(1 - std::ldexp(Wide(1), exponent)));
  /// The gradient of log gamma: the sum over all tokens.
  const auto over_tokens = [&](const auto& by_token) {
    const auto values = device.values(by_token);
    Array sums(shape.head_axis ? std::vector<int>{shape.heads} : std::vector<int>{});
    for (std::size_t h = 0; h < sums.data.size(); ++h) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(h) * shape.len;
      sums.data[h] = static_cast<double>(std::accumulate(first, first + shape.len, Wide(0)));
    }
    return sums;
  };
  return decayed_sums_plan<Tiles>(device, shape, problem, decay, false, over_tokens);
}

}  // namespace assay::tile
