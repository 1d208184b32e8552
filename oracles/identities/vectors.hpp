#pragma once
// Numbers of 200 digits in a row: what identities, limits and errata are measured with.
#include <cstddef>
#include <vector>

#include "oracles/scalars/scalar.hpp"
#include "reference/core/error.hpp"

namespace assay::identities {

using Vector = std::vector<Mp200>;

inline Vector difference(const Vector& a, const Vector& b) {
  require(a.size() == b.size(), "vectors of ", a.size(), " and ", b.size(), " numbers have no difference");
  Vector d(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) d[i] = a[i] - b[i];
  return d;
}
inline Vector scaled(const Vector& a, const Mp200& factor) {
  Vector result(a);
  for (Mp200& x : result) x *= factor;
  return result;
}
/// The Euclidean norm.
inline Mp200 norm(const Vector& a) {
  Mp200 sum = 0;
  for (const Mp200& x : a) sum += x * x;
  return sqrt(sum);
}
/// |a - b| / |b|; 0 where both vanish.
inline Mp200 relative_error(const Vector& a, const Vector& b) {
  const Mp200 off = norm(difference(a, b));
  return off == 0 ? off : Mp200(off / norm(b));
}

}  // namespace assay::identities
