#pragma once
#include <string>

#include "reference/core/problem.hpp"

namespace assay {

/// SHA-256 of all that a problem says: mechanism, params, names, shapes and bits of inputs and cotangents. 64
/// hexadecimal digits.
std::string problem_digest(const Problem& problem);

}  // namespace assay
