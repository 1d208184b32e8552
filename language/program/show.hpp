#pragma once
// A program as one would write it by hand.
#include <string>

#include "language/program/program.hpp"

namespace assay::language {

/// Which values have names of their own: those that are used twice, or as few as can be read.
enum class Naming { shared, few };

/// Name and settings, a line for every input, then the body: expressions, a name for what is used twice, a loop for
/// each scan.
std::string show(const Program& shown, Naming naming = Naming::shared);

}  // namespace assay::language
