#pragma once
// Recurrences with front ends, on the CPU: a room's own forms behind the launches of kernels/frontends/plan.hpp.
#include <vector>

#include "kernels/core/kernel_room.hpp"
#include "kernels/core/tile.hpp"

namespace assay::tile::kernel_rooms {

/// A room's forms that take arguments, or null of what is no recurrence.
const KernelRoom* recurrence_with_arguments(std::string_view mechanism);

}  // namespace assay::tile::kernel_rooms
