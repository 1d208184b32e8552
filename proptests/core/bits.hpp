#pragma once
// Whether numbers are the same to the bit: NaNs and the signs of zeros, too.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "reference/core/problem.hpp"

namespace assay {

inline bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }
inline bool same_bits(const Array& a, const Array& b) {
  return a.shape == b.shape && std::ranges::equal(a.data, b.data, [](double x, double y) { return same_bits(x, y); });
}

}  // namespace assay
