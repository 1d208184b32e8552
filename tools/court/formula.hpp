#pragma once
// Which errors in the formula of a program a case would have revealed.
#include "tools/verbs/check.hpp"

namespace assay {

/// Tries every mutant of the program and of its gradient (language/mutants.hpp) on the case that was judged, in
/// doubles, and adds to the page how many the model fails, and which not. Those that change no number of this case are
/// listed and not counted. Throws InputError if the case is not of a program.
void add_formula_mutants(Checked& checked);

}  // namespace assay
