#pragma once
// Arithmetic that has the same bits on the device and in its emulation, for programs whose solves magnify one bit to
// many. The emulation computes the function of a site in fp64 and rounds it once, at the site. A device rounds every
// operation to fp32, fuses a product with the next site's sum, and has exponentials of its own, unless it is told:
//   one operation, or a product that is added to something (which nvcc fuses)   as it stands
//   a product alone                                                              rounded_product
//   several operations, of rows or outside of inner loops                        in_fp64
//   exponentials in inner loops                                                  exponentials
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/core/functions.hpp"

namespace assay::tile {

#if defined(__CUDACC__)
TILE_FN float rounded_product(float x, float y) { return __fmul_rn(x, y); }
TILE_FN double rounded_product(double x, double y) { return __dmul_rn(x, y); }
TILE_FN float rounded_sum(float x, float y) { return __fadd_rn(x, y); }
TILE_FN float fused(float x, float y, float z) { return __fmaf_rn(x, y, z); }
/// NaN stays.
TILE_FN float at_least(float x, float least) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(least));
  return y;
}
TILE_FN std::uint32_t bits_of(float x) { return __float_as_uint(x); }
TILE_FN float of_bits(std::uint32_t x) { return __uint_as_float(x); }

template <class F>
struct InFp64 {
  F f;
  template <class... A>
  TILE_FN double operator()(A... x) const {
    return f(double(x)...);
  }
};
/// f with arguments in fp64: what it returns is rounded once, by the site.
template <class F>
TILE_FN InFp64<F> in_fp64(F f) {
  return {f};
}
#else
template <class T>
T rounded_product(T x, T y) {
  return x * y;
}
inline float rounded_sum(float x, float y) { return x + y; }
inline float fused(float x, float y, float z) { return std::fma(x, y, z); }
inline float at_least(float x, float least) { return x < least ? least : x; }
inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float of_bits(std::uint32_t x) { return std::bit_cast<float>(x); }
template <class F>
F in_fp64(F f) {
  return f;
}
#endif

/// A product alone, rounded before anything is added to it.
TILE_CONSTANT struct RoundedTimes {
  template <class X>
  TILE_FN auto operator()(X x, X y) const {
    return rounded_product(x, y);
  }
} rounded_times;

/// 2^x by the same fp32 operations everywhere, for x <= 127.5; 0 below 2^-126.5. Results beyond have no meaning, and
/// the same bits: weights are at most 1 but for rounding, or masked. With n an integer next to x, f = x - n is exact,
/// |f| <= 1/2, and 2^f is 1 + f q(f) by Horner's rule, q of degree 5 chosen for 2^f. The error is largest where 2^f is
/// below 1; there it is in ulps, of 2^-24: 1/2 for the last sum; 1/4, 1/32, 1/256 and less than 1/1024 for the sums
/// before it, which are below 1, 1/4, 1/16 and 2^-6 and multiplied by f, f^2, f^3 and f^4; 0.05 for the polynomial:
/// less than 0.84 from 2^-126 on.
TILE_FN float portable_ex2(float x) {
  constexpr float integers = 0x1.8p23f + 127;  // the last bits of what is added to it: a biased exponent
  const float y = at_least(x, -127), shifted = rounded_sum(y, integers);
  const float f = rounded_sum(y, -rounded_sum(shifted, -integers));
  float q = 1.53653154e-4f;
  q = fused(q, f, 1.33916433e-3f);
  q = fused(q, f, 9.61841829e-3f);
  q = fused(q, f, 5.55035807e-2f);
  q = fused(q, f, 2.40226477e-1f);
  q = fused(q, f, 6.93147182e-1f);
  return rounded_product(fused(q, f, 1), of_bits(bits_of(shifted) << 23));
}

/// Elements become two to their power. Sites in fp32 round as portable_ex2 does.
template <class X, class St, class A>
TILE_FN void exponentials([[maybe_unused]] X& b, St site, A& x) {
#if defined(__CUDACC__)
  x.map(site, []<class T>(T y) -> T {
    if constexpr (sizeof(T) == sizeof(float))
      return portable_ex2(y);
    else
      return ex2(y);
  });
#else
  if (b.format_of(St::name()) == Format::fp32)
    x.map(site, []<class T>(T y) { return static_cast<T>(portable_ex2(static_cast<float>(y))); });
  else
    x.map(site, [](auto y) { return ex2(y); });
#endif
}

}  // namespace assay::tile
