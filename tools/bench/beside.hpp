#pragma once
// What comparisons of a GPU and the CPU count: bits and seconds.
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "language/device/gpu.hpp"
#include "reference/core/error.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// Numbers, and those that differ in a bit; a NaN is like another one.
struct ComparedBits {
  std::size_t numbers = 0, differ = 0;

  /// As many of both.
  void add(const std::vector<double>& found, const std::vector<double>& right) {
    for (std::size_t i = 0; i < right.size(); ++i, ++numbers)
      differ += std::bit_cast<std::uint64_t>(found[i]) != std::bit_cast<std::uint64_t>(right[i]) &&
                !(std::isnan(found[i]) && std::isnan(right[i]));
  }
  void add(const Answer& found, const Answer& right) {
    for (const auto& [name, array] : right.outputs) add(found.outputs.at(name).data, array.data);
    for (const auto& [name, array] : right.gradients) add(found.gradients.at(name).data, array.data);
  }
};

/// Of a GPU that has to do all: throws InputError where it does not.
inline language::GpuNews strict_news() {
  return {[](const std::string&) {},
          [](const std::string& what, const std::string& why) { throw InputError(what + ": " + why); },
          [](const std::string& why) { throw InputError(why); }};
}

/// Seconds that work() takes.
template <class F>
double seconds_of(F&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace assay
