#pragma once
// A program as a recurrence that goes on: its outputs segment after segment, its states kept in the scalar that they
// were computed in.
#include <memory>

#include "language/answers/posed.hpp"
#include "oracles/core/trajectory.hpp"

namespace assay::language {

/// In sums of two doubles, or in doubles. The mechanism stays for as long as they live.
std::unique_ptr<Trajectory> trajectory_in_w2(const Mechanism& mechanism);
std::unique_ptr<Trajectory> trajectory_in_double(const Mechanism& mechanism);

}  // namespace assay::language
