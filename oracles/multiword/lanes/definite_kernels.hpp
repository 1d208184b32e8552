#pragma once
// Eight symmetric positive definite systems of doubles at a time, [row][column][8]: a preconditioner and, by a shift, a
// proof of positive definiteness (definite.hpp). Every element is a chain of fma in the same order.
#include "oracles/multiword/lanes/kernels.hpp"
#include "oracles/multiword/lanes/lanes.hpp"

namespace assay::words::ASSAY_WORDS_ISA {

/// Elements (i ... i + Rows - 1, j) of the factor, where all columns before are done.
template <int Rows>
// NOLINTNEXTLINE(readability-non-const-parameter): written to by way of of_row
ASSAY_INLINE void factor_rows(double* A, std::size_t n, std::size_t i, std::size_t j, int lane, Lanes inverse) {
  const double* of_column = A + j * n * pack_size + lane;
  double* of_row[Rows];
  Lanes sum[Rows];
  for (int r = 0; r < Rows; ++r) {
    of_row[r] = A + (i + static_cast<std::size_t>(r)) * n * pack_size + lane;
    sum[r] = load(of_row[r] + j * pack_size);
  }
  for (std::size_t k = 0; k < j; ++k) {
    const Lanes minus = broadcast(0) - load(of_column + k * pack_size);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) sum[r] = fma(minus, load(of_row[r] + k * pack_size), sum[r]);
  }
  for (int r = 0; r < Rows; ++r) store(of_row[r] + j * pack_size, sum[r] * inverse);
}

/// The lower triangle becomes L of A = L L^T, with the reciprocals of its diagonal: no positive numbers where A is not
/// positive definite.
inline void factor_definite(double* A, std::size_t n) {
  constexpr int rows = 8;
  for (int lane = 0; lane < pack_size; lane += lane_count)
    for (std::size_t j = 0; j < n; ++j) {
      factor_rows<1>(A, n, j, j, lane, broadcast(1));
      double* diagonal = A + (j * n + j) * pack_size + lane;
      const Lanes inverse = broadcast(1) / sqrt(load(diagonal));
      store(diagonal, inverse);
      std::size_t i = j + 1;
      for (; i + rows <= n; i += rows) factor_rows<rows>(A, n, i, j, lane, inverse);
      for (; i < n; ++i) factor_rows<1>(A, n, i, j, lane, inverse);
    }
}

/// x <- (L L^T)^{-1} x.
inline void solve_definite(const double* L, double* x, std::size_t n) {
  for (int lane = 0; lane < pack_size; lane += lane_count) {
    for (std::size_t j = 0; j < n; ++j) {
      const Lanes y = load(x + j * pack_size + lane) * load(L + (j * n + j) * pack_size + lane);
      store(x + j * pack_size + lane, y);
      for (std::size_t i = j + 1; i < n; ++i) {
        double* to = x + i * pack_size + lane;
        store(to, fma(broadcast(0) - y, load(L + (i * n + j) * pack_size + lane), load(to)));
      }
    }
    for (std::size_t i = n; i-- > 0;) {
      const Lanes y = load(x + i * pack_size + lane) * load(L + (i * n + i) * pack_size + lane);
      store(x + i * pack_size + lane, y);
      for (std::size_t j = 0; j < i; ++j) {
        double* to = x + j * pack_size + lane;
        store(to, fma(broadcast(0) - y, load(L + (i * n + j) * pack_size + lane), load(to)));
      }
    }
  }
}

}  // namespace assay::words::ASSAY_WORDS_ISA
