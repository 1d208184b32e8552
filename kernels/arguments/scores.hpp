#pragma once
// The sites of softmax attention's and Parallax's tile programs with arguments.
#include "kernels/attention/parallax.hpp"
#include "kernels/attention/softmax_attention.hpp"
#include "kernels/frontends/operands.hpp"

namespace assay::tile {

inline constexpr SiteTable::Init merged_lse_roles[] = {{"lse", Role::gate}, {"dh", Role::accumulator}};
inline constexpr SiteTable softmax_scores_sites = softmax_tiled_sites.with(score_roles).with(operand_site_list);
inline constexpr SiteTable softmax_scores_decode_sites =
    softmax_decode_sites.with(score_roles).with(merged_lse_roles).with(operand_site_list);
inline constexpr SiteTable parallax_scores_sites = parallax_tiled_sites.with(score_roles);
inline constexpr SiteTable parallax_scores_decode_sites =
    parallax_decode_sites.with(score_roles).with(merged_lse_roles);

}  // namespace assay::tile
