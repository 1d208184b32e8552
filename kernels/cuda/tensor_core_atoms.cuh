#pragma once
// mma.sync, the tensor core instructions by format, and the loads of their operands.
#include "kernels/cuda/device_common.cuh"

namespace assay::tile {

/// The tensor core instruction of a format: C[16][8] += A[16][depth] B[depth][8].
template <Format F>
struct Atom;

template <Format F>
requires(F == Format::bf16 || F == Format::fp16) struct Atom<F> {
  using Register = std::uint32_t;
  static constexpr int depth = 16;
  static TILE_FN void mma(float (&c)[4], const Register (&a)[4], Register b0, Register b1) {
    if constexpr (F == Format::bf16)
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};
// Hopper's mma.sync has no product of 8-bit numbers; e4m3 is a subset of fp16, so these are the same products.
template <>
struct Atom<Format::e4m3> : Atom<Format::fp16> {
  static TILE_FN Register pair(E4m3 low, E4m3 high) { return pack2<Format::fp16>(float(low), float(high)); }
};
// k is dealt to threads in adjacent pairs (slots t and t + 4 hold k = 2t and 2t + 1) in both factors, so that an
// accumulator is a left operand as it stands.
template <>
struct Atom<Format::tf32> {
  using Register = std::uint32_t;
  static constexpr int depth = 8;
  static TILE_FN Register convert(float x) { return to_tf32(x); }
  static TILE_FN void mma(float (&c)[4], const Register (&a)[4], Register b0, Register b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};
template <>
struct Atom<Format::fp64> {
  using Register = double;
  static constexpr int depth = 8;
  static TILE_FN Register convert(double x) { return x; }
  static TILE_FN void mma(double (&c)[4], const Register (&a)[4], Register b0, Register b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b0), "d"(b1));
  }
};

template <bool Transpose>
TILE_FN void load_matrices(std::uint32_t (&r)[4], std::uint32_t address) {
  if constexpr (Transpose)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

}  // namespace assay::tile
