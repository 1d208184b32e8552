#pragma once
// Weights of tokens that all count alike: with N_i tokens up to i and F the first N_i of a chunk, F / N_i is at most
// one and, but for the first chunk, at least a half, so that operands weighed with it neither vanish nor overflow.
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// F / N_i of C tokens, `before` tokens after the start; `count` holds 1, 2, ...
template <Size C, class Ex, class RowIn>
TILE_FN auto token_weights(Ex& b, const RowIn& count, int before) {
  return b.rows(
      "weight"_s, [&](auto n) { return (before + 1) / n; }, b.load_row("count"_s, Shape<C>{}, count, 0, before));
}

}  // namespace assay::tile
