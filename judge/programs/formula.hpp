#pragma once
// Which errors in the formula of a program a case would have revealed.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "judge/court/case_trial.hpp"
#include "language/answers/posed.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// The program that defines a mechanism with those settings: its own, or that of a room in C++; null if none does.
std::shared_ptr<const language::Mechanism> formula_of(std::string_view mechanism, const Params& params = {});

/// A program with one error in its formula, or in that of its gradients.
struct WrongFormula {
  std::string what;
  language::Mechanism mechanism;
};
/// Every mutant of the program and, with `gradients`, of its gradient (language/program/mutants.hpp).
std::vector<WrongFormula> wrong_formulas(const language::Mechanism& right, bool gradients);

/// The outcome of an error in a case: the case fails it, the case passes it, or no number changes.
enum class Fate { revealed, passes, no_change };
/// The tensors of a case and what the model expects of them.
using ExpectedTensors = std::vector<std::pair<std::string, const Expected*>>;
/// The fates of the errors with these indices, each tried in doubles on the problem, which is of the right program.
std::vector<Fate> fates_of(const std::vector<WrongFormula>& wrong, const std::vector<std::size_t>& which,
                           const Problem& problem, const ExpectedTensors& expected, Format precision, int threads);

struct FormulaErrors {
  std::size_t counted = 0, revealed = 0;  ///< that change a number of the case, and of them those that the model fails
  std::vector<std::string> passes;        ///< those that it does not
  std::vector<std::string> no_change;     ///< and those that are not counted
};

/// Tries every error on the case that was judged. Throws InputError if the case is not of a program.
FormulaErrors try_formula_errors(const CaseTrial& trial, const std::vector<ReportRow>& rows);

}  // namespace assay
