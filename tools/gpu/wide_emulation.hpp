#pragma once
// The emulation of recurrences in the blocks of value columns that wide heads have on a device.
#include <string_view>

#include "kernels/core/kernel_room.hpp"

namespace assay {

/// What answers a problem of that recurrence on the CPU as kernels/arguments/wide_delta.cu and wide_sums.cu launch it:
/// the parts of dq and dk of each block of columns are rounded before they are added, and so are their scores. The
/// forms of kernels/arguments take all columns in one block. Null of a recurrence that has no such parts.
using RunInBlocks = Answer (*)(const Problem& problem, const Policy& policy, int tile);
RunInBlocks in_blocks_of_wide_heads(std::string_view mechanism);

}  // namespace assay
