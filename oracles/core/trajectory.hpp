#pragma once
// A recurrence's answer to a sequence that no memory holds: segment after segment, with the states kept in the scalar
// that they were computed in.
#include "reference/core/problem.hpp"

namespace assay {

/// A value as an unevaluated sum hi + lo, about 106 bits.
struct HiLo {
  double hi = 0, lo = 0;
};

/// A sequence on its way.
class Trajectory {
 public:
  Trajectory() = default;
  Trajectory(const Trajectory&) = delete;
  Trajectory& operator=(const Trajectory&) = delete;
  virtual ~Trajectory() = default;

  /// The outputs of the next segment, which goes on from the states that the one before has left. The states in
  /// `segment` count for the first one; for the others they are read for their shapes. Throws Refusal and InputError as
  /// the room does.
  virtual BasicArrays<HiLo> advance(const Problem& segment) = 0;
};

/// The worst relative error of an operation of W2 over that of double (oracles/scalars/w2.hpp): 40 * 2^-106 / 2^-53.
inline constexpr double w2_over_double = 40 * 0x1p-53;

}  // namespace assay
