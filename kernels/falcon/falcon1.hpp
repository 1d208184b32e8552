#pragma once
// FALCON-1, chunkwise: the programs of kernels/programs/gated_delta.hpp with errors of the undecayed state, on the step
// sizes and decays of kernels/programs/falcon_gain.hpp.
#include "kernels/programs/falcon_gain.hpp"
#include "kernels/programs/gated_delta.hpp"

namespace assay::tile {

inline constexpr SiteTable falcon1_sites = gated_delta_sites.with(falcon_gain_site_list);

}  // namespace assay::tile
