#pragma once
// DeltaNet, chunkwise: the programs of kernels/programs/gated_delta.hpp without decays.
#include "kernels/programs/gated_delta.hpp"

namespace assay::tile {

inline constexpr SiteTable deltanet_sites = delta_sites;
inline constexpr SiteTable deltanet_neumann_sites = delta_sites.with(delta_power_site_list);

}  // namespace assay::tile
