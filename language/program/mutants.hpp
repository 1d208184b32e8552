#pragma once
// Errors in the formula, one each, from the shape of the program alone: mistakes that an author of a kernel may have
// made. In a gradient program, those of a backward pass.
#include <string>
#include <vector>

#include "language/program/program.hpp"

namespace assay::language {

struct Mutant {
  std::string what;  ///< "0.7 sub: wrong sign": the nodes of scans and of their steps, then what is wrong
  Program program;   ///< with the inputs and outputs of the right one
};

/// A term or factor dropped, a sign, a comparison's equality, a mask ignored, a function left out, a shift, a sequence
/// one token late, rows that read the state before its update, an operand in another's place. No two compute the same
/// program, and none the right one; some may change no number.
std::vector<Mutant> mutants_of(const Program& program);

/// Others that a wrong answer may come from: an operand twice, or the other way round; a value in the place of another
/// that is made of it, wherever one node is made of it, or that it is made of; another parameter; a mean or a root for
/// a sum; a factor of one term in the other, too, or one too much; the square of a number; a system solved twice, by
/// its diagonal, or by so many steps of conjugate gradients.
std::vector<Mutant> further_mutants_of(const Program& program, const std::vector<int>& steps);

}  // namespace assay::language
