#pragma once
// Packed sequences of a recurrence whose states begin or end at other rows, or belong to other sequences.
#include <vector>

#include "judge/hypotheses/convention.hpp"

namespace assay::hypotheses {

/// What kernels make of cu_seqlens. Of cases without it, and of mechanisms that carry nothing, none.
void add_packed_states(std::vector<Convention>& list, const Scene& scene);

}  // namespace assay::hypotheses
