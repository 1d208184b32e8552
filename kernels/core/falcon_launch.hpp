#pragma once
// FALCON's rule with one step size per token on the CPU executor: the programs of kernels/core/falcon_gain.hpp around
// those of kernels/core/gated_delta.hpp, compiled once for the rooms whose arithmetic it is.
#include <array>

#include "kernels/core/falcon_gain.hpp"
#include "kernels/core/gated_delta_launch.hpp"

namespace assay::tile {
inline namespace ASSAY_EXECUTORS {

/// As the problem's parameters say.
struct FalconOptions {
  bool next_latent = true, sequence_start = true;
  Coupling coupling = Coupling::raw;

  explicit FalconOptions(const Problem& problem) {
    OptionReader read(problem.params);
    read("alignment", next_latent, {{"same_step", false}, {"next_latent", true}});
    read("sequence_start", sequence_start);
    read("ridge_coupling", coupling, {{"live", Coupling::live}, {"detach", Coupling::detach}});
  }
};

/// Throws InputError where a gradient is wanted and a decay is 0: it would be that of a logarithm.
Answer falcon_rule(const Problem& problem, const Policy& policy, int tile);

/// The faults of these programs.
inline constexpr std::array falcon_mutants = joined(
    gated_delta_mutants,
    std::array{
        Mutant{"floor_forgotten", "decay_floor is not applied", "catalogue"},
        Mutant{"floor_passes_gradient", "a decay at its floor passes its gradient on", "FALCON E.2"},
        Mutant{"ridge_left_out", "the denominator without the ridge", "catalogue"},
        Mutant{"detached_ridge_stays_live", "a detached ridge passes its gradient on to the energy", "catalogue"},
        Mutant{"first_row_writes", "the first row of a sequence decays the state", "catalogue"}});

}  // namespace ASSAY_EXECUTORS
}  // namespace assay::tile
