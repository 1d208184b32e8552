#pragma once
// Programs with marks of rounding that their texts do not have: algorithms that follow from a program alone.
#include <string>

#include "language/program/program.hpp"

namespace assay::language {

/// The program with both operands of every contraction marked as rounded at that site, as kernels on tensor cores round
/// them.
Program with_operands_marked(const Program& program, const std::string& site);

}  // namespace assay::language
