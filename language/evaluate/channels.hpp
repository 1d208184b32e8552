#pragma once
#include <memory>
#include <string>
#include <vector>

#include "language/program/program.hpp"

namespace assay::language {

/// The block that makes of the body's values what a step does to every column of `state`, rows along another axis:
/// column c becomes a_c x + b_c u (w . x) and what is given, with vectors u and w that all columns share. Its results
/// are a, b [columns] and u, w [rows]; a alone without a second term. Null where the step is no such map. `linear`: of
/// the body's values those on the way to the next state that depend on it. docs/error-analysis.md, section 8.4.
std::shared_ptr<const Block> channels_of(const Block& body, int state, const std::vector<char>& linear,
                                         const std::string& columns);

}  // namespace assay::language
