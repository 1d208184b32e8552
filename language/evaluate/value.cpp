#include "language/evaluate/value.hpp"

namespace assay::language {

Strides Strides::dense() const {
  Strides d = *this;
  d.offset = 0;
  std::ptrdiff_t next = 1;
  for (int r = rank - 1; r >= 0; --r) d.step[at(r)] = next, next *= length[at(r)];
  return d;
}

bool Strides::is_dense() const {
  const Strides d = dense();
  return offset == 0 && std::equal(step.begin(), step.begin() + rank, d.step.begin());
}

Strides Strides::without(int axis) const {
  Strides less = *this;
  --less.rank;
  for (int r = axis; r < less.rank; ++r) less.length[at(r)] = length[at(r + 1)], less.step[at(r)] = step[at(r + 1)];
  return less;
}

Strides Strides::with(int axis, int n, std::ptrdiff_t by) const {
  Strides more = *this;
  ++more.rank;
  for (int r = rank; r > axis; --r) more.length[at(r)] = length[at(r - 1)], more.step[at(r)] = step[at(r - 1)];
  more.length[at(axis)] = n, more.step[at(axis)] = by;
  return more;
}

}  // namespace assay::language
