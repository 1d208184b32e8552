#pragma once
// RetNet's retention, chunkwise: the programs of kernels/programs/decayed_sums.hpp under one decay for all tokens.
#include "kernels/programs/decayed_sums.hpp"

namespace assay::tile {

inline constexpr SiteTable retnet_sites = decayed_sums_sites.with(decay_site_list);

}  // namespace assay::tile
