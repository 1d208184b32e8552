#include "kernels/draws/drawn.hpp"

#include <algorithm>
#include <atomic>

#include "kernels/core/tensor_core.hpp"

namespace assay {
namespace {

std::atomic<const DrawExecutor*> chosen = nullptr;

/// The form that draws go to, or null.
const KernelForm* form_elsewhere(const KernelForm& form, const Problem& problem) {
  const DrawExecutor* executor = chosen;
  return executor == nullptr || executor->at_once(problem) == 0 ? nullptr : executor->form_of(form);
}

}  // namespace

void draw_with(const DrawExecutor* executor) { chosen = executor; }

int draws_at_once(const KernelForm& form, const Problem& problem) {
  return form_elsewhere(form, problem) == nullptr ? 1 : std::max(1, chosen.load()->at_once(problem));
}

Answer draw(const KernelForm& form, const Problem& problem, const Policy& policy, int tile) {
  // Only the CPU counts the values that pass through sites, and emulates a tensor core.
  const bool plain =
      policy.stats == nullptr && policy.asked == nullptr && tile::TensorCoreEmulation::current() == nullptr;
  if (const KernelForm* elsewhere = plain ? form_elsewhere(form, problem) : nullptr; elsewhere != nullptr) {
    try {
      return elsewhere->run(problem, policy, tile);
    } catch (const NotDrawn&) {  // its bits are the CPU's, on any device
    }
  }
  return form.run(problem, policy, tile);
}

}  // namespace assay
