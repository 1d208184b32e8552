#pragma once
// Work that a step of attention need not do: scores that its mask leaves out, and tokens one after the other.
#include <vector>

#include "language/program/program.hpp"

namespace assay::language {

/// Scores that count where a mask lets see alone.
struct ScoreMasks {
  /// A truth value for every value, which says on which of its numbers nothing depends; -1: all may count. Scores
  /// before a softmax, and what is multiplied by its weights.
  std::vector<int> mask;
  std::vector<char> early;  ///< values that masks are made of: integers and truth values, which no number decides
  bool any = false;
};
ScoreMasks masks_of(const Block& body);

/// Values that are made of written numbers, integers and truth values alone: in draws they do not err, since kernels
/// count in integers.
std::vector<char> counted_by(const Block& body);

/// Whether the step of a scan, with so many states, only adds to them, what no state decides, so that tokens may go
/// side by side.
bool adds_up(const Block& body, int carry);

}  // namespace assay::language
