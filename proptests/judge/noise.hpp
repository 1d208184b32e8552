#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>

#include "reference/core/rounding.hpp"

namespace assay {

/// Random numbers of a test.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : bits_{seed} {}
  /// In (0, 1).
  double uniform() { return (static_cast<double>(bits_.next() >> 12) + 0.5) * 0x1p-52; }
  /// Standard normal (Box and Muller).
  double normal() {
    const double u = uniform(), v = uniform();
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
  }

 private:
  RandomBits bits_;
};

}  // namespace assay
