#pragma once
// Mamba-2's state space duality, chunkwise: the programs of kernels/programs/decayed_sums.hpp under a decay per token.
#include "kernels/programs/decayed_sums.hpp"

namespace assay::tile {

inline constexpr SiteTable mamba2_sites = decayed_sums_sites.with(decay_site_list);

}  // namespace assay::tile
