#pragma once
// How an error grows along a sequence, as drawings.
#include <vector>

#include "judge/drift/drift.hpp"
#include "tools/plots/plot.hpp"

namespace assay {

/// For each tensor its error on axes of powers, with the law that fits, what the prefixes did not rule out, and the
/// budget; and the shares of the sites.
std::vector<Plot> drift_plots(const Drift& drift);

}  // namespace assay
