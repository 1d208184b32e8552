#pragma once
// The sites of Parallax's tile programs with arguments.
#include "kernels/arguments/softmax_scores.hpp"
#include "kernels/attention/parallax.hpp"

namespace assay::tile {

inline constexpr SiteTable parallax_scores_sites = parallax_tiled_sites.with(score_roles);
inline constexpr SiteTable parallax_scores_decode_sites =
    parallax_decode_sites.with(score_roles).with(merged_lse_roles);

}  // namespace assay::tile
