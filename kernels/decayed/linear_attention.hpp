#pragma once
// Linear attention, chunkwise: the programs of kernels/programs/decayed_sums.hpp without decays, and those of
// kernels/programs/normalized_read.hpp where reads are normalized by features.
#include "kernels/programs/normalized_read.hpp"

namespace assay::tile {

inline constexpr SiteTable linear_attention_sites = decayed_sums_sites.with(normalized_read_site_list);

}  // namespace assay::tile
