#pragma once
// Matrices of numbers of 200 digits, for forms that are written out.
#include <cstddef>

#include "oracles/identities/exact_problem.hpp"
#include "reference/core/error.hpp"

namespace assay::identities {

/// Row vectors are matrices of one row.
struct Matrix {
  int rows = 0, cols = 0;
  Vector data;

  Matrix() = default;
  Matrix(int r, int c) : rows(r), cols(c), data(static_cast<std::size_t>(r) * static_cast<std::size_t>(c)) {}
  /// An array of two axes, or a column of one.
  explicit Matrix(const BasicArray<Mp200>& a)
      : rows(a.shape.at(0)), cols(a.shape.size() > 1 ? a.shape[1] : 1), data(a.data) {}

  Mp200& operator()(int i, int j) { return data[at(i, j)]; }
  const Mp200& operator()(int i, int j) const { return data[at(i, j)]; }
  /// Row i, as a matrix and as numbers.
  Matrix operator[](int i) const {
    Matrix one(1, cols);
    one.data = row(i);
    return one;
  }
  Vector row(int i) const {
    const auto from = data.begin() + static_cast<std::ptrdiff_t>(at(i, 0));
    return {from, from + cols};
  }
  void set_row(int i, const Matrix& to) {
    for (int j = 0; j < cols; ++j) (*this)(i, j) = to(0, j);
  }
  BasicArray<Mp200> array() const { return {{rows, cols}, data}; }

 private:
  std::size_t at(int i, int j) const {
    return static_cast<std::size_t>(i) * static_cast<std::size_t>(cols) + static_cast<std::size_t>(j);
  }
};

inline Matrix operator+(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] += b.data[i];
  return a;
}
inline Matrix operator*(const Mp200& factor, Matrix a) {
  for (Mp200& x : a.data) x *= factor;
  return a;
}
inline Matrix operator-(const Matrix& a, const Matrix& b) { return a + Mp200(-1) * b; }
inline Matrix& operator+=(Matrix& a, const Matrix& b) { return a = a + b; }
inline Matrix& operator-=(Matrix& a, const Matrix& b) { return a = a - b; }
inline Matrix operator*(const Matrix& a, const Matrix& b) {
  require(a.cols == b.rows, "matrices of ", a.cols, " columns and ", b.rows, " rows have no product");
  Matrix c(a.rows, b.cols);
  for (int i = 0; i < a.rows; ++i)
    for (int l = 0; l < a.cols; ++l)
      for (int j = 0; j < b.cols; ++j) c(i, j) += a(i, l) * b(l, j);
  return c;
}
/// a^T; of a row, the column.
inline Matrix transposed(const Matrix& a) {
  Matrix b(a.cols, a.rows);
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < a.cols; ++j) b(j, i) = a(i, j);
  return b;
}
inline Matrix entrywise(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] *= b.data[i];
  return a;
}
/// The sum of the products of the entries.
inline Mp200 dot(const Matrix& a, const Matrix& b) {
  Mp200 sum = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) sum += a.data[i] * b.data[i];
  return sum;
}
inline Matrix diagonal(const Vector& d) {
  Matrix a(static_cast<int>(d.size()), static_cast<int>(d.size()));
  for (int i = 0; i < a.rows; ++i) a(i, i) = d[static_cast<std::size_t>(i)];
  return a;
}
inline Matrix unit(int n) { return diagonal(Vector(static_cast<std::size_t>(n), 1)); }

}  // namespace assay::identities
