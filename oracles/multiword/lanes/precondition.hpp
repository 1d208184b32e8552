#pragma once
// Covariance and Cholesky factors in float or double: a preconditioner and, by a shift, a proof of positive
// definiteness. The bits do not depend on the instruction set: every element is a chain of fma in the same order.
#include "oracles/multiword/lanes/lanes.hpp"

namespace assay::words::ASSAY_WORDS_ISA {

#if ASSAY_WORDS_WIDTH == 8
struct Floats {
  __m512 v;
};
ASSAY_INLINE Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
ASSAY_INLINE void store(float* p, Floats a) { _mm512_storeu_ps(p, a.v); }
ASSAY_INLINE Floats broadcast(float x) { return {_mm512_set1_ps(x)}; }
ASSAY_INLINE Floats operator+(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
ASSAY_INLINE Floats operator-(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
ASSAY_INLINE Floats operator*(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
ASSAY_INLINE Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
#elif ASSAY_WORDS_WIDTH == 4
struct Floats {
  __m256 v;
};
ASSAY_INLINE Floats load(const float* p) { return {_mm256_loadu_ps(p)}; }
ASSAY_INLINE void store(float* p, Floats a) { _mm256_storeu_ps(p, a.v); }
ASSAY_INLINE Floats broadcast(float x) { return {_mm256_set1_ps(x)}; }
ASSAY_INLINE Floats operator+(Floats a, Floats b) { return {_mm256_add_ps(a.v, b.v)}; }
ASSAY_INLINE Floats operator-(Floats a, Floats b) { return {_mm256_sub_ps(a.v, b.v)}; }
ASSAY_INLINE Floats operator*(Floats a, Floats b) { return {_mm256_mul_ps(a.v, b.v)}; }
ASSAY_INLINE Floats fma(Floats a, Floats b, Floats c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
#else
struct Floats {
  float v;
};
ASSAY_INLINE Floats load(const float* p) { return {*p}; }
ASSAY_INLINE void store(float* p, Floats a) { *p = a.v; }
ASSAY_INLINE Floats broadcast(float x) { return {x}; }
ASSAY_INLINE Floats operator+(Floats a, Floats b) { return {a.v + b.v}; }
ASSAY_INLINE Floats operator-(Floats a, Floats b) { return {a.v - b.v}; }
ASSAY_INLINE Floats operator*(Floats a, Floats b) { return {a.v * b.v}; }
ASSAY_INLINE Floats fma(Floats a, Floats b, Floats c) { return {__builtin_fmaf(a.v, b.v, c.v)}; }
#endif
ASSAY_INLINE float root(float x) { return __builtin_sqrtf(x); }
ASSAY_INLINE double root(double x) { return __builtin_sqrt(x); }

template <class R>
inline constexpr int pack_of = static_cast<int>(lane_count == 1 ? 1 : lane_count * sizeof(double) / sizeof(R));

/// Keys per pass over the matrix: they stay in the first-level cache.
inline constexpr std::size_t keys_per_pass = 64;

/// A[a][b] += sum over j of z[j][a] z[j][b] for one tile.
template <class R, int Rows, int Packs>
ASSAY_INLINE void covariance_tile(const R* z, std::size_t n, std::size_t stride, std::size_t a, std::size_t b, R* A) {
  using Pack = decltype(load(z));
  constexpr std::size_t width = pack_of<R>;
  Pack c[Rows][Packs];
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < Packs; ++j) c[i][j] = broadcast(R(0));
  for (std::size_t k = 0; k < n; ++k) {
    Pack y[Packs];
    for (int j = 0; j < Packs; ++j) y[j] = load(z + k * stride + b + static_cast<std::size_t>(j) * width);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const Pack x = broadcast(z[k * stride + a + static_cast<std::size_t>(i)]);
#pragma GCC unroll 4
      for (int j = 0; j < Packs; ++j) c[i][j] = fma(x, y[j], c[i][j]);
    }
  }
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < Packs; ++j) {
      R* to = A + (a + static_cast<std::size_t>(i)) * stride + b + static_cast<std::size_t>(j) * width;
      store(to, load(to) + c[i][j]);
    }
}

/// Upper triangle of A = sum over j of root_weight[j]^2 (keys[j] - center)(keys[j] - center)^T; what is below the
/// diagonal is left half done. stride a multiple of 32; z has room for keys_per_pass rows.
template <class R>
void covariance(const R* keys, const R* root_weight, const R* center, std::size_t n, std::size_t stride, R* z, R* A) {
  using Pack = decltype(load(z));
  constexpr std::size_t rows = 8, packs = lane_count == 1 ? 4 : 2, width = pack_of<R> * packs;
  for (std::size_t i = 0; i < stride * stride; ++i) A[i] = 0;
  for (std::size_t first = 0; first < n; first += keys_per_pass) {
    const std::size_t count = n - first < keys_per_pass ? n - first : keys_per_pass;
    for (std::size_t k = 0; k < count; ++k) {
      const Pack w = broadcast(root_weight[first + k]);
      for (std::size_t a = 0; a < stride; a += pack_of<R>)
        store(z + k * stride + a, w * (load(keys + (first + k) * stride + a) - load(center + a)));
    }
    for (std::size_t b = 0; b < stride; b += width)
      for (std::size_t a = 0; a < b + width; a += rows) covariance_tile<R, rows, packs>(z, count, stride, a, b, A);
  }
}

/// A = U^T U in place from its upper triangle; false if a pivot is not positive. The part below the diagonal is ruined.
template <class R>
bool cholesky(R* A, std::size_t d, std::size_t stride) {
  constexpr std::size_t width = pack_of<R>;
  for (std::size_t i = 0; i < d; ++i) {
    R* row = A + i * stride;
    if (!(row[i] > 0)) return false;
    const R pivot = root(row[i]), inverse = R(1) / pivot;
    const std::size_t from = i / width * width;
    for (std::size_t j = from; j < stride; j += width) store(row + j, load(row + j) * broadcast(inverse));
    row[i] = pivot;
    for (std::size_t k = i + 1; k < d; ++k) {
      R* below = A + k * stride;
      const auto factor = broadcast(-row[k]);
      for (std::size_t j = k / width * width; j < stride; j += width)
        store(below + j, fma(factor, load(row + j), load(below + j)));
    }
  }
  return true;
}

/// L = U^T, so that both halves of a solve run along rows; clears what is below the diagonal of U.
template <class R>
void transpose_factor(R* U, R* L, std::size_t d, std::size_t stride) {
  for (std::size_t i = 0; i < d; ++i) {
    for (std::size_t j = 0; j <= i; ++j) L[i * stride + j] = U[j * stride + i];
    for (std::size_t j = i + 1; j < stride; ++j) L[i * stride + j] = 0;
  }
  for (std::size_t i = 0; i < d; ++i)
    for (std::size_t j = 0; j < i; ++j) U[i * stride + j] = 0;
}

/// x <- (U^T U)^-1 x, x padded to the stride.
template <class R>
void solve_factored(const R* U, const R* L, R* x, std::size_t d, std::size_t stride) {
  constexpr std::size_t width = pack_of<R>;
  for (std::size_t i = 0; i < d; ++i) {
    const R y = x[i] / U[i * stride + i];
    const auto factor = broadcast(-y);
    for (std::size_t j = i / width * width; j < stride; j += width)
      store(x + j, fma(factor, load(U + i * stride + j), load(x + j)));
    x[i] = y;
  }
  for (std::size_t i = d; i-- > 0;) {
    const R y = x[i] / U[i * stride + i];
    const auto factor = broadcast(-y);
    for (std::size_t j = 0; j < i + 1; j += width) store(x + j, fma(factor, load(L + i * stride + j), load(x + j)));
    x[i] = y;
  }
}

}  // namespace assay::words::ASSAY_WORDS_ISA
