#pragma once
// The executor of the slabs of a delta rule: the CPU, or another that has its bits and is faster.
#include <cstddef>
#include <vector>

#include "oracles/multiword/certified.hpp"
#include "oracles/multiword/delta_prepared.hpp"
#include "oracles/multiword/delta_problem.hpp"

namespace assay::words {

/// Gradients that all columns share, of one slice of summed_columns.
struct SharedGradients {
  Certified q, k, beta, log_decay;

  SharedGradients(const DeltaProblem& x, const Prepared& y)
      : q(y.words, x.steps, x.keys),
        k(y.words, x.steps, x.keys),
        beta(y.words, x.steps, 1),
        log_decay(y.words, x.steps, y.decays_per_step(x.keys)) {}
};

/// The problem, and where the answer goes, in as many columns as the slabs have.
struct SlabRun {
  const DeltaProblem& problem;
  Prepared prepared;
  Certified o, final_state;
  // For the way back alone:
  bool backward = false;
  BackwardBounds bounds = {};
  std::vector<double> cotangent = {}, final_cotangent = {};  ///< [T][stride], [K][stride]
  Certified v = {}, initial_state = {};                      ///< of all columns, each slab in its own
  std::vector<SharedGradients> shared = {};                  ///< of each slice
};

struct SlabExecutor {
  /// How many problems of that size it takes at a time; 0: it is too small to be worth its start.
  int (*at_once)(std::size_t steps, std::size_t keys, std::size_t values, int words, bool backward);
  /// Fills in the answer, to the CPU's bits, or says that it does not take the problem. May be called by several
  /// threads.
  bool (*run)(SlabRun& run);
};

/// Slabs of this process go to that executor from now on, where it takes them; null: to the CPU, as at first. It
/// outlives them.
void slabs_with(const SlabExecutor* executor);

/// How many problems are to run at a time, on threads of the caller; 0: as many as it has, for they are the CPU's.
int slabs_at_once(std::size_t steps, std::size_t keys, std::size_t values, int words, bool backward);

/// Whether another executor has filled in the answer.
bool run_elsewhere(SlabRun& run);

/// Steps of a segment: of the way back, states between whose ends are computed again.
std::size_t segment_length(std::size_t steps);

}  // namespace assay::words
