#pragma once
// Elementary functions of the executor for draws, with the bits of kernels/host/host_math.cpp: they are the same
// definitions as code of the device. Nothing here may be contracted to fused multiplications: nvcc needs -fmad=false.
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define DRAW_FN __device__ __forceinline__
#define DRAW_CALL __device__ __noinline__
#define DRAW_HD __host__ __device__ __forceinline__
// Rounding is a hundred instructions: copies of it for every turn of a loop are not worth their time.
#define DRAW_LOOP _Pragma("unroll 1")
#else
#define DRAW_FN inline
#define DRAW_CALL inline
#define DRAW_HD inline
#define DRAW_LOOP
#endif

namespace assay::draws {

DRAW_HD double double_of(std::uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
DRAW_HD std::uint64_t bits_of(double x) {
  std::uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/// x 2^n.
DRAW_HD double scaled(double x, int n) {
  if (n < -1000 || n > 1000) return ::ldexp(x, n);
  return x * double_of(static_cast<std::uint64_t>(n + 1023) << 52);
}

/// 2^x by ln(2)^i / i!, as tile::ex2 of the host.
DRAW_HD double exp2_of(double x) {
  if (!(x > -20000.0)) return x != x ? x : 0.0;
  if (x > 20000.0) return double_of(0x7ff0000000000000);
  const double n = ::rint(x), f = x - n;
  double sum = 0x1.816193166d0f9p-40;
  sum = sum * f + 0x1.c3bd650fc2986p-36;
  sum = sum * f + 0x1.e8cac7351bb25p-32;
  sum = sum * f + 0x1.e4cf5158b8ecap-28;
  sum = sum * f + 0x1.b5253d395e7c4p-24;
  sum = sum * f + 0x1.62c0223a5c824p-20;
  sum = sum * f + 0x1.ffcbfc588b0c7p-17;
  sum = sum * f + 0x1.430912f86c787p-13;
  sum = sum * f + 0x1.5d87fe78a6731p-10;
  sum = sum * f + 0x1.3b2ab6fba4e77p-7;
  sum = sum * f + 0x1.c6b08d704a0cp-5;
  sum = sum * f + 0x1.ebfbdff82c58fp-3;
  sum = sum * f + 0x1.62e42fefa39efp-1;
  sum = sum * f + 1.0;
  return scaled(sum, static_cast<int>(n));
}

/// log2 x by artanh, as tile::lg2 of the host.
DRAW_HD double log2_of(double x) {
  if (!(x > 0.0)) return double_of(x == 0.0 ? 0xfff0000000000000 : 0x7ff8000000000000);
  if (x == double_of(0x7ff0000000000000)) return x;
  int e = 0;
  double m = ::frexp(x, &e);
  if (m * m < 0.5) m *= 2.0, --e;
  const double f = (m - 1.0) / (m + 1.0), f2 = f * f;
  double sum = 0.0;
  for (int i = 10; i >= 0; --i) sum = sum * f2 + 1.0 / static_cast<double>(2 * i + 1);
  return static_cast<double>(e) + 2.0 * f * sum / 0x1.62e42fefa39efp-1;
}

/// As tile::hyperbolic_tangent of the host.
DRAW_HD double tanh_of(double x) {
  if (x > -0.5 && x < 0.5) {
    double below = 17;
    for (int k = 15; k > 0; k -= 2) below = static_cast<double>(k) + x * x / below;
    return x / below;
  }
  return 1 - 2 / (exp2_of(x * 0x1.71547652b82fep+1) + 1);
}

/// The larger one; of a NaN and a number, and of two zeros, the first, as the host's.
DRAW_HD double larger_of(double a, double b) { return a < b ? b : a; }

}  // namespace assay::draws

#if defined(__CUDACC__)
// On a device tile programs call its functions; on_device.hpp makes those calls calls of these.
__device__ __forceinline__ double assay_exp2(double x) { return assay::draws::exp2_of(x); }
__device__ __forceinline__ double assay_log2(double x) { return assay::draws::log2_of(x); }
__device__ __forceinline__ double assay_tanh(double x) { return assay::draws::tanh_of(x); }
__device__ __forceinline__ double assay_fmax(double a, double b) { return assay::draws::larger_of(a, b); }
#endif
