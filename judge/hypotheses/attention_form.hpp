#pragma once
// Softmax attention over tiles of keys with a running maximum, and its backward pass, in doubles, with one step made
// otherwise.
#include <vector>

#include "judge/hypotheses/convention.hpp"

namespace assay::hypotheses {

/// What kernels get wrong in tiles of the usual sizes: sums that keep an old maximum, tiles that are left out, weights
/// that the backward pass makes anew. Of plain attention, causal or not, with a window.
void add_attention_slips(std::vector<Convention>& list, const Scene& scene);

}  // namespace assay::hypotheses
