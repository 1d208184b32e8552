#pragma once
// Where an element of a problem's array lies.
#include <cstddef>

#include "reference/core/tensor.hpp"

namespace assay::laws {

/// Element [h][t] or [h][t][x] of an array with two or three axes.
template <class X>
std::size_t index(const BasicArray<X>& a, int h, int t, int x = 0) {
  const int width = a.shape.size() > 2 ? a.shape[2] : 1;
  return (static_cast<std::size_t>(h) * static_cast<std::size_t>(a.shape[1]) + static_cast<std::size_t>(t)) *
             static_cast<std::size_t>(width) +
         static_cast<std::size_t>(x);
}

}  // namespace assay::laws
