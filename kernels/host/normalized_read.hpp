#pragma once
// The launches of kernels/plans/normalized_read.hpp on the CPU, and the faults of its programs.
#include <array>

#include "kernels/host/decayed_sums.hpp"
#include "kernels/plans/normalized_read.hpp"

namespace assay::tile {

/// The faults of these programs.
inline constexpr std::array normalized_read_mutants{
    Mutant{"eps_forgotten", "the denominator without eps", "catalogue"},
    Mutant{"mass_is_constant", "backward takes the denominator for a constant", "FLA normalize class"}};

}  // namespace assay::tile
