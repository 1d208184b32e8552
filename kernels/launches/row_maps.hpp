#pragma once
// Maps of rows, on both sides of a launch.
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// The pair that a token writes anew, or -1.
struct PairOfToken {
  int tail, first;
  TILE_HD constexpr int operator()(int token) const { return token < first ? -1 : token - first + tail; }
};

/// One row for all.
struct FirstRow {
  TILE_HD constexpr int operator()(int) const { return 0; }
};

}  // namespace assay::tile
