#pragma once
// wgmma.mma_async m64nNk16 with fp32 accumulators: the left factor from shared memory (ss) or registers (rs), the right
// one from shared memory. `columns`: the right factor lies with n contiguous.
#if defined(__CUDACC__)
#include "kernels/cuda/device_common.cuh"
#endif

namespace assay::tile {

#if defined(__CUDACC__)
/// Shared-memory matrix descriptor: 128-byte swizzle, groups of 8 rows 1024 bytes apart, panels `panel_bytes` apart.
TILE_FN std::uint64_t matrix_descriptor(std::uint32_t address, int panel_bytes) {
  return std::uint64_t{1} << 62 | std::uint64_t{1024 >> 4} << 32 | std::uint64_t(panel_bytes >> 4) << 16 |
         (address & 0x3FFFF) >> 4;
}

template <Format F, int N>
struct Wgmma;

#define ASSAY_C4(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define ASSAY_C16(n) ASSAY_C4(n), ASSAY_C4(n + 1), ASSAY_C4(n + 2), ASSAY_C4(n + 3)
#define ASSAY_REGISTERS64                                                                                              \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30," \
  "%31"
#define ASSAY_REGISTERS128                                                                                            \
  ASSAY_REGISTERS64                                                                                                   \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59," \
  "%60,%61,%62,%63"
// The predicate p says whether the product is added to c or takes its place.
#define ASSAY_SS(n, type, registers, a, b, p, t, ...)                                                                 \
  asm volatile("{.reg .pred p; setp.ne.b32 p, " p ", 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type \
               " {" registers "}, " a ", " b ", p, 1, 1, 0, " t ";}"                                                  \
               : __VA_ARGS__                                                                                          \
               : "l"(left), "l"(right), "r"(int(add)), "n"(int(columns)))
#define ASSAY_RS(n, type, registers, a, b, p, t, ...)                                                                 \
  asm volatile("{.reg .pred p; setp.ne.b32 p, " p ", 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type \
               " {" registers "}, {" a "}, " b ", p, 1, 1, " t ";}"                                                   \
               : __VA_ARGS__                                                                                          \
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(int(add)), "n"(int(columns)))

template <Format F>
struct Wgmma<F, 64> {
  template <bool columns>
  static TILE_FN void run(float (&c)[8][4], std::uint64_t left, std::uint64_t right, bool add) {
    if constexpr (F == Format::bf16)
      ASSAY_SS("64", "bf16", ASSAY_REGISTERS64, "%32", "%33", "%34", "%35", ASSAY_C16(0), ASSAY_C16(4));
    else
      ASSAY_SS("64", "f16", ASSAY_REGISTERS64, "%32", "%33", "%34", "%35", ASSAY_C16(0), ASSAY_C16(4));
  }
  template <bool columns>
  static TILE_FN void run(float (&c)[8][4], const std::uint32_t (&left)[4], std::uint64_t right, bool add) {
    if constexpr (F == Format::bf16)
      ASSAY_RS("64", "bf16", ASSAY_REGISTERS64, "%32,%33,%34,%35", "%36", "%37", "%38", ASSAY_C16(0), ASSAY_C16(4));
    else
      ASSAY_RS("64", "f16", ASSAY_REGISTERS64, "%32,%33,%34,%35", "%36", "%37", "%38", ASSAY_C16(0), ASSAY_C16(4));
  }
};

template <Format F>
struct Wgmma<F, 128> {
  template <bool columns>
  static TILE_FN void run(float (&c)[16][4], std::uint64_t left, std::uint64_t right, bool add) {
    if constexpr (F == Format::bf16)
      ASSAY_SS("128", "bf16", ASSAY_REGISTERS128, "%64", "%65", "%66", "%67", ASSAY_C16(0), ASSAY_C16(4), ASSAY_C16(8),
               ASSAY_C16(12));
    else
      ASSAY_SS("128", "f16", ASSAY_REGISTERS128, "%64", "%65", "%66", "%67", ASSAY_C16(0), ASSAY_C16(4), ASSAY_C16(8),
               ASSAY_C16(12));
  }
  template <bool columns>
  static TILE_FN void run(float (&c)[16][4], const std::uint32_t (&left)[4], std::uint64_t right, bool add) {
    if constexpr (F == Format::bf16)
      ASSAY_RS("128", "bf16", ASSAY_REGISTERS128, "%64,%65,%66,%67", "%68", "%69", "%70", ASSAY_C16(0), ASSAY_C16(4),
               ASSAY_C16(8), ASSAY_C16(12));
    else
      ASSAY_RS("128", "f16", ASSAY_REGISTERS128, "%64,%65,%66,%67", "%68", "%69", "%70", ASSAY_C16(0), ASSAY_C16(4),
               ASSAY_C16(8), ASSAY_C16(12));
  }
};

#undef ASSAY_C4
#undef ASSAY_C16
#undef ASSAY_REGISTERS64
#undef ASSAY_REGISTERS128
#undef ASSAY_SS
#undef ASSAY_RS
#endif

}  // namespace assay::tile
