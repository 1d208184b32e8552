#pragma once
// Numbers as they lie in a device's memory, and how it rounds to them.
#include "kernels/cuda/arguments.hpp"

namespace assay::tile {

TILE_FN std::uint32_t to_tf32(float x) {
  std::uint32_t r;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}

struct BFloat16 {
  std::uint16_t bits;
  BFloat16() = default;
  TILE_FN explicit BFloat16(float x) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  TILE_FN operator float() const { return __uint_as_float(std::uint32_t{bits} << 16); }
};
struct Half {
  std::uint16_t bits;
  Half() = default;
  TILE_FN explicit Half(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  TILE_FN operator float() const {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
  }
};
/// What is too large becomes the largest number.
struct E4m3 {
  unsigned char bits;
  E4m3() = default;
  TILE_FN explicit E4m3(float x) {
    std::uint16_t two;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.f), "f"(x));
    bits = static_cast<unsigned char>(two);
  }
  TILE_FN operator float() const {
    std::uint32_t two;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(two) : "h"(std::uint16_t{bits}));
    Half low;
    low.bits = static_cast<std::uint16_t>(two);
    return low;
  }
};

template <>
struct ElementOf<Format::bf16> {
  using type = BFloat16;
};
template <>
struct ElementOf<Format::fp16> {
  using type = Half;
};
template <>
struct ElementOf<Format::e4m3> {
  using type = E4m3;
};
template <>
struct ElementOf<Format::tf32> {
  using type = float;
};
template <>
struct ElementOf<Format::fp32> {
  using type = float;
};
template <>
struct ElementOf<Format::fp64> {
  using type = double;
};

/// x on the grid of format F, still as a T.
template <Format F, class T>
TILE_FN T round_as(T x) {
  if constexpr (F == Format::tf32)
    return T(__uint_as_float(to_tf32(float(x))));
  else if constexpr (F == Format::fp64)
    return x;
  else
    return T(float(Element<F>(float(x))));
}

/// Two values in a 16-bit format, the first in the low half; e4m3 is carried in fp16, which holds its numbers.
template <Format F>
TILE_FN std::uint32_t pack2(float low, float high) {
  if constexpr (F == Format::e4m3) return pack2<Format::fp16>(round_as<F>(low), round_as<F>(high));
  std::uint32_t r;
  if constexpr (F == Format::bf16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

/// Two neighbours in format F at p.
template <Format F, class T>
TILE_FN void write_two(void* p, T x, T y) {
  if constexpr (sizeof(Element<F>) == 2)
    *static_cast<std::uint32_t*>(p) = pack2<F>(x, y);
  else if constexpr (sizeof(Element<F>) == 4)
    *static_cast<float2*>(p) = make_float2(round_as<F>(x), round_as<F>(y));
  else
    *static_cast<double2*>(p) = make_double2(x, y);
}

}  // namespace assay::tile
