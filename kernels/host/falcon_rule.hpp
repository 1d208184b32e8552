#pragma once
// FALCON's rule with one step size per token on the CPU, compiled once for the rooms whose arithmetic it is, and the
// faults of its programs.
#include "kernels/host/falcon_gain.hpp"
#include "kernels/host/gated_delta.hpp"

namespace assay::tile {

/// Throws InputError where a gradient is wanted and a decay is 0: it would be that of a logarithm.
Answer falcon_rule(const Problem& problem, const Policy& policy, int tile);

inline constexpr std::array falcon_mutants = joined(joined(gated_delta_mutants, gain_mutants), coupling_mutants);

}  // namespace assay::tile
