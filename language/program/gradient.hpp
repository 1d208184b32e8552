#pragma once
// Reverse mode, as a transformation: from a program the program of its gradients, in the same language.
#include "language/program/program.hpp"

namespace assay::language {

/// Inputs: those of the program, and d_NAME for each output. Outputs: those of the program, and d_NAME for each input
/// with a gradient, that of sum <d_output, output>. A scan becomes a scan that keeps its states and a reversed one that
/// does one step again from its state. Zero absorbs: an exactly zero cotangent times anything is zero. Throws
/// InputError if the gradient is beyond all measure.
Program gradient_of(const Program& program);

}  // namespace assay::language
