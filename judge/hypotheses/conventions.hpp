#pragma once
// What a kernel would answer that is right but for one convention: another scale, a decay in base 2, a mask one off.
#include <functional>
#include <string>
#include <vector>

#include "judge/hypotheses/scene.hpp"

namespace assay::hypotheses {

/// One misunderstanding.
struct Convention {
  std::string key;   ///< "log_decay in base 2"
  std::string what;  ///< after "looks like"
  std::string mend;  ///< what to do then
  /// What such a kernel answers, by the names of a report; NaN where that depends on more than the convention, and
  /// under "d_x, raw" a gradient for those that differentiate the changed input instead of the given one. Throws what
  /// the room throws: then no kernel can have done so.
  std::function<Arrays(const Scene&)> answer;
  bool looks_ahead = false;      ///< later tokens matter to earlier outputs
  bool whole_sequences = false;  ///< heads are more than groups side by side
  std::string only = {};         ///< the one tensor that it speaks of; "": all that it answers
};

/// Those that a problem of this room can meet, the likelier first.
std::vector<Convention> conventions_of(const Scene& scene);

}  // namespace assay::hypotheses
