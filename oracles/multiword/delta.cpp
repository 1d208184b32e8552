#include "oracles/multiword/delta.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "oracles/multiword/delta_prepared.hpp"
#include "oracles/multiword/parallel.hpp"
#include "oracles/multiword/slab_executor.hpp"

namespace assay::words {
namespace {

/// Runs slab `s` and copies what it found to the answer.
void run_slab(const DeltaProblem& x, const Prepared& y, const Kernels& table, std::size_t s, Certified& padded_o,
              Certified& final_state) {
  const std::size_t w = static_cast<std::size_t>(y.words), lanes = y.lanes, first = s * lanes;
  const std::size_t columns = std::min(lanes, x.values - first);
  std::vector<double> state(x.keys * w * lanes, 0);
  std::vector<double> error(lanes, 0);
  if (!x.initial_state.empty())
    for (std::size_t i = 0; i < x.keys; ++i)
      for (std::size_t j = 0; j < columns; ++j) state[i * w * lanes + j] = x.initial_state[i * x.values + first + j];
  double* out[4] = {};
  for (std::size_t i = 0; i < w; ++i) out[i] = padded_o.word[i].data() + first;
  DeltaSlab slab = slab_of(x, y, s, 0, x.steps);
  slab.state = state.data(), slab.error = error.data(), slab.out = out, slab.out_bound = padded_o.bound.data() + first;
  table.words[y.words].delta(slab);
  for (std::size_t i = 0; i < x.keys; ++i)
    for (std::size_t j = 0; j < columns; ++j) {
      const std::size_t to = i * y.stride + first + j;
      for (std::size_t l = 0; l < w; ++l) final_state.word[l][to] = state[(i * w + l) * lanes + j];
      final_state.bound[to] = error[j];
    }
}

}  // namespace

DeltaAnswer delta_forward(const DeltaProblem& problem, const Effort& effort) {
  Prepared prepared = prepare(problem, effort);
  const std::size_t stride = prepared.stride;
  SlabRun run{problem, std::move(prepared), Certified(effort.words, problem.steps, stride),
              Certified(effort.words, problem.keys, stride)};
  if (!run_elsewhere(run)) {
    const Kernels& table = kernels(effort.isa);
    in_parallel(stride / run.prepared.lanes, effort.threads,
                [&](std::size_t s) { run_slab(problem, run.prepared, table, s, run.o, run.final_state); });
  }
  const auto cut = [&](Certified& x) { return stride == problem.values ? std::move(x) : cropped(x, problem.values); };
  DeltaAnswer answer{cut(run.o), cut(run.final_state)};
  answer.o.settle();
  answer.final_state.settle();
  return answer;
}

}  // namespace assay::words
