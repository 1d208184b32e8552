#pragma once
// Held-out mutants of kernels with arguments: what callers and launchers do to arguments, around kernels that are
// healthy. Problems are cases with arguments, their tensors as files have them.
#include <string_view>

#include "kernels/core/kernel_room.hpp"

namespace assay {

/// The forms of "softmax_attention+arguments" and the like with such mutants; null of any other room.
const KernelRoom* held_out_with_arguments(std::string_view name);

}  // namespace assay
