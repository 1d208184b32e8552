#pragma once
// Invariances of a kernel's bits: run again, and each sequence alone. No tolerance, no oracle.
#include <functional>
#include <map>
#include <string>

#include "files/safetensors.hpp"

namespace assay {

/// Runs a kernel on a case's tensors, whose first axis, where they have one, is the batch of so many sequences.
using KernelRun = std::function<Safetensors(const Safetensors& problem, int sequences)>;

/// The case of sequence `b` alone: tensors without axes stand for all sequences and stay.
Safetensors sequence_alone(const Safetensors& batch, int b);

/// For each tensor of `answer` whose bits are others when the kernel is run again, or when the first or the last
/// sequence of a batch of several is all there is, or where other bytes lie around the inputs: one sentence that names
/// the first element. `other_padding` runs it so; null where these bytes are unknown.
std::map<std::string, std::string> changed_bits(const Safetensors& problem, const Safetensors& answer,
                                                const KernelRun& run,
                                                const std::function<Safetensors()>& other_padding = {});

}  // namespace assay
