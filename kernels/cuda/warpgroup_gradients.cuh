#pragma once
// Backward tile programs on warpgroups: they read rows and columns of statistics and sum rows of tiles, which for the
// producer are no-ops like every computation.
#include "kernels/cuda/warpgroup_block.cuh"

namespace assay::tile {

struct GradientProducer : WarpgroupProducer {
  using WarpgroupProducer::WarpgroupProducer;
  template <class... A>
  TILE_FN Absent load_row(A&&...) {
    return {};
  }
  template <class... A>
  TILE_FN Absent load_col(A&&...) {
    return {};
  }
  template <class... A>
  TILE_FN Absent dot(A&&...) {
    return {};
  }
};

/// A backward program for launch_warpgroups.
template <class Kernel>
struct OnWarpgroups : Kernel {
  template <class X>
  TILE_FN static void run(X& b, typename Kernel::Smem& s, const typename Kernel::Args& a, int head, int x) {
    if constexpr (std::is_same_v<X, WarpgroupProducer>) {
      GradientProducer producer(b.barriers);
      Kernel::run(producer, s, a, head, x);
    } else {
      const typename Kernel::Args copy = a;  // a pack's lie in memory, and no store makes these be read again
      Kernel::run(b, s, copy, head, x);
    }
  }
};

}  // namespace assay::tile
