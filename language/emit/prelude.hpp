#pragma once
// The beginning of every emitted text.
#include <string>
#include <string_view>

namespace assay::language::device {

/// Macros that make the text C++20 for the host and CUDA for a device (NVRTC), and the functions of the language and
/// how they err in a draw, to the bit as language/evaluate and PerturbedArithmetic have them.
/// `has_few_registers`: a processor has two blocks at once.
std::string prelude(bool has_few_registers);
/// What is behind it where it is needed: products of matrices, systems of equations and rows of scores.
std::string_view products_text();
/// A literal of that double, exactly. The library alone is not asked: fmt 10 writes zero as 0x0p-1022.
std::string literal_of(double x);

}  // namespace assay::language::device
