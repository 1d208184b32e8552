#pragma once
// What a host and a device's code for draws (on_device.hpp) tell each other.
#include <cstddef>

#include "kernels/draws/draw_numbers.hpp"

namespace assay::draws {

/// Blocks of a launch: block i is of head i / of_head, at row i % of_head * rows. `memory` is that of the blocks that
/// run at once, `at_once` of them: block i after block i - at_once.
struct TileLaunch {
  DrawPolicy policy;
  int blocks = 0, of_head = 1, rows = 1, at_once = 1;
  std::size_t elements = 0;  ///< or no blocks, but so many turns
  double* memory = nullptr;
};

}  // namespace assay::draws
