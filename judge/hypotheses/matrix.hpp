#pragma once
// Small matrices of doubles, for algorithms by blocks that are written out.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "judge/hypotheses/scene.hpp"

namespace assay::hypotheses {

struct Matrix {
  std::size_t rows = 0, cols = 0;
  Values data = {};

  Matrix() = default;
  Matrix(std::size_t r, std::size_t c) : rows(r), cols(c), data(r * c, 0.0) {}
  double& operator()(std::size_t i, std::size_t j) { return data[i * cols + j]; }
  double operator()(std::size_t i, std::size_t j) const { return data[i * cols + j]; }
};

inline Matrix transposed(const Matrix& a) {
  Matrix t(a.cols, a.rows);
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < a.cols; ++j) t(j, i) = a(i, j);
  return t;
}
inline Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix product(a.rows, b.cols);
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t k = 0; k < a.cols; ++k)
      for (std::size_t j = 0; j < b.cols; ++j) product(i, j) += a(i, k) * b(k, j);
  return product;
}
/// Number (i, j) becomes f(i, j, what it is).
template <class F>
Matrix mapped(Matrix a, const F& f) {
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < a.cols; ++j) a(i, j) = f(i, j, a(i, j));
  return a;
}
inline Matrix operator*(double factor, Matrix a) {
  for (double& x : a.data) x *= factor;
  return a;
}
inline Matrix operator+(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] += b.data[i];
  return a;
}
inline Matrix operator-(Matrix a, const Matrix& b) { return std::move(a) + -1.0 * b; }
/// Number by number.
inline Matrix each(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] *= b.data[i];
  return a;
}
/// Head h of an array [heads, rows, cols], and m added to it.
inline Matrix head_of(const Array& x, std::size_t h) {
  Matrix m(static_cast<std::size_t>(x.shape[1]), static_cast<std::size_t>(x.shape[2]));
  std::copy_n(x.data.begin() + static_cast<std::ptrdiff_t>(h * m.data.size()), m.data.size(), m.data.begin());
  return m;
}
inline void add_to_head(Array& to, const Matrix& m, std::size_t h) {
  for (std::size_t i = 0; i < m.data.size(); ++i) to.data[h * m.data.size() + i] += m.data[i];
}

}  // namespace assay::hypotheses
