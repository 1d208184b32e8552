#pragma once
// States of a scan whose errors are taken together: what a step maps linearly, by columns along one axis.
#include <string>
#include <vector>

#include "language/program/program.hpp"

namespace assay::language {

/// Number by number, a step widens enclosures by the sizes of its matrix, whose norm exceeds the matrix's own: a delta
/// rule, which makes errors smaller, would seem to double them every few tokens. Taken together, as vectors, the errors
/// of a column grow by the norm and no more. docs/error-analysis.md, section 8.4.
struct Joint {
  std::vector<int> states;  ///< they alone enter their next values linearly; nothing else of the step's depends on them
  std::string columns;      ///< the axis along which all columns are mapped alike, or each by what `channels` says
  std::vector<char> linear;  ///< of the body's values: those that depend on the states, on the way to the next ones
  std::vector<char> given;   ///< of the body's values: what else is on that way
  /// The map of a direction by a step: parameters are directions of the states, then `constants` of the body's values.
  std::shared_ptr<const Block> tangent;
  std::vector<int> constants;
  /// In place of a tangent: of the body's values what a step makes of every column (channels_of).
  std::shared_ptr<const Block> channels;
};

/// The parts of a step, by when they are computed.
struct StepPlan {
  std::vector<Joint> joints;  ///< in an order in which none depends on a later one
  std::vector<char> late;     ///< of the body's values: those that rows and other states need, next joint states given
  std::vector<char> late_states;  ///< as above, of other states alone
  std::vector<char> all_states;   ///< those that the next states need, by themselves
};

/// The plan of `body`, the step of a scan with so many states; `joins`: whether joints are asked for.
StepPlan plan_of(const Block& body, int carry, bool joins);

}  // namespace assay::language
