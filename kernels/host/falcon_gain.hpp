#pragma once
// The faults of kernels/programs/falcon_gain.hpp.
#include <array>

#include "kernels/core/faults.hpp"

namespace assay::tile {

/// Faults of gains.
inline constexpr std::array gain_mutants{
    Mutant{"floor_forgotten", "decay_floor is not applied", "catalogue"},
    Mutant{"floor_passes_gradient", "a decay at its floor passes its gradient on", "FALCON E.2"},
    Mutant{"ridge_left_out", "the denominator without the ridge", "catalogue"},
    Mutant{"first_row_writes", "the first row of a sequence decays the state", "catalogue"}};
/// Faults of how the ridge follows the energy.
inline constexpr std::array coupling_mutants{
    Mutant{"detached_ridge_stays_live", "a detached ridge passes its gradient on to the energy", "catalogue"}};

}  // namespace assay::tile
