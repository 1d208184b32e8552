#pragma once
#include "language/program/program.hpp"

namespace assay::language {

/// Throws InputError, one sentence that names the node, unless every matrix of a definite `solve` is symmetric as
/// written: for all inputs, as outer(k, k) plus a diagonal is.
void require_symmetric(const Program& program);

}  // namespace assay::language
