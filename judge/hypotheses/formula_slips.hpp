#pragma once
// What nobody has written down: the mechanism's own formula with one operation made otherwise
// (language/program/mutants).
#include <vector>

#include "judge/hypotheses/convention.hpp"

namespace assay::hypotheses {

/// Of outputs or of gradients: which formula is wrong.
enum class Pass { forward, backward };

/// Of the programs that answer as the scene's room does, or, of a room without one, none.
std::vector<Convention> formula_slips(const Scene& scene, Pass pass);
/// Of the joined program of a case with arguments, which lies as its file.
std::vector<Convention> formula_slips_of_arguments(const Problem& in_file, const Scene& scene, Pass pass);

}  // namespace assay::hypotheses
