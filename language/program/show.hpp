#pragma once
// A program as one would write it by hand.
#include <string>

#include "language/program/program.hpp"

namespace assay::language {

/// Name and settings, a line for every input, then the body: expressions, a name for what is used twice, a loop for
/// each scan. The text of python/assay/language/show.py, to the letter.
std::string show(const Program& program);

}  // namespace assay::language
