#pragma once
// Kimi Delta Attention, chunkwise: scores, reads and gradients of kernels/programs/channel_sums.hpp with errors, the
// passes of kernels/programs/delta_pass.hpp between them. In the terms of the latter, errors are taken on the decayed
// state:
//   X = a o K,   Z = z o K,   T = (I + diag(beta) L)^{-1} by forward substitution
#include "kernels/programs/channel_sums.hpp"
#include "kernels/programs/delta_pass.hpp"

namespace assay::tile {

inline constexpr SiteTable::Init channel_system_site_list[] = {{"Lc", Role::operand},     {"A", Role::accumulator},
                                                               {"T", Role::accumulator},  {"dL", Role::accumulator},
                                                               {"dX", Role::accumulator}, {"LU", Role::accumulator}};
inline constexpr SiteTable kda_sites = channel_sites.with(delta_pass_site_list).with(channel_system_site_list);

}  // namespace assay::tile
