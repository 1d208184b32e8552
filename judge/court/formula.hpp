#pragma once
// Which errors in the formula of a program a case would have revealed.
#include <cstddef>
#include <string>
#include <vector>

#include "judge/court/case_trial.hpp"

namespace assay {

struct FormulaErrors {
  std::size_t counted = 0, revealed = 0;  ///< that change a number of the case, and of them those that the model fails
  std::vector<std::string> passes;        ///< those that it does not
  std::vector<std::string> no_change;     ///< and those that are not counted
};

/// Tries every mutant of the program and of its gradient (language/program/mutants.hpp) on the case that was judged, in
/// doubles. Throws InputError if the case is not of a program.
FormulaErrors try_formula_errors(const CaseTrial& trial, const std::vector<ReportRow>& rows);

}  // namespace assay
