#pragma once
// Inputs that a kernel reads otherwise than they lie: other heads, the other way round, a part of them, cut off.
#include <vector>

#include "judge/hypotheses/convention.hpp"

namespace assay::hypotheses {

/// Each input by itself, of any room and program, with its gradient taken back through the change, or left as it is.
void add_input_forms(std::vector<Convention>& list, const Scene& scene);

}  // namespace assay::hypotheses
