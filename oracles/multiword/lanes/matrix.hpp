#pragma once
// Matrix products of plain doubles with numbers of W words, and the Cholesky factors of the preconditioner.
#include "oracles/multiword/lanes/sum.hpp"

namespace assay::words::ASSAY_WORDS_ISA {

/// Register tile: rows in packs of lanes. The shape changes no bits, only how many registers are in use.
template <int W>
inline constexpr int tile_packs = lane_count == 8 && W < 3 ? 2 : 1;
template <int W>
inline constexpr int tile_columns = lane_count == 8 || W < 3 ? 4 : 2;

/// c += a b for a of one word or of all.
template <int W, int M, int N>
ASSAY_INLINE void accumulate(Lanes* c, const Lanes* a, const Lanes* b) {
  if constexpr (M == 1) {
    multiply_add<W, N>(c, a[0], b);
  } else {
    static_assert(M == W && N == W);
    multiply_add_words<W>(c, a, b);
  }
}

/// C[w][n * ldc + m] += sum over k of A[.][k * lda + m] * B[.][k * bk + n * bn], |k| <= terms_per_chunk; A of M words,
/// B of N.
template <int W, int M, int N, int Packs, int Columns>
inline void product_tile(const double* const* A, std::size_t lda, const double* const* B, std::size_t bk,
                         std::size_t bn, double* const* C, std::size_t ldc, std::size_t K) {
  Lanes c[Packs][Columns][W];
  for (int i = 0; i < Packs; ++i)
    for (int j = 0; j < Columns; ++j)
      for (int w = 0; w < W; ++w) c[i][j][w] = broadcast(0);
  for (std::size_t first = 0; first < K; first += terms_per_renormalisation) {
    const std::size_t last = first + terms_per_renormalisation < K ? first + terms_per_renormalisation : K;
    for (std::size_t k = first; k < last; ++k) {
      Lanes a[Packs][M];
      for (int i = 0; i < Packs; ++i)
        for (int w = 0; w < M; ++w) a[i][w] = load(A[w] + k * lda + static_cast<std::size_t>(i) * lane_count);
#pragma GCC unroll 8
      for (int j = 0; j < Columns; ++j) {
        Lanes b[N];
        for (int w = 0; w < N; ++w) b[w] = broadcast(B[w][k * bk + static_cast<std::size_t>(j) * bn]);
#pragma GCC unroll 8
        for (int i = 0; i < Packs; ++i) accumulate<W, M, N>(c[i][j], a[i], b);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < Packs; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < Columns; ++j) renormalise<W>(c[i][j]);
  }
  for (int i = 0; i < Packs; ++i)
    for (int j = 0; j < Columns; ++j) {
      Lanes t[W];
      const std::size_t at = static_cast<std::size_t>(j) * ldc + static_cast<std::size_t>(i) * lane_count;
      for (int w = 0; w < W; ++w) t[w] = load(C[w] + at);
      add_to<W>(t, c[i][j]);
      renormalise<W>(t);
      for (int w = 0; w < W; ++w) store(C[w] + at, t[w]);
    }
}

/// The same for any K; rows a multiple of 16, columns of 4.
template <int W, int M, int N>
ASSAY_INLINE void product_of(const double* const* A, std::size_t lda, const double* const* B, std::size_t bk,
                             std::size_t bn, double* const* C, std::size_t ldc, std::size_t rows, std::size_t columns,
                             std::size_t K) {
  constexpr int packs = tile_packs<W>, tile_n = tile_columns<W>;
  for (std::size_t k = 0; k < K; k += terms_per_chunk)
    for (std::size_t m = 0; m < rows; m += std::size_t{packs} * lane_count)
      for (std::size_t n = 0; n < columns; n += tile_n) {
        const double* a[M];
        const double* b[N];
        double* c[W];
        for (int w = 0; w < M; ++w) a[w] = A[w] + k * lda + m;
        for (int w = 0; w < N; ++w) b[w] = B[w] + k * bk + n * bn;
        for (int w = 0; w < W; ++w) c[w] = C[w] + n * ldc + m;
        const std::size_t terms = K - k < terms_per_chunk ? K - k : terms_per_chunk;
        product_tile<W, M, N, packs, tile_n>(a, lda, b, bk, bn, c, ldc, terms);
      }
}

/// C += A B with plain A. Error: matrix_accumulation(W, K) * sum over k of |A| size(B).
template <int W, int N>
void product(const double* A, std::size_t lda, const double* const* B, std::size_t bk, std::size_t bn, double* const* C,
             std::size_t ldc, std::size_t rows, std::size_t columns, std::size_t K) {
  product_of<W, 1, N>(&A, lda, B, bk, bn, C, ldc, rows, columns, K);
}

/// C += A B, both of W words: A[w][k * lda + m]. Error: chunk_words for every terms_per_chunk, and adding those up.
template <int W>
void product_words(const double* const* A, std::size_t lda, const double* const* B, std::size_t bk, std::size_t bn,
                   double* const* C, std::size_t ldc, std::size_t rows, std::size_t columns, std::size_t K) {
  product_of<W, W, W>(A, lda, B, bk, bn, C, ldc, rows, columns, K);
}

}  // namespace assay::words::ASSAY_WORDS_ISA
