#pragma once
// Gated linear attention, chunkwise: the programs of kernels/programs/channel_sums.hpp with the values written as they
// are.
#include "kernels/programs/channel_sums.hpp"
#include "kernels/programs/decayed_sums.hpp"

namespace assay::tile {

inline constexpr SiteTable gla_sites = channel_sites;

}  // namespace assay::tile
