#pragma once
// Comba, chunkwise: the programs of kernels/programs/gated_delta.hpp with errors of the undecayed state, read by a key
// of their own.
#include "kernels/programs/gated_delta.hpp"

namespace assay::tile {

inline constexpr SiteTable::Init prediction_site_list[] = {{"Kp", Role::operand}};
inline constexpr SiteTable comba_sites = gated_delta_sites.with(prediction_site_list);

}  // namespace assay::tile
