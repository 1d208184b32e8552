#pragma once
// Packed sequences of a recurrence whose states begin or end at other rows, or belong to other sequences.
#include <vector>

#include "judge/hypotheses/convention.hpp"

namespace assay::hypotheses {

/// Adds mistakes of kernels in cu_seqlens. None for cases without it, and for mechanisms that carry nothing.
void add_packed_states(std::vector<Convention>& list, const Scene& scene);

}  // namespace assay::hypotheses
