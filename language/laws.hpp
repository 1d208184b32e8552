#pragma once
// The laws that a program obeys, measured on a small case.
#include <string>
#include <vector>

#include "language/answers/posed.hpp"
#include "oracles/core/room.hpp"

namespace assay::language {

/// Something that programs may obey, and whether this one does.
struct Law {
  std::string name;      ///< "causality", "continuation", "heads", "linearity", "permutation"
  std::string sentence;  ///< "row t of o reads nothing of tokens beyond t"
  double error = 0;      ///< the largest deviation, of the tensor's largest number
  bool holds = false;
};

/// The tolerance in 100 digits: numbers that differ by less differ by roundings.
inline constexpr double law_tolerance = 1e-60;

/// The axis of a program's sequences: T, or N of chunks of a written length, "N 16 K", or the axis of its scan.
struct TokenAxis {
  std::string name;
  int chunk = 1;  ///< tokens in a row of it
};
TokenAxis token_axis(const Mechanism& mechanism);

/// The laws of a room that is a program, on its seeded case of seven tokens and two heads, in 100 digits. Throws what
/// the room throws if it makes no such case.
std::vector<Law> laws_of(const Room& room);

/// Why segments of a room that is a program do not go on from each other, in one sentence, or "": no state that leaves
/// comes in again, sequences in chunks, or two runs that are not one, as measured.
std::string stream_obstacle(const Room& room);

}  // namespace assay::language
