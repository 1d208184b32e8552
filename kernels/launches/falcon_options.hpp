#pragma once
// The options of FALCON's rooms, on the host.
#include "kernels/programs/falcon_gain.hpp"
#include "reference/core/problem.hpp"

namespace assay::tile {

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

}  // namespace assay::tile
