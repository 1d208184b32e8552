#pragma once
// Kernels of the way back through a delta rule beside the slab of kernels.hpp: the same steps with the traces that they
// leave, one step of the adjoint, and sums over columns (delta_slab.hpp, delta_adjoint.hpp). docs/error-analysis.md,
// section 4.1.
#include "oracles/multiword/lanes/kernels.hpp"

namespace assay::words {

/// The error bound of the residual e of a step.
struct ResidualBound {
  double of_error;  ///< times the column's error before the step
  double of_state;  ///< times the column's size before the step
  double of_sizes;  ///< times |v| + size(P^T k)
};

/// The trace that the steps of a slab leave for the way back. States and their columns' errors and sizes are one more
/// than the steps: the first is the one before.
struct DeltaTrace {
  const ResidualBound* bound;  ///< [steps]
  double* state;               ///< [steps + 1][key][word][lanes]
  double* error;               ///< [steps + 1][lanes]
  double* size;                ///< [steps + 1][lanes]
  double* residual;            ///< [steps][word][lanes]
  double* residual_error;      ///< [steps][lanes]
};

/// Sums over columns are made of eight, of every eighth column, on every machine.
inline constexpr std::size_t column_sums = 8;
/// Columns of such sums: each of the eight then has one run of at most terms_per_renormalisation products.
inline constexpr std::size_t summed_columns = 64;

/// How a step back changes the bound of a column of the adjoint, and what its readings may be off by.
struct AdjointBound {
  double read_state, read, read_cotangent;  ///< of g += c q: times size(g), size(c), |cotangent|
  double key, beta;                         ///< |k|, |beta|
  double reading;                           ///< of k^T g: times size(g)
  double product;                           ///< of beta times a number: times its size
  double growth, of_state, of_own,
      of_size;                  ///< of the new error: times error, size(g), own error and size of beta k^T g
  double erased, erased_error;  ///< of the prediction's part of dk: size and error of what multiplies S_{t-1}
  double floor;                 ///< underflow
};

/// A step back of as many columns as there are lanes.
struct DeltaAdjoint {
  std::size_t keys;
  DeltaDecay decay_kind;
  DeltaError error_kind;
  const double *q, *k;      ///< [keys]
  const double* decay;      ///< [word] or [key][word]
  const double* scale;      ///< [word]
  const double* cotangent;  ///< [lanes] of o
  double beta;
  const AdjointBound* bound;
  double sum_error;      ///< of a sum over columns
  double dot_error;      ///< of a column's <G, S> and the sum of those
  const double* before;  ///< [key][word][lanes] the state, and that after the step
  const double* after;
  const double *before_error, *before_size, *after_error, *after_size, *residual, *residual_error;
  double *adjoint, *error, *size;  ///< carried: [key][word][lanes], [lanes], [lanes]
  double* value[4];                ///< [word] -> [lanes]
  double* value_bound;
  /// Sums over columns, [key][word][column_sums] (of the decay [word][column_sums] if it is per step), each at this
  /// slab's first; and what they may be off by, [column_sums].
  double *of_query, *of_key, *of_decay, *of_strength;
  double *query_error, *key_error, *decay_error, *strength_error;
};

/// n sums of column_sums numbers each, [n][word][column_sums], to n numbers times a factor, with their bounds.
struct ColumnTotals {
  std::size_t n;
  const double* sums;
  const double* factor;    ///< [word], or null: 1
  double* word[4];         ///< [n]
  double* bound;           ///< [n]
  double error, of_total;  ///< the bound is that error, and so much times the size of the total
};

struct DeltaKernels {
  void (*traced)(const DeltaSlab&, const DeltaTrace&);
  void (*back)(const DeltaAdjoint&);
  void (*total)(const ColumnTotals&);
};

/// For 2 to 4 words.
const DeltaKernels& delta_kernels(Isa isa, int words);

}  // namespace assay::words
