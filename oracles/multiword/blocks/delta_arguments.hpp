#pragma once
// A delta rule's problem as blocks of threads take it: numbers that go up at once, memory for what is kept on the way,
// and numbers that come back at once.
#include <cstddef>

#include "oracles/multiword/lanes/delta_kernels.hpp"

#ifdef __CUDACC__
#define ASSAY_ON_BOTH __host__ __device__
#else
#define ASSAY_ON_BOTH
#endif

namespace assay::words {

/// Columns of a block: those whose sums over columns are made at once.
inline constexpr std::size_t block_columns = summed_columns;

/// [word][rows][columns] and, after the words, the bounds.
struct BlockPlanes {
  double* data = nullptr;
  std::size_t plane = 0;  ///< from a word to the next
};

/// The arguments of all blocks of a problem. Block x has columns from x * block_columns on.
struct DeltaBlocks {
  std::size_t steps, keys, stride, length;  ///< columns of all blocks; steps of a segment
  DeltaDecay decay_kind;
  DeltaError error_kind;
  bool backward;
  double read_error, scale_error;
  double sum_error, dot_error, of_query, of_query_total, safety, underflow;
  const double *q, *k, *v, *beta, *decay, *scale, *initial_state;
  const DeltaBound* bound;
  // For the way back alone:
  const ResidualBound* residual;
  const AdjointBound* adjoint;
  const double *of_decay, *of_decay_total, *cotangent, *final_cotangent, *final_size;
  BlockPlanes o, final_state, value, first_state;  ///< [steps or keys][stride]
  /// [steps][keys], [steps][keys], [steps][1], [steps][decays of a step], one after the other for each block.
  BlockPlanes of_q, of_k, of_beta, of_log_decay;
  double* work;  ///< block_work numbers for each block

  ASSAY_ON_BOTH std::size_t decays_per_step() const {
    return decay_kind == DeltaDecay::none ? 0 : decay_kind == DeltaDecay::per_step ? 1 : keys;
  }
};

/// Numbers of a state in a block.
ASSAY_ON_BOTH constexpr std::size_t block_state(std::size_t keys, std::size_t words) {
  return keys * words * block_columns;
}
/// Numbers that a block keeps close: a state, and three sums over columns for each key.
ASSAY_ON_BOTH constexpr std::size_t block_close(std::size_t keys, std::size_t words) {
  return block_state(keys, words) + 3 * keys * words * column_sums;
}
/// Numbers that a block keeps beside: what it keeps close, if that is too much; the adjoint while steps run once more;
/// what segments begin with, and what the steps of one leave behind.
ASSAY_ON_BOTH constexpr std::size_t block_work(std::size_t steps, std::size_t length, std::size_t keys,
                                               std::size_t words, bool backward) {
  const std::size_t state = block_state(keys, words), column = state + 2 * block_columns;
  const std::size_t segments = (steps + length - 1) / length;
  const std::size_t trace = (length + 1) * column + length * (words + 1) * block_columns;
  return block_close(keys, words) + (backward ? state + segments * (state + block_columns) + trace : 0);
}

}  // namespace assay::words
