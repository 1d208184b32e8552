#pragma once
// Rooms of cases with arguments: reading them from files, their answers, draws for the model.
#include <memory>

#include "language/answers/posed.hpp"
#include "reference/core/problem.hpp"

namespace assay::arguments {

/// The joined program of a case with arguments; null of any other problem.
std::shared_ptr<const language::Mechanism> joined_mechanism(const Problem& problem);
/// The answer to a case with arguments, in doubles.
Answer answer_in_doubles(const Problem& problem);
/// As above, of such a program or of another one in its place.
Answer answer_in_doubles(const Problem& problem, const language::Mechanism& mechanism);

}  // namespace assay::arguments
