#include "oracles/multiword/slab_executor.hpp"

#include <atomic>

namespace assay::words {
namespace {

std::atomic<const SlabExecutor*> chosen = nullptr;

}  // namespace

void slabs_with(const SlabExecutor* executor) { chosen = executor; }

int slabs_at_once(std::size_t steps, std::size_t keys, std::size_t values, int words, bool backward) {
  const SlabExecutor* executor = chosen;
  return executor == nullptr ? 0 : executor->at_once(steps, keys, values, words, backward);
}

bool run_elsewhere(SlabRun& run) {
  const SlabExecutor* executor = chosen;
  const DeltaProblem& x = run.problem;
  return executor != nullptr && x.steps > 0 &&
         executor->at_once(x.steps, x.keys, x.values, run.prepared.words, run.backward) > 0 && executor->run(run);
}

std::size_t segment_length(std::size_t steps) {
  std::size_t length = 1;
  while (length * length < steps) ++length;
  return length;
}

}  // namespace assay::words
