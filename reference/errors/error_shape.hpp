#pragma once
// An ellipsoid that holds the errors of two coupled states, and what the steps of a recurrence make of it: where no
// norm of a step tells how errors grow, the product of all steps does. docs/error-analysis.md, section 8.
#include <array>
#include <cstddef>
#include <vector>

namespace assay {

/// N ellipsoids, one for each number that a scalar holds. An error is a pair of blocks (x_0, x_1) of `size` numbers
/// each; Q is symmetric and at least the sum of e e^T over all errors e that were added and taken along, so a sum of n
/// errors with the right weights is at most sqrt(n a^T Q a) long in the direction a.
/// What arithmetic in doubles misses is added to Q. NaN and infinity mean that nothing is known.
template <std::size_t N>
class ErrorShape {
 public:
  using Lanes = std::array<double, N>;
  using Vector = std::vector<Lanes>;

  explicit ErrorShape(int size);
  int size() const { return size_; }

  // Coefficients are those of the step within 2^-50, relatively, or within 2^-700.
  /// x_to becomes a x_to + c u (v . x_other). Returns `along` of the other block and v.
  Lanes write(int to, const Lanes& a, const Lanes& c, const Vector& u, const Vector& v);
  /// x_to becomes a x_to + b x_other.
  void mix(int to, const Lanes& a, const Lanes& b);
  /// All errors become f times as large.
  void scale(const Lanes& f);
  /// One more error, no longer than `length`.
  void add(const Lanes& length);

  /// At least sqrt(v^T Q v), v in that block.
  Lanes along(int block, const Vector& v) const;
  /// The same of the unit vector where it is largest.
  Lanes largest(int block) const;

 private:
  std::size_t at(int i, int l) const {
    return static_cast<std::size_t>(i) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(l);
  }
  Lanes& cross(int block, int i, int l) { return block == 0 ? cross_[at(i, l)] : cross_[at(l, i)]; }
  Vector times(int block, const Vector& v) const;
  Lanes quadratic(const Vector& v, const Vector& Qv) const;
  Lanes trace() const;
  /// Adds what a step misses whose terms are `factor` times as large as Q, and `more`, to the diagonal.
  void widen(const Lanes& trace, const Lanes& factor, const Lanes& more = {});

  int size_;
  std::array<Vector, 2> own_;  // x_0 x_0^T and x_1 x_1^T
  Vector cross_;               // x_0 x_1^T
};

extern template class ErrorShape<1>;
extern template class ErrorShape<8>;

}  // namespace assay
