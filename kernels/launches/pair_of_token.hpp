#pragma once
// Which pair of a window is a token's, on both sides of a launch.
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// The pair that a token writes anew, or -1.
struct PairOfToken {
  int tail, first;
  TILE_HD constexpr int operator()(int token) const { return token < first ? -1 : token - first + tail; }
};

}  // namespace assay::tile
