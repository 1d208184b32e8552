#pragma once
// Acceptance rules that projects use today, each with its published constants: what the judge is compared with.
// records/detection.md says what they find.
#include <span>
#include <string_view>

#include "reference/core/format.hpp"

namespace assay {

/// A tensor as an acceptance rule sees it. Spans have one length, at least 1.
struct Evidence {
  Format dtype = Format::bf16;       ///< of the answer
  bool gradient = false;             ///< it is one, and not an output
  bool of_key_or_value = false;      ///< it is the gradient of k or v
  int keys = 1;                      ///< that a query attends to at most
  std::span<const double> want;      ///< the exact answer
  std::span<const double> got;       ///< what is judged
  std::span<const double> baseline;  ///< the healthy kernel rounded otherwise, for rules that measure noise by one
};

/// A rule with the constants of its source. All of them reject a number that is none.
struct Rival {
  std::string_view name;
  std::string_view rule;    ///< as its source computes it: o the answer, r the reference, e = o - r, b the baseline
  std::string_view source;  ///< where the constants are from
  std::string_view blind;   ///< what it cannot see, by construction
  bool (*accepts)(const Evidence& evidence);
};
std::span<const Rival> rivals();

/// The rule called `name`, or null.
const Rival* find_rival(std::string_view name);

}  // namespace assay
