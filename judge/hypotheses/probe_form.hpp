#pragma once
// Softmax attention corrected along a probe (parallax), forwards and backwards, in doubles, with one term made
// otherwise.
#include <vector>

#include "judge/hypotheses/convention.hpp"

namespace assay::hypotheses {

/// Adds mistakes of kernels about the mean of the probe's scores, and about what it owes.
void add_probe_slips(std::vector<Convention>& list, const Scene& scene);

}  // namespace assay::hypotheses
