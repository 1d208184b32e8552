#pragma once
// How wide attention's heads may be where it takes arguments.

namespace assay::tile {

/// Heads of latent attention are 192 wide, or 576 where it is absorbed.
inline constexpr int latent_head_dim = 256, absorbed_head_dim = 576;

}  // namespace assay::tile
