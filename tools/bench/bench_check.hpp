#pragma once
// The cost of a check, phase by phase, each in a process of its own so that its peak of memory is its own.
#include <array>
#include <string>
#include <string_view>

#include "oracles/core/room.hpp"
#include "reference/core/inputs.hpp"

namespace assay {

/// reading the files; truth; draws, of our own tile program and of the model; judging.
inline constexpr std::array<std::string_view, 4> check_phases = {"reading", "truth", "draws", "judging"};

/// One check of a healthy answer, with nothing kept.
struct CheckMeasured {
  double seconds = 0;    ///< wall
  double processor = 0;  ///< of all threads
  double memory = 0;     ///< of the process at its peak, bytes
  double numbers = 0;    ///< of inputs and cotangents
  std::array<double, check_phases.size()> processor_of{}, seconds_of{};
};
/// `judges`: as judge_on takes it. Throws InputError if there is no verdict.
CheckMeasured measure_check(const Room& room, const Shape& shape, bool gradients, int threads, std::uint64_t seed = 1,
                            std::string_view judges = "cpu");

/// Whether a check of the room can be measured: it has a kernel.
bool has_check_cost(const Room& room);

/// The line of tools/cases/check_costs.cpp for the room, measured at four sizes on one thread.
std::string cost_line(const Room& room);

}  // namespace assay
