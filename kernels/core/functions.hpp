#pragma once
// The elementwise functions that most tile programs use, by name: X.zip("W"_s, taken_from, V) is V - X. Those of one
// program stay in it.
#include "kernels/core/tile.hpp"

#if defined(__CUDACC__)
#define TILE_CONSTANT [[maybe_unused]] static __device__ constexpr
#else
#define TILE_CONSTANT inline constexpr
#endif

namespace assay::tile {

// ---- of one number
TILE_CONSTANT struct Same {
  template <class X>
  TILE_FN constexpr auto operator()(X x) const {
    return x;
  }
} same;
TILE_CONSTANT struct Negative {
  template <class X>
  TILE_FN constexpr auto operator()(X x) const {
    return -x;
  }
} negative;
/// A sum of weights; 0 where nothing was seen.
TILE_CONSTANT struct Reciprocal {
  template <class X>
  TILE_FN constexpr auto operator()(X x) const {
    return x > 0 ? 1 / x : 0;
  }
} reciprocal;
/// A maximum of scores; 0 where no key is seen yet, or ever.
TILE_CONSTANT struct FiniteOrZero {
  template <class X>
  TILE_FN constexpr auto operator()(X x) const {
    return x > -INFINITY ? x : 0;
  }
} finite_or_zero;

// ---- of two
TILE_CONSTANT struct Plus {
  template <class X, class Y>
  TILE_FN constexpr auto operator()(X x, Y y) const {
    return x + y;
  }
} plus;
TILE_CONSTANT struct Minus {
  template <class X, class Y>
  TILE_FN constexpr auto operator()(X x, Y y) const {
    return x - y;
  }
} minus;
TILE_CONSTANT struct TakenFrom {
  template <class X, class Y>
  TILE_FN constexpr auto operator()(X x, Y y) const {
    return y - x;
  }
} taken_from;
TILE_CONSTANT struct Times {
  template <class X, class Y>
  TILE_FN constexpr auto operator()(X x, Y y) const {
    return x * y;
  }
} times;
TILE_CONSTANT struct NegativeTimes {
  template <class X, class Y>
  TILE_FN constexpr auto operator()(X x, Y y) const {
    return -(x * y);
  }
} negative_times;
TILE_CONSTANT struct Over {
  template <class X, class Y>
  TILE_FN constexpr auto operator()(X x, Y y) const {
    return x / y;
  }
} over;
/// Over a count or a gain; 0 where that is 0.
TILE_CONSTANT struct OverOrZero {
  template <class X, class Y>
  TILE_FN constexpr auto operator()(X x, Y y) const {
    return y != 0 ? x / y : y;
  }
} over_or_zero;
TILE_CONSTANT struct Larger {
  template <class X, class Y>
  TILE_FN constexpr auto operator()(X x, Y y) const {
    return maxi(x, y);
  }
} larger;
/// The factor that turns sums of weights 2^(s - from) into sums of weights 2^(s - to).
TILE_CONSTANT struct Rescaling {
  template <class X, class Y>
  TILE_FN auto operator()(X from, Y to) const {
    return ex2(from - to);
  }
} rescaling;
/// The logarithm of a sum of weights 2^(s - top), in base 2.
TILE_CONSTANT struct LogSum {
  template <class X, class Y>
  TILE_FN auto operator()(X sum, Y top) const {
    return top + lg2(sum);
  }
} log_sum;

// ---- in place of the first: zip(site, copy, Y) makes it Y
TILE_CONSTANT struct Copy {
  template <class X, class Y>
  TILE_FN constexpr auto operator()(X, Y y) const {
    return y;
  }
} copy;
TILE_CONSTANT struct CopyTimes {
  template <class X, class Y, class Z>
  TILE_FN constexpr auto operator()(X, Y y, Z z) const {
    return y * z;
  }
} copy_times;
TILE_CONSTANT struct CopyMinus {
  template <class X, class Y, class Z>
  TILE_FN constexpr auto operator()(X, Y y, Z z) const {
    return y - z;
  }
} copy_minus;

// ---- of three
TILE_CONSTANT struct PlusTimes {
  template <class X, class Y, class Z>
  TILE_FN constexpr auto operator()(X x, Y y, Z z) const {
    return x + y * z;
  }
} plus_times;
TILE_CONSTANT struct MinusTimes {
  template <class X, class Y, class Z>
  TILE_FN constexpr auto operator()(X x, Y y, Z z) const {
    return x - y * z;
  }
} minus_times;
/// A step of a write that is on, over a gain.
TILE_CONSTANT struct OverWhereOn {
  template <class X, class Y, class Z>
  TILE_FN constexpr auto operator()(X x, Y y, Z on) const {
    return on != 0 && y != 0 ? x / y : y * 0;
  }
} over_where_on;

// ---- masks: which pairs of a row and a column stay
TILE_CONSTANT struct Lower {
  TILE_FN constexpr bool operator()(int r, int c) const { return r >= c; }
} lower;
TILE_CONSTANT struct StrictlyLower {
  TILE_FN constexpr bool operator()(int r, int c) const { return r > c; }
} strictly_lower;

/// A shared tile in registers.
template <class X, class St, class Tile>
TILE_FN auto in_registers(X& b, St site, Tile& tile) {
  auto x = b.acc(site, Shape<Tile::rows, Tile::cols>{});
  x.zip(site, copy, tile);
  return x;
}

}  // namespace assay::tile
