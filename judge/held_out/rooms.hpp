#pragma once
// The held-out mutants as kernels: forms like those of the planted ones, with faults of launchers and callers.
#include <span>

#include "kernels/core/kernel_room.hpp"

namespace assay {

/// Rooms and forms with held-out mutants, in the order of mechanisms.def; what a form has to say beside its mutants is
/// the healthy one's. A form's `run` plants policy.fault, and is the healthy one without it; a changed problem that the
/// kernel refuses shows nothing.
std::span<const KernelRoom* const> held_out_rooms();

/// Why the held-out mutant of that name survives where it does, derived from its cases; "" where that is not known.
std::string_view survival_of(std::string_view mutant);

}  // namespace assay
