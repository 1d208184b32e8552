#pragma once
// The tile programs that take arguments (docs/arguments.md), by the mechanism that they are of. Their problems are
// those of the programs in arguments/programs, one sequence each.
#include "kernels/core/kernel_room.hpp"

namespace assay {

namespace tile::kernel_rooms {
extern const KernelRoom softmax_attention_with_arguments, parallax_with_arguments;
}
namespace tile::mutant_rooms {
extern const KernelRoom softmax_attention_with_arguments, parallax_with_arguments;
}

/// The forms of a mechanism that take arguments, or null; of the library of mutants, likewise.
inline const KernelRoom* find_argument_kernels(std::string_view mechanism) {
  return mechanism == "softmax_attention" ? &tile::kernel_rooms::softmax_attention_with_arguments
         : mechanism == "parallax"        ? &tile::kernel_rooms::parallax_with_arguments
                                          : nullptr;
}
inline const KernelRoom* find_argument_mutants(std::string_view mechanism) {
  return mechanism == "softmax_attention" ? &tile::mutant_rooms::softmax_attention_with_arguments
         : mechanism == "parallax"        ? &tile::mutant_rooms::parallax_with_arguments
                                          : nullptr;
}

}  // namespace assay
