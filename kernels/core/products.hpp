#pragma once
// How tensor cores sum.
#include "reference/core/format.hpp"

namespace assay {

/// Products that an accumulator sums exactly before it rounds; fp32 and fp64 units round always.
constexpr int products_per_rounding(Format precision) {
  switch (precision) {
    case Format::bf16:
    case Format::fp16:
      return 16;
    case Format::tf32:
      return 8;
    case Format::e4m3:
    case Format::e5m2:
      return 32;
    default:
      return 1;
  }
}

}  // namespace assay
