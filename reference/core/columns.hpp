#pragma once
// A state whose columns lie together in memory: recurrences walk down a column at a time.
#include <cstddef>
#include <vector>

#include "reference/core/tensor.hpp"

namespace assay {

/// A matrix [K, V], column by column.
template <class S>
class Columns {
 public:
  Columns(int rows, int columns)
      : rows_(rows),
        columns_(columns),
        data_(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns), S(0)) {}
  explicit Columns(const Tensor<S, 2>& matrix) : Columns(matrix.size(0), matrix.size(1)) {
    for (int j = 0; j < columns_; ++j)
      for (int i = 0; i < rows_; ++i) (*this)(i, j) = matrix(i, j);
  }
  Tensor<S, 2> tensor() const {
    Tensor<S, 2> matrix(rows_, columns_);
    for (int j = 0; j < columns_; ++j)
      for (int i = 0; i < rows_; ++i) matrix(i, j) = (*this)(i, j);
    return matrix;
  }

  int size(int r) const { return r == 0 ? rows_ : columns_; }
  S& operator()(int i, int j) { return column(j)[i]; }
  const S& operator()(int i, int j) const { return data_[at(j) + static_cast<std::size_t>(i)]; }
  /// Its `size(0)` numbers.
  S* column(int j) { return data_.data() + at(j); }

 private:
  std::size_t at(int j) const { return static_cast<std::size_t>(j) * static_cast<std::size_t>(rows_); }

  int rows_, columns_;
  std::vector<S> data_;
};

}  // namespace assay
