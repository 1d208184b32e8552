#pragma once
// A delta rule's problem as its slabs take it: laid out, decays formed, and the bounds of every step.
// docs/error-analysis.md, sections 4 and 4.1.
#include <cstddef>
#include <span>
#include <vector>

#include "oracles/multiword/delta_problem.hpp"
#include "oracles/multiword/lanes/delta_kernels.hpp"

namespace assay::words {

/// The problem in the layout of the slabs.
struct Prepared {
  std::size_t lanes, stride;
  int words;
  DeltaDecay decay_kind;
  std::vector<double> v, beta, decay;
  std::vector<DeltaBound> bound;
  double read_error, scale_error;

  std::size_t decays_per_step(std::size_t keys) const {
    return decay_kind == DeltaDecay::none ? 0 : decay_kind == DeltaDecay::per_step ? 1 : keys;
  }
};

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): x and y where they are defined
/// Columns in multiples of the vector's and of `group`. Throws InputError as delta_forward does.
Prepared prepare(const DeltaProblem& problem, const Effort& effort, std::size_t group = 1);

/// `rows` of numbers in as many columns as the slabs have.
std::vector<double> padded(std::span<const double> x, std::size_t rows, std::size_t columns, std::size_t stride);

/// Without the columns that only fill up the last slab.
Certified cropped(const Certified& padded, std::size_t columns);

/// Throws InputError unless there are `n` numbers below 2^200, or none where that is allowed.
void require_bounded(const char* name, std::span<const double> a, std::size_t n, bool optional);

/// Upper bound on the 2-norm of `n` numbers, `step` apart.
double norm(const double* x, std::size_t n, std::size_t step = 1);

/// The further bounds of the way back.
struct BackwardBounds {
  std::vector<ResidualBound> residual;
  std::vector<AdjointBound> adjoint;
  std::vector<double> of_decay, of_decay_total;  ///< of a step's decays: size, error relative to a product with one
  double sum_error, dot_error;
  double of_query, of_query_total;  ///< the scale's size and error
};
BackwardBounds backward_bounds(const DeltaProblem& problem, const Prepared& prepared);

/// `slab` of steps [first, first + count), but for what it reads and writes of the state.
DeltaSlab slab_of(const DeltaProblem& problem, const Prepared& prepared, std::size_t slab, std::size_t first,
                  std::size_t count);
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

}  // namespace assay::words
