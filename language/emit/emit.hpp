#pragma once
// A program as one source text, for the host (C++20) and for a device (CUDA, NVRTC): its evaluation in doubles, to the
// bit as language/evaluate has it where all operands of contractions are finite.
#include <string>
#include <vector>

#include "language/program/program.hpp"

namespace assay::language {

/// A block of threads is a head of a draw: block = draw * heads + head. Compile with -ffp-contract=off or --fmad=false.
struct Emitted {
  /// The name of the entry: extern "C" NAME(launch), on the host NAME(&launch, block), and NAME_workspace. In draws
  /// NAME(launch, draws) and NAME(&launch, draws, block).
  std::string name;
  std::string text;
  std::vector<std::string> macros;   ///< of lengths that must be known: ASSAY_K, ...
  std::vector<std::string> lengths;  ///< the axes of Launch::length, in order
};

/// The text of a program, or of a program of gradients. Throws InputError, one sentence that names the node, if no text
/// is emitted for something that it has: softmax, logsumexp and solve; the larger of two integers, and choices between
/// them; scans along more than four axes. In a step also scans, shift and cumsum, rows of its own matrices, values over
/// more than two axes or along tokens, and matrices that share no axis.
///
/// `draws`: the text of draws of evidence `model` (PerturbedArithmetic, states wide), with the evaluator's bits. A draw
/// is a number of `Draw`, which the text declares: its seed, and how operands, sums and operations err.
Emitted emit(const Program& program, bool draws = false);

}  // namespace assay::language
