#pragma once
// A program as one source text, for the host (C++20) and for a device (CUDA, NVRTC): a draw of evidence `model`
// (PerturbedArithmetic, states wide), to the bit as language/evaluate has it where all operands of contractions are
// finite.
#include <cstddef>
#include <string>
#include <vector>

#include "language/program/program.hpp"

namespace assay::language {

/// Axes that scans of one program run along, at most.
inline constexpr std::size_t most_scan_axes = 4;

/// A block of threads is a head. Compile with -ffp-contract=off or --fmad=false, with the macros, and with how draws
/// err as 0 or 1: ASSAY_CUT_OFF, ASSAY_NARROW and ASSAY_EVERY (see the text).
struct Emitted {
  /// The name of the entry: extern "C" NAME(launch, draw), on the host NAME(&launch, &draw, head), and NAME_workspace.
  std::string name;
  std::string text;
  std::vector<std::string> macros;   ///< of lengths that must be known: ASSAY_K, ...
  std::vector<std::string> lengths;  ///< the axes of Launch::length, in order
};

/// The text of a program, or of a program of gradients. Throws InputError, one sentence that names the node, if no text
/// is emitted for something that it has: softmax, logsumexp and solve; the larger of two integers, and choices between
/// them; sums of written numbers; scans along more than four axes. In a step also scans, shift and cumsum, rows of its
/// own matrices, values over more than two axes or along tokens, and matrices that share no axis.
Emitted emit(const Program& program);

}  // namespace assay::language
