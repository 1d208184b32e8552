#pragma once
// The kernels with faults to plant, in programs that are linked with them.
#include <span>
#include <string_view>

#include "kernels/core/kernel_room.hpp"

namespace assay {

/// Set by the program and the tests; null in those that only link our libraries.
inline std::span<const KernelRoom* const> (*planted_kernels)() = nullptr;
/// Likewise the forms of a mechanism that take arguments (kernels/arguments/rooms.hpp); null where it has none.
inline const KernelRoom* (*planted_with_arguments)(std::string_view mechanism) = nullptr;
/// Likewise those with held-out mutants (judge/held_out/rooms.hpp).
inline std::span<const KernelRoom* const> (*held_out_kernels)() = nullptr;
/// And of rooms with arguments (judge/held_out/arguments.hpp).
inline const KernelRoom* (*held_out_arguments)(std::string_view room) = nullptr;
/// And why one of these survives where it does, or "".
inline std::string_view (*survival_of_held_out)(std::string_view mutant) = nullptr;

}  // namespace assay
