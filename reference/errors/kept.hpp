#pragma once
// What a recurrence carries from token to token, told to scalars that store it as a kernel does: in fewer bits.
#include "reference/core/columns.hpp"
#include "reference/core/tensor.hpp"
#include "reference/errors/lines.hpp"

namespace assay {

/// A state, or the gradient of one.
enum class Kept { state, gradient };

/// The numbers of `line` are stored: whoever reads them from here on reads what was stored. Nothing for most scalars.
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
