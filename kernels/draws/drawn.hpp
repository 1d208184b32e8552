#pragma once
// The executor that runs the draws of a form: the CPU's, or a device's, which has its bits and is faster.
#include "kernels/core/kernel_room.hpp"
#include "kernels/host/tile_device.hpp"

namespace assay {

/// A device for draws. Called by several threads.
class DrawExecutor {
 public:
  DrawExecutor() = default;
  DrawExecutor(const DrawExecutor&) = delete;
  DrawExecutor& operator=(const DrawExecutor&) = delete;
  virtual ~DrawExecutor() = default;

  /// How many draws of the problem it takes at a time; 0: it is too small to be worth its start.
  virtual int at_once(const Problem& problem) = 0;
  /// form.run(problem, policy, tile), of a tile program. Throws NotDrawn.
  virtual Answer run(const KernelForm& form, const Problem& problem, const Policy& policy, int tile) = 0;
};

/// Draws of this process go to that executor from now on, where it takes them; null: to the CPU's, as at first. It
/// outlives them.
void draw_with(DrawExecutor* executor);

/// Whether the form is one of those that take arguments (kernels/arguments/rooms.hpp).
bool is_with_arguments(const KernelForm& form);

/// How many draws of a form are to run at a time, on threads of the caller: more than one on another executor alone,
/// for the CPU's shares the blocks of one draw among the cores.
int draws_at_once(const KernelForm& form, const Problem& problem);

/// form.run(problem, policy, tile), by the executor that draws go to. May be called by several threads.
Answer draw(const KernelForm& form, const Problem& problem, const Policy& policy, int tile);

}  // namespace assay
