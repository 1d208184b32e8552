#pragma once
// The error that weights that sum to zero leave in inexact arithmetic.
#include <type_traits>

#include "reference/errors/lines.hpp"

namespace assay {

/// y_i += left m_i, where weights that sum to zero have left `left`: nothing, but for a scalar whose operations err.
/// The equations put x_j - m in place of x_j where they may; kernels multiply x_j itself, and what their weights leave
/// is multiplied by m.
template <class S>
void add_left_over([[maybe_unused]] const Line<S>& y, [[maybe_unused]] const std::type_identity_t<S>& left,
                   [[maybe_unused]] const detail::LineOf<const S>& m) {
  if constexpr (requires { S::add_left_over(y, left, m); }) S::add_left_over(y, left, m);
}

}  // namespace assay
