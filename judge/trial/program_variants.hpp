#pragma once
// Answers of right kernels of a program: algorithms that follow from the program alone, and chunk algorithms that are
// given as files.
#include <string>
#include <vector>

#include "reference/core/format.hpp"
#include "reference/core/problem.hpp"

namespace assay {

struct HealthyAnswer {
  std::string variant;
  Arrays got;  ///< by the names of a report
};

/// Answers of a program in that precision: token by token; so, with the operands of every product rounded, as tensor
/// cores do; and those of `forms`, files of programs with marks, as the precision has the marks and with marks as wide
/// as sums. Those that `wanted` names, or all if it is empty. Throws InputError if a file is no form of the program.
std::vector<HealthyAnswer> program_answers(const Problem& problem, const std::vector<std::string>& forms,
                                           Format precision, const std::vector<std::string>& wanted);

}  // namespace assay
