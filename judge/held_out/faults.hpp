#pragma once
// The held-out mutants: faults of launchers and callers, around kernels that are healthy. They were written without
// sight of the judge's rule and are not to tune it by: what it misses among them is reported, not mended here.
#include <span>
#include <string_view>

#include "judge/held_out/call.hpp"
#include "kernels/core/faults.hpp"

namespace assay::held_out {

struct Fault {
  Mutant mutant;
  /// The kernels that have it, words "room" or "room:form"; without a form the room's first.
  std::string_view kernels;
  Answer (*run)(const Call& call);
  std::string_view survives = {};  ///< of one that lives somewhere: why, derived from its cases
};

/// Faults in which a launcher hands the kernel something else than it was given.
std::span<const Fault> input_faults();
/// Options and numbers that a caller leaves out, applies twice or takes from elsewhere.
std::span<const Fault> option_faults();
/// Sequences in several calls, in batches of several lengths, and padded.
std::span<const Fault> sequence_faults();
std::span<const Fault> output_faults();
std::span<const Fault> gradient_faults();

}  // namespace assay::held_out
