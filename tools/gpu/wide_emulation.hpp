#pragma once
// The emulation of recurrences in the blocks of value columns that wide heads have on a device.
#include <string_view>

#include "kernels/core/kernel_room.hpp"

namespace assay {

/// The CPU's answer to a problem of that recurrence as a device launches it: the parts of dq and dk of each block of
/// columns are rounded before they are added, and so are their scores. The forms of kernels/arguments take all columns
/// in one block. Null for a recurrence that has no such parts.
using RunInBlocks = Answer (*)(const Problem& problem, const Policy& policy, int tile);
RunInBlocks in_blocks_of_wide_heads(std::string_view mechanism);

}  // namespace assay
