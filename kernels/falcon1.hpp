#pragma once
// FALCON-1, chunkwise: the programs of kernels/core/gated_delta.hpp with errors of the undecayed state, on the step
// sizes and decays of kernels/core/falcon_gain.hpp.
#include "kernels/core/falcon_gain.hpp"
#include "kernels/core/gated_delta.hpp"

namespace assay::tile {

inline constexpr SiteTable falcon1_sites = gated_delta_sites.with(falcon_gain_site_list);

}  // namespace assay::tile
