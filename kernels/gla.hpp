#pragma once
// Gated linear attention, chunkwise: the programs of kernels/core/channel_sums.hpp with the values written as they are.
#include "kernels/core/channel_sums.hpp"
#include "kernels/core/decayed_sums.hpp"

namespace assay::tile {

inline constexpr SiteTable gla_sites = channel_sites;

}  // namespace assay::tile
