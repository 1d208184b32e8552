#pragma once
// Recurrences with keys of more than 128 channels, up to 256, on the CPU: the rooms' own plans at one more dimension.
#include <string_view>

#include "kernels/core/faults.hpp"
#include "kernels/core/policy.hpp"
#include "reference/core/problem.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

inline constexpr int widest_keys = 256;

/// What a mechanism's first form answers to them; null of what is not compiled for them.
using RunWide = Answer (*)(const Problem& problem, const Policy& policy, int tile);
RunWide wide_delta_rule(std::string_view mechanism);
RunWide wide_sums(std::string_view mechanism);
inline RunWide with_wide_keys(std::string_view mechanism) {
  const RunWide delta = wide_delta_rule(mechanism);
  return delta != nullptr ? delta : wide_sums(mechanism);
}

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
