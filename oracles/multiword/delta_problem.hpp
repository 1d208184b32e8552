#pragma once
// Problems for the delta engine.
#include <span>

#include "oracles/multiword/certified.hpp"
#include "oracles/multiword/number.hpp"

namespace assay::words {

/// One head; row-major; taken as exact. All magnitudes below 2^200, T <= 2^24, K <= 2^12.
struct DeltaProblem {
  std::size_t steps = 0, keys = 0, values = 0;
  std::span<const double> q, k, v;        ///< [T, K], [T, K], [T, V]
  std::span<const double> beta;           ///< [T]; 1 if empty
  std::span<const double> log_decay;      ///< [T] or, no undecayed error, [T, K]; <= 0, -inf allowed; none if empty
  std::span<const double> initial_state;  ///< [K, V]; 0 if empty
  DeltaError error = DeltaError::decayed;
  Factor scale = exactly(1);
};

/// The gradients of the outputs.
struct DeltaCotangent {
  std::span<const double> o;            ///< [T, V]
  std::span<const double> final_state;  ///< [K, V]; 0 if empty
};

}  // namespace assay::words
