#pragma once
// Faults that kernels really had, planted by name in the tile programs. The executors of the product answer `healthy`
// at compile time, so a mutant never reaches a user; the library of mutants is the same sources compiled with
// ASSAY_PLANT_FAULTS, in namespaces of its own: rooms in ASSAY_KERNEL_ROOMS, executors in ASSAY_EXECUTORS, so that both
// libraries can be linked into one program.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "kernels/core/policy.hpp"
#include "kernels/core/tile.hpp"

namespace assay {

/// One planted fault: the name its tile program asks for, what it does, and where it was seen.
struct Mutant {
  std::string_view name, what, seen;
};

/// The faults of a shared program and those of a room.
template <std::size_t N, std::size_t M>
constexpr std::array<Mutant, N + M> joined(const std::array<Mutant, N>& a, const std::array<Mutant, M>& b) {
  std::array<Mutant, N + M> all{};
  std::copy(a.begin(), a.end(), all.begin());
  std::copy(b.begin(), b.end(), all.begin() + N);
  return all;
}

namespace tile {

#ifdef ASSAY_PLANT_FAULTS
#define ASSAY_KERNEL_ROOMS mutant_rooms
#define ASSAY_EXECUTORS planted_executors
struct Faults {
  static constexpr bool planted = true;
  template <class St, class A>
  static A choose(const Policy& policy, St, A healthy, A broken) {
    if (policy.asked != nullptr) policy.asked->emplace(St::name());
    return policy.fault == St::name() ? broken : healthy;
  }
};
#else
#define ASSAY_KERNEL_ROOMS kernel_rooms
#define ASSAY_EXECUTORS healthy_executors
struct NoFaults {
  static constexpr bool planted = false;
  template <class St, class A>
  static constexpr A choose(const Policy&, St, A healthy, A) {
    return healthy;
  }
};
using Faults = NoFaults;
#endif

}  // namespace tile
}  // namespace assay
