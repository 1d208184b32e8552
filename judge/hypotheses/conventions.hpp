#pragma once
// The answers of kernels that are right but for one convention: another scale, a decay in base 2, a mask one off.
#include <vector>

#include "judge/hypotheses/convention.hpp"

namespace assay::hypotheses {

/// Those that a problem of this room can meet, the likelier first.
std::vector<Convention> conventions_of(const Scene& scene);
/// Others, which suites of cases do not count among the faults that they show.
std::vector<Convention> further_conventions_of(const Scene& scene);

}  // namespace assay::hypotheses
