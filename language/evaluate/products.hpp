#pragma once
// Contractions of draws as products of matrices.
#include <cstddef>
#include <span>

#include "oracles/scalars/perturbed.hpp"

namespace assay::language {

/// One index of a contraction: its length, and its steps in the operands and the result; 0 where it does not occur.
struct Index {
  int length = 0;
  std::ptrdiff_t left = 0, right = 0, result = 0;
  bool in_left = false, in_right = false, in_result = false;

  bool is_summed() const { return !in_result; }
  /// In the result and one operand.
  bool is_free() const { return in_result && in_left != in_right; }
};

/// Adds the contraction of two arrays to `out`, which is row-major. Each sum is one of PerturbedArithmetic::add_sums,
/// the random numbers of element i of `out` are those of element i of the draw's place. Terms that are zero round
/// nothing.
void add_products(std::span<const Index> indices, const double* left, const double* right, double* out,
                  PerturbedArithmetic& draw);

}  // namespace assay::language
