#pragma once
// The types of nodes: inferred, never stated, so that no file can state a wrong one.
#include <span>
#include <vector>

#include "language/program/program.hpp"

namespace assay::language {

/// The types that the operation makes of operands of those types: one, or those of a scan's results. Throws InputError,
/// one sentence without the place, if they do not fit.
std::vector<Type> infer(Op op, const std::vector<std::span<const Type>>& operands, const Attributes& attributes);

/// The three lists of indices of "ab,bc->ac".
struct Contraction {
  std::string left, right, result;
};
/// Throws InputError if that is not what `spec` is.
Contraction contraction_from(std::string_view spec);
/// Whether it sums, and either operand has an index of the result that the other has not.
bool is_of_matrices(const Contraction& c);

}  // namespace assay::language
