#pragma once
// MmaBlock: one thread block, mma.sync tensor cores, cp.async loads.
#include "kernels/cuda/mma_channels.cuh"

namespace assay::tile {

template <class P_, int Warps_>
struct MmaBlock : MmaChannels<P_, Warps_> {
  using P = P_;
  using MmaChannels<P, Warps_>::MmaChannels;
};

}  // namespace assay::tile
