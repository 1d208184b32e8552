#pragma once
// A program as one would write it by hand.
#include <string>

#include "language/program/program.hpp"

namespace assay::language {

/// Name and settings, a line for every input, then the body: expressions, a name for what is used twice, a loop for
/// each scan.
std::string show(const Program& program);

}  // namespace assay::language
