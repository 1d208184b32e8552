#pragma once
// Units of operands in 8 bits: e4m3 holds 17 binades, and a head's queries, keys or values may lie anywhere. So they
// are stored as multiples of a power of two that their head has for each of them, weights in [0, 1] as multiples of a
// small one, and products take the units out again. Powers of two round nothing: what is left is the format's own
// rounding.
#include "kernels/core/tile.hpp"

namespace assay::tile {

/// The units of one key/value head and of the query heads that read it: 1 in formats of more than 8 bits.
template <class Real>
struct OperandUnits {
  Real query = 1, key = 1, value = 1, probe = 1;
  Real weight = 1;  ///< what weights in [0, 1] are multiplied by
};

/// The smallest power of two that is not below x >= 0; 0 of 0.
#if defined(__CUDACC__)
TILE_FN float power_of_two_from(float x) { return __uint_as_float((__float_as_uint(x) + 0x7fffff) & 0x7f800000); }
TILE_FN double power_of_two_from(double x) {
  return __longlong_as_double((__double_as_longlong(x) + 0xfffffffffffff) & 0x7ff0000000000000);
}
#else
template <class T>
T power_of_two_from(T x) {
  int exponent = 0;
  const T fraction = std::frexp(x, &exponent);
  return x > 0 ? std::ldexp(T(1), fraction == T(0.5) ? exponent - 1 : exponent) : T(0);
}
#endif

/// The weights p as a left factor, stored as multiples of 1 / unit.
template <class X, class To, class At, class A, class Real>
TILE_FN auto cast_weights(X& b, To to, At at, A& p, Real unit) {
  if (unit != 1) p.map(at, [&](auto y) { return y * unit; });
  return b.cast(to, p);
}

}  // namespace assay::tile
