#pragma once
// The kernels with faults to plant, in programs that are linked with them.
#include <span>

#include "kernels/core/kernel_room.hpp"

namespace assay {

/// Set by assay-mutants and the tests; `assay` itself has none, and there it is null.
inline std::span<const KernelRoom* const> (*planted_kernels)() = nullptr;
/// Likewise those with held-out mutants (oracles/held_out/rooms.hpp).
inline std::span<const KernelRoom* const> (*held_out_kernels)() = nullptr;

}  // namespace assay
