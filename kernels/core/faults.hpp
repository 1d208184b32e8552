#pragma once
// Faults that kernels really had, planted by name in the tile programs. The CPU executor has the one that the policy
// names; on a device, and in draws, every program is healthy at compile time.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

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

/// Whether the policy plants that fault; remembers that it was asked for.
[[gnu::cold, gnu::noinline]] inline bool is_planted(const Policy& policy, std::string_view fault) {
  if (policy.asked != nullptr) policy.asked->emplace(fault);
  return policy.fault == fault;
}
/// `healthy`, or `broken` where the policy plants the fault.
template <class St, class A>
[[gnu::always_inline]] inline A chosen(const Policy& policy, St, A healthy, std::type_identity_t<A> broken) {
  return policy.plants_faults() && is_planted(policy, St::name()) ? broken : healthy;
}

}  // namespace tile
}  // namespace assay
