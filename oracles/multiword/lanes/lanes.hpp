#pragma once
// As many doubles at a time as the hardware takes: eight, four or one, which is what a thread of a GPU has. The same
// source is compiled once per instruction set (kernels_*.cpp). Every operation is the correctly rounded IEEE one, lanes
// never meet, and sums along a row are always made of eight partial sums (row_sum in passes.hpp): all of them give the
// same bits.
//
// Everything that is compiled with other flags than the rest of the program lives in a namespace of its own and uses no
// standard library template: otherwise the linker could pick an AVX-512 copy of it for everybody.
#include <cmath>
#include <cstddef>
#include <cstdint>

#ifndef ASSAY_WORDS_ISA
#define ASSAY_WORDS_ISA portable
#define ASSAY_WORDS_WIDTH 1
#endif
#if ASSAY_WORDS_WIDTH == 8 || ASSAY_WORDS_WIDTH == 4
#include <immintrin.h>
#endif
#ifdef ASSAY_WORDS_ON_DEVICE
#define ASSAY_INLINE __device__ __forceinline__
#define ASSAY_FUNCTION __device__ inline
#define ASSAY_UNROLL _Pragma("unroll")
#else
// Left to itself g++ 12 does not inline the error-free sums, which makes them five times slower.
#define ASSAY_INLINE inline __attribute__((always_inline))
#define ASSAY_FUNCTION inline
#define ASSAY_UNROLL _Pragma("GCC unroll 8")
#endif

namespace assay::words::ASSAY_WORDS_ISA {

inline constexpr int lane_count = ASSAY_WORDS_WIDTH;

#if ASSAY_WORDS_WIDTH == 8
struct Lanes {
  __m512d v;
};
ASSAY_INLINE Lanes load(const double* p) { return {_mm512_loadu_pd(p)}; }
ASSAY_INLINE void store(double* p, Lanes a) { _mm512_storeu_pd(p, a.v); }
ASSAY_INLINE Lanes broadcast(double x) { return {_mm512_set1_pd(x)}; }
ASSAY_INLINE Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_pd(a.v, b.v)}; }
ASSAY_INLINE Lanes operator-(Lanes a, Lanes b) { return {_mm512_sub_pd(a.v, b.v)}; }
ASSAY_INLINE Lanes operator*(Lanes a, Lanes b) { return {_mm512_mul_pd(a.v, b.v)}; }
ASSAY_INLINE Lanes operator/(Lanes a, Lanes b) { return {_mm512_div_pd(a.v, b.v)}; }
ASSAY_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }
ASSAY_INLINE Lanes product_rest(Lanes a, Lanes b, Lanes p) { return {_mm512_fmsub_pd(a.v, b.v, p.v)}; }
ASSAY_INLINE Lanes abs(Lanes a) { return {_mm512_abs_pd(a.v)}; }
ASSAY_INLINE Lanes lesser(Lanes a, Lanes b) { return {_mm512_mask_min_pd(a.v, 0xff, a.v, b.v)}; }
// The plain intrinsic warns in g++ 12 (GCC bug 105593).
ASSAY_INLINE Lanes sqrt(Lanes a) { return {_mm512_mask_sqrt_pd(a.v, 0xff, a.v)}; }
#elif ASSAY_WORDS_WIDTH == 4
struct Lanes {
  __m256d v;
};
ASSAY_INLINE Lanes load(const double* p) { return {_mm256_loadu_pd(p)}; }
ASSAY_INLINE void store(double* p, Lanes a) { _mm256_storeu_pd(p, a.v); }
ASSAY_INLINE Lanes broadcast(double x) { return {_mm256_set1_pd(x)}; }
ASSAY_INLINE Lanes operator+(Lanes a, Lanes b) { return {_mm256_add_pd(a.v, b.v)}; }
ASSAY_INLINE Lanes operator-(Lanes a, Lanes b) { return {_mm256_sub_pd(a.v, b.v)}; }
ASSAY_INLINE Lanes operator*(Lanes a, Lanes b) { return {_mm256_mul_pd(a.v, b.v)}; }
ASSAY_INLINE Lanes operator/(Lanes a, Lanes b) { return {_mm256_div_pd(a.v, b.v)}; }
ASSAY_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }
ASSAY_INLINE Lanes product_rest(Lanes a, Lanes b, Lanes p) { return {_mm256_fmsub_pd(a.v, b.v, p.v)}; }
ASSAY_INLINE Lanes abs(Lanes a) { return {_mm256_andnot_pd(_mm256_set1_pd(-0.0), a.v)}; }
ASSAY_INLINE Lanes lesser(Lanes a, Lanes b) { return {_mm256_min_pd(a.v, b.v)}; }
ASSAY_INLINE Lanes sqrt(Lanes a) { return {_mm256_sqrt_pd(a.v)}; }
#elif defined(ASSAY_WORDS_ON_DEVICE)
/// Intrinsics: nothing is contracted.
struct Lanes {
  double v;
};
ASSAY_INLINE Lanes load(const double* p) { return {*p}; }
ASSAY_INLINE void store(double* p, Lanes a) { *p = a.v; }
ASSAY_INLINE Lanes broadcast(double x) { return {x}; }
ASSAY_INLINE Lanes operator+(Lanes a, Lanes b) { return {__dadd_rn(a.v, b.v)}; }
ASSAY_INLINE Lanes operator-(Lanes a, Lanes b) { return {__dsub_rn(a.v, b.v)}; }
ASSAY_INLINE Lanes operator*(Lanes a, Lanes b) { return {__dmul_rn(a.v, b.v)}; }
ASSAY_INLINE Lanes operator/(Lanes a, Lanes b) { return {__ddiv_rn(a.v, b.v)}; }
ASSAY_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) { return {__fma_rn(a.v, b.v, c.v)}; }
ASSAY_INLINE Lanes product_rest(Lanes a, Lanes b, Lanes p) { return {__fma_rn(a.v, b.v, -p.v)}; }
ASSAY_INLINE Lanes abs(Lanes a) { return {fabs(a.v)}; }
ASSAY_INLINE Lanes lesser(Lanes a, Lanes b) { return {a.v < b.v ? a.v : b.v}; }
ASSAY_INLINE Lanes sqrt(Lanes a) { return {__dsqrt_rn(a.v)}; }
#else
struct Lanes {
  double v;
};
ASSAY_INLINE Lanes load(const double* p) { return {*p}; }
ASSAY_INLINE void store(double* p, Lanes a) { *p = a.v; }
ASSAY_INLINE Lanes broadcast(double x) { return {x}; }
ASSAY_INLINE Lanes operator+(Lanes a, Lanes b) { return {a.v + b.v}; }
ASSAY_INLINE Lanes operator-(Lanes a, Lanes b) { return {a.v - b.v}; }
ASSAY_INLINE Lanes operator*(Lanes a, Lanes b) { return {a.v * b.v}; }
ASSAY_INLINE Lanes operator/(Lanes a, Lanes b) { return {a.v / b.v}; }
ASSAY_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) { return {std::fma(a.v, b.v, c.v)}; }
ASSAY_INLINE Lanes product_rest(Lanes a, Lanes b, Lanes p) { return {std::fma(a.v, b.v, -p.v)}; }
ASSAY_INLINE Lanes abs(Lanes a) { return {std::fabs(a.v)}; }
ASSAY_INLINE Lanes lesser(Lanes a, Lanes b) { return {a.v < b.v ? a.v : b.v}; }
ASSAY_INLINE Lanes sqrt(Lanes a) { return {std::sqrt(a.v)}; }
#endif

#ifndef ASSAY_WORDS_ON_DEVICE
// The one-lane scalars of the same templates.
ASSAY_INLINE double fma(double a, double b, double c) { return std::fma(a, b, c); }
ASSAY_INLINE double product_rest(double a, double b, double p) { return std::fma(a, b, -p); }
ASSAY_INLINE double abs(double x) { return std::fabs(x); }

/// The lanes where `keep` is not zero; the rest is +0. Infinities and NaNs of dropped lanes leave no trace.
ASSAY_INLINE Lanes kept(Lanes a, const double* keep) {
  double x[lane_count];
  store(x, a);
  for (int i = 0; i < lane_count; ++i)
    if (keep[i] == 0) x[i] = 0;
  return load(x);
}
#endif

template <class V>
ASSAY_FUNCTION V splat(double x);
template <>
ASSAY_INLINE Lanes splat<Lanes>(double x) {
  return broadcast(x);
}
template <>
ASSAY_INLINE double splat<double>(double x) {
  return x;
}

}  // namespace assay::words::ASSAY_WORDS_ISA
