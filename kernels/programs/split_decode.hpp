#pragma once
// Shared parts of decoding with split keys: how many keys one split has, and loops over the parts merged at once.
#include <utility>

#include "kernels/core/tile.hpp"

namespace assay::tile {

/// Rows of a tile: the queries of all heads that share a key/value head.
inline constexpr int decode_rows = 16;

/// Keys of one split, a multiple of `step`: `least`, or more where splits would be more than a machine runs at once
/// for a handful of heads. It depends on the number of keys alone, so that a batch's size changes no bit.
TILE_HD constexpr int decode_span(int keys, int least, int step) {
  constexpr int most_splits = 48;
  return imax(least, ceil_div(ceil_div(keys, most_splits), step) * step);
}

/// f(0), ..., f(N - 1), each a copy of its own: what is indexed by the argument stays in registers.
template <int N, class F>
TILE_FN void unrolled(F f) {
  [&]<int... I>(std::integer_sequence<int, I...>) { (f(I), ...); }
  (std::make_integer_sequence<int, N>{});
}

}  // namespace assay::tile
