#pragma once
// The values of an executor for draws: tiles in memory that all threads of a block share; accumulators, rows and
// columns dealt out to the threads, every element to one. Four threads have a row of an accumulator, as on tensor
// cores: lane l columns 2l and 2l + 1 of every eight, so that a sum kept as four partial ones needs no exchange. A
// row's number is with all four of its threads, a column's with all that have an element of it. On the CPU a block is
// one thread that has everything: the same code, for tests.
#include <cmath>
#include <type_traits>

#include "kernels/core/tile.hpp"
#include "kernels/draws/draw_numbers.hpp"

namespace assay::draws {

using tile::FixedString;
using tile::Shape;
using tile::Size;

#if defined(__CUDACC__)
inline constexpr int threads = 256, row_threads = 4;
DRAW_FN int thread() { return static_cast<int>(threadIdx.x); }
DRAW_FN void barrier() { __syncthreads(); }
DRAW_FN bool any_thread(bool mine) { return __syncthreads_or(mine) != 0; }
/// That of the thread whose number differs in `bit`, of the four that share a row.
DRAW_FN double from_lane(double x, int bit) { return __shfl_xor_sync(0xffffffff, x, bit); }
DRAW_FN double from_first_lane(double x) { return __shfl_sync(0xffffffff, x, 0, row_threads); }
DRAW_FN int from_lane(int x, int bit) { return __shfl_xor_sync(0xffffffff, x, bit); }
#else
inline constexpr int threads = 1, row_threads = 1;
inline int thread() { return 0; }
inline void barrier() {}
inline bool any_thread(bool mine) { return mine; }
inline double from_lane(double x, int) { return x; }
inline double from_first_lane(double x) { return x; }
inline int from_lane(int x, int) { return x; }
#endif
inline constexpr int partial_sums = 4, rows_at_once = threads / row_threads;
/// Partial sums of a row that one thread keeps.
inline constexpr int own_sums = partial_sums / row_threads;

/// Which elements of R rows and C columns a thread has: slot (k, j) is row row(k) and column column(j).
template <Size R, Size C>
struct Own {
  static constexpr int rows = (R + rows_at_once - 1) / rows_at_once;
  static constexpr int columns = row_threads == 1 ? int{C} : (C + 7) / 8 * 2;
  DRAW_FN static int row(int k) { return thread() / row_threads + k * rows_at_once; }
  DRAW_FN static int column(int j) {
    if constexpr (row_threads == 1)
      return j;
    else
      return j / 2 * 8 + thread() % row_threads * 2 + j % 2;
  }
  static constexpr bool all_rows = R % rows_at_once == 0, all_columns = row_threads == 1 || C % 8 == 0;
  DRAW_FN static bool has(int r, int c) { return (all_rows || r < R) && (all_columns || c < C); }
};

template <FixedString S, Size R, Size C>
struct DrawTile {
  static constexpr int rows = R, cols = C;
  static constexpr std::uint64_t key = key_of(S.view());
  double v[R * C];
};

template <Size R>
struct DrawRow {
  double v[Own<R, 1>::rows];
  DRAW_FN double own(int k, int) const { return v[k]; }
};
template <Size C>
struct DrawCol {
  double v[Own<1, C>::columns];
  DRAW_FN double own(int, int j) const { return v[j]; }
};

class DrawBlock;

template <Size R, Size C>
struct DrawAcc {
  static constexpr int rows = R, cols = C;
  using Mine = Own<R, C>;
  DrawBlock* b;
  Format format;
  double v[Mine::rows * Mine::columns];

  DRAW_FN double own(int k, int j) const { return v[k * Mine::columns + j]; }
  DRAW_FN double& at_own(int k, int j) { return v[k * Mine::columns + j]; }

  template <class St, class F, class... Rw>
  DRAW_FN void map(St, F f, const Rw&... rw);
  template <class P>
  DRAW_FN void mask(P keep, double fill) {
    for (int k = 0; k < Mine::rows; ++k)
      for (int j = 0; j < Mine::columns; ++j)
        if (!keep(Mine::row(k), Mine::column(j))) at_own(k, j) = fill;
  }
  template <class P>
  DRAW_FN void mask(P keep, const DrawAcc& fill) {
    for (int k = 0; k < Mine::rows; ++k)
      for (int j = 0; j < Mine::columns; ++j)
        if (!keep(Mine::row(k), Mine::column(j))) at_own(k, j) = fill.own(k, j);
  }
  template <class St, class F, class X, class... Rw>
  DRAW_FN void zip(St, F f, X& x, const Rw&... rw);
  DRAW_FN DrawRow<R> row_max() const;
  DRAW_FN void scale(const DrawRow<R>& s);
};

template <Size R>
struct DrawPartial {
  DrawBlock* b;
  Format format;
  double v[Own<R, 1>::rows * own_sums];
  template <Size C>
  DRAW_FN void fold(const DrawRow<R>& alpha, const DrawAcc<R, C>& x);
  DRAW_FN DrawRow<R> total() const;
};

/// An accumulator converted for use as the left factor.
template <Size R, Size C>
struct DrawOperand {
  static constexpr int rows = R, cols = C;
  Format format;
  double v[Own<R, C>::rows * Own<R, C>::columns];
};

}  // namespace assay::draws
