#pragma once
// The beginning of every emitted text.
#include <string>

namespace assay::language::device {

/// Macros that make the text C++20 for the host and CUDA for a device (NVRTC), and the functions of the language, to
/// the bit as language/evaluate has them in doubles.
std::string prelude();
/// A literal of that double, exactly. The library alone is not asked: fmt 10 writes zero as 0x0p-1022.
std::string literal_of(double x);
/// The text that follows the prelude in draws: random numbers, and how operations err by them, to the bit as
/// PerturbedArithmetic has them.
std::string prelude_of_draws();

}  // namespace assay::language::device
