#pragma once
// Tiles of recurrences with keys of up to 256 channels.
#include "kernels/arguments/wide_keys.hpp"
#include "kernels/host/host_device.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

/// Calls f.template operator()<T, C>() with the scalar and the tokens of a chunk.
template <class F>
Answer with_wide_chunk(const Policy& policy, int tile, F f) {
  return with_scalar(policy, [&]<class T>() {
    return tile == 1   ? f.template operator()<T, 32>()
           : tile == 2 ? f.template operator()<T, 16>()
                       : f.template operator()<T, 64>();
  });
}
template <class T, int C>
using WideTiles = HostTiles<T, C, widest_keys>;

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
