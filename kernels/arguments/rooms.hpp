#pragma once
// The tile programs that take arguments (docs/arguments.md), by the mechanism that they are of. Their problems are
// those of the programs in arguments/programs, one sequence each, and for recurrences with the words that choose the
// program among their params.
#include "kernels/core/kernel_room.hpp"

namespace assay::tile::kernel_rooms {
extern const KernelRoom softmax_attention_with_arguments, parallax_with_arguments;
/// The forms of a mechanism that take arguments, or null.
const KernelRoom* with_arguments(std::string_view mechanism);
}  // namespace assay::tile::kernel_rooms
