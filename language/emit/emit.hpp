#pragma once
// A program as one source text, for the host (C++20) and for a device (CUDA, NVRTC): a draw of evidence `model`
// (PerturbedArithmetic, states wide), to the bit as language/evaluate has it where all operands of contractions are
// finite.
#include <cstddef>
#include <string>
#include <vector>

#include "language/program/program.hpp"

namespace assay::language {

/// Axes of one program whose lengths a text need not know, at most.
inline constexpr std::size_t most_free_lengths = 8;

/// A block of threads is a head. Compile with -ffp-contract=off or --fmad=false, with the macros, and with how draws
/// err as 0 or 1: ASSAY_CUT_OFF, ASSAY_NARROW and ASSAY_EVERY (see the text).
struct Emitted {
  /// The name of the entry: extern "C" NAME(launch, draw), on the host NAME(&launch, &draw, head), and NAME_workspace.
  std::string name;
  std::string text;
  std::vector<std::string> macros;   ///< of lengths that must be known, those of values that go token by token: ASSAY_K
  std::vector<std::string> lengths;  ///< the axes of Launch::length, in order
};

/// The text of a program, or of a program of gradients. Tokens that do not wait for one another go in tiles
/// (language/evaluate/in_tiles.hpp), others one by one. Throws InputError, one sentence that names the node, if no text
/// is emitted for something that it has: systems that are not definite; the larger of two integers, and choices between
/// them; products of written numbers; products of matrices whose lines run over three axes. In a step that goes token
/// by token also softmax, scans, shift and cumsum, rows of its own matrices, values over more than two axes or along
/// tokens, and matrices that share no axis.
Emitted emit(const Program& program);

}  // namespace assay::language
