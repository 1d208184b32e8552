#pragma once
// The eight cases of a program's suite, chosen by the errors in its formula that they show.
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "oracles/core/room.hpp"
#include "tools/cases/suite_measure.hpp"

namespace assay {

struct ProgramSuite {
  std::vector<SuiteCandidate> cases;
  std::vector<std::size_t> shows;   ///< of each, the errors that those before it do not show
  std::size_t errors = 0;           ///< that change a number of some case that was tried
  std::size_t shown = 0;            ///< of them, those that one of the eight fails
  std::size_t no_change = 0;        ///< errors that change no number of any
  std::vector<std::string> hidden;  ///< those that no case of the eight fails
};

/// General cases, lengths at and beyond a chunk and inputs that hide little; an error that they hide is tried on every
/// other style, length and gate, and the case that shows most of such errors takes the place of one that shows none.
/// Heads have 8 dimensions, precision is bf16: the choice depends on the program alone, and is made once a process and
/// kept for others (judge/court/cache.hpp). Throws InputError if no program defines the room, or the oracle answers no
/// case.
const ProgramSuite& program_suite(const Room& room, int threads, const std::function<void(std::size_t total)>& done);

}  // namespace assay
