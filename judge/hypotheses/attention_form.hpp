#pragma once
// Softmax attention over tiles of keys with a running maximum, and its backward pass, in doubles, with one step made
// otherwise.
#include <cstddef>
#include <vector>

#include "judge/hypotheses/convention.hpp"

namespace assay::hypotheses {

/// Adds mistakes of kernels in tiles of these sizes: sums that keep an old maximum, tiles that are left out, weights
/// that the backward pass makes anew. For plain attention, causal or not, with a window. `counted`: which of them.
void add_attention_slips(std::vector<Convention>& list, const Scene& scene, const std::vector<std::size_t>& tiles,
                         Counted counted);

}  // namespace assay::hypotheses
