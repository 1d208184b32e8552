#pragma once
// Gated DeltaNet, chunkwise: the programs of kernels/programs/gated_delta.hpp with errors read by the key itself.
#include "kernels/programs/gated_delta.hpp"

namespace assay::tile {

inline constexpr SiteTable gated_deltanet_sites = gated_delta_sites;

}  // namespace assay::tile
