#pragma once
// What a recurrence answers to a sequence that no memory holds: its reference, segment after segment, with the states
// kept in the scalar that they were computed in.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oracles/core/room.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// A sequence on its way.
class Trajectory {
 public:
  Trajectory() = default;
  Trajectory(const Trajectory&) = delete;
  Trajectory(Trajectory&&) = delete;
  Trajectory& operator=(const Trajectory&) = delete;
  Trajectory& operator=(Trajectory&&) = delete;
  virtual ~Trajectory() = default;

  /// The outputs of the next segment, which goes on from the states that the one before has left. What stands in
  /// their place in `segment` counts for the first one; for the others it is read for its shape. Throws Refusal and
  /// InputError as the room does.
  virtual BasicArrays<HiLo> advance(const Problem& segment) = 0;
};

/// A room in scalars that are quick, from a sequence's first segment on. A trajectory lives as long as its room at
/// most.
struct Recurrence {
  std::string_view name;
  /// Sums of two doubles: at most w2_operation of an operation's result.
  std::unique_ptr<Trajectory> (*in_w2)(const Room& room);
  /// The same in double, to see what rounding makes of it.
  std::unique_ptr<Trajectory> (*in_double)(const Room& room);
};

/// The worst relative error of an operation of W2 over that of double (oracles/scalars/w2.hpp): 40 * 2^-106 / 2^-53.
inline constexpr double w2_over_double = 40 * 0x1p-53;

/// The room's recurrence; null where it takes up no states of a segment before.
const Recurrence* find_recurrence(const Room& room);
/// That of all programs. Defined in language/trajectory.cpp.
const Recurrence& recurrence_of_programs();

/// Outputs and the inputs of the next segment that they are, by name: final_state and initial_state.
std::vector<std::pair<std::string, std::string>> carried_names(const Room& room);

}  // namespace assay
