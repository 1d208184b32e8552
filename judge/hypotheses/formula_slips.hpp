#pragma once
// Mistakes that are in no list: the mechanism's own formula with one operation made otherwise
// (language/program/mutants).
#include <vector>

#include "judge/hypotheses/convention.hpp"

namespace assay::hypotheses {

/// The formula that is wrong: that of outputs or that of gradients.
enum class Pass { forward, backward };

/// The mistakes in the programs that answer as the scene's room does, or, for a room without one, none.
std::vector<Convention> formula_slips(const Scene& scene, Pass pass);
/// The mistakes in the joined program of a case with arguments, which lies as its file.
std::vector<Convention> formula_slips_of_arguments(const Problem& in_file, const Scene& scene, Pass pass);

}  // namespace assay::hypotheses
