#pragma once
// The kill table as a drawing.
#include "judge/trial/kill_table.hpp"
#include "tools/plots/plot.hpp"

namespace assay {

/// Kernels by rules: how many of the mutants that show a bit each rule kills.
Plot kill_plot(const KillTable& kills);

}  // namespace assay
