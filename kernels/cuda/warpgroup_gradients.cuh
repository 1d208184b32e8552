#pragma once
// Backward tile programs on warpgroups: they read rows and columns of statistics and sum rows of tiles, which for the
// producer are no-ops like every computation.
#include "kernels/cuda/warpgroup_block.cuh"

namespace assay::tile {

#if defined(__CUDACC__)
/// Products of 32 columns, for accumulators of 128 that leave registers for no more.
template <Format F>
struct Wgmma<F, 32> {
  template <bool columns>
  static TILE_FN void run(float (&c)[4][4], std::uint64_t left, std::uint64_t right, bool add) {
#define ASSAY_M64N32(type)                                                                                       \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %18, 0; wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type \
               " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, p, 1, 1, 0, %19;}"           \
               : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]),       \
                 "+f"(c[1][2]), "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]),       \
                 "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3])                                      \
               : "l"(left), "l"(right), "r"(int(add)), "n"(int(columns)))
    if constexpr (F == Format::bf16)
      ASSAY_M64N32("bf16");
    else
      ASSAY_M64N32("f16");
#undef ASSAY_M64N32
  }
};

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
#else
template <class Kernel>
struct OnWarpgroups : Kernel {};
#endif

}  // namespace assay::tile
