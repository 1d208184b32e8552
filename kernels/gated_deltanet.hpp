#pragma once
// Gated DeltaNet, chunkwise: the programs of kernels/core/gated_delta.hpp with errors read by the key itself.
#include "kernels/core/gated_delta.hpp"

namespace assay::tile {

inline constexpr SiteTable gated_deltanet_sites = gated_delta_sites;

}  // namespace assay::tile
