#pragma once
// The executor that runs the draws of a form: the CPU's, or another that has its bits and is faster.
#include <cstddef>

#include "kernels/core/kernel_room.hpp"
#include "reference/core/error.hpp"

namespace assay {

/// An executor does not take that problem, tile or contract: the CPU's does.
struct NotDrawn : InputError {
  using InputError::InputError;
};

struct DrawExecutor {
  /// The form that has the bits of that one, or null.
  const KernelForm* (*form_of)(const KernelForm& form);
  /// How many draws of the problem it takes at a time; 0: it is too small to be worth its start.
  int (*at_once)(const Problem& problem);
};

/// Draws of this process go to that executor from now on, where it takes them; null: to the CPU's, as at first. It
/// outlives them.
void draw_with(const DrawExecutor* executor);

/// How many draws of the form are to run at a time, on threads of the caller: more than one on another executor alone,
/// for the CPU's shares the blocks of one draw among the cores.
int draws_at_once(const KernelForm& form, const Problem& problem);

/// form.run(problem, policy, tile), by the executor that draws go to. May be called by several threads.
Answer draw(const KernelForm& form, const Problem& problem, const Policy& policy, int tile);

}  // namespace assay
