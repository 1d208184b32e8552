#include "kernels/draws/drawn.hpp"

#include <algorithm>
#include <atomic>

#include "kernels/arguments/rooms.hpp"
#include "kernels/core/tensor_core.hpp"

namespace assay {
namespace {

std::atomic<DrawExecutor*> chosen = nullptr;

bool is_in(const KernelForm& form, const KernelRoom* room) {
  return room != nullptr && &form >= room->forms.data() && &form < room->forms.data() + room->forms.size();
}

/// Whether all that the form does is planned for a device.
bool is_of_tile_programs(const KernelForm& form) {
  return is_with_arguments(form) ||
         std::ranges::any_of(kernel_rooms(), [&](const KernelRoom* room) { return is_in(form, room); });
}

}  // namespace

bool is_with_arguments(const KernelForm& form) {
  return std::ranges::any_of(kernel_rooms(), [&](const KernelRoom* room) {
    return is_in(form, tile::kernel_rooms::with_arguments(room->name));
  });
}

void draw_with(DrawExecutor* executor) { chosen = executor; }

int draws_at_once(const KernelForm& form, const Problem& problem) {
  DrawExecutor* const executor = chosen;
  return executor == nullptr || !is_of_tile_programs(form) ? 1 : std::max(1, executor->at_once(problem));
}

Answer draw(const KernelForm& form, const Problem& problem, const Policy& policy, int tile) {
  // Only the CPU counts the values that pass through sites, plants faults, and emulates a tensor core.
  const bool plain = is_of_tile_programs(form) && policy.stats == nullptr && !policy.plants_faults() &&
                     tile::TensorCoreEmulation::current() == nullptr;
  DrawExecutor* const executor = plain ? chosen.load() : nullptr;
  if (executor != nullptr && executor->at_once(problem) > 0) try {
      return executor->run(form, problem, policy, tile);
    } catch (const NotDrawn&) {  // its bits are the CPU's, on any device
    }
  return form.run(problem, policy, tile);
}

}  // namespace assay
