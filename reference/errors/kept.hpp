#pragma once
// A recurrence's state between tokens, told to scalars that store it as a kernel does: in fewer bits.
#include "reference/core/columns.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"

namespace assay {

/// A state, or the gradient of one.
enum class Kept { state, gradient };

/// The numbers of `line` are stored: all later reads have the stored ones. Nothing for most scalars.
template <class S>
void keep([[maybe_unused]] Kept what, [[maybe_unused]] const Line<S>& line) {
  if constexpr (requires { S::keep(what, line); }) S::keep(what, line);
}
template <class S>
void keep(Kept what, Columns<S>& matrix) {
  for (int j = 0; j < matrix.size(1); ++j) keep(what, column(matrix, j));
}
template <class S, int Rank>
void keep(Kept what, Tensor<S, Rank>& tensor) {
  keep(what, line(tensor.data));
}

}  // namespace assay
