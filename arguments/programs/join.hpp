#pragma once
// Programs joined to one: what one puts out another takes in, and gradients run through all of them.
#include <map>
#include <string>
#include <vector>

#include "language/program/program.hpp"

namespace assay::arguments {

using Names = std::map<std::string, std::string, std::less<>>;
/// Its other name in `names`, or itself.
const std::string& called(const std::string& name, const Names& names);

/// A chain of programs. Each reads, by name, what those before it have put out; a name that none has put out is an
/// input of the whole. An output hides an earlier one, or an input, of the same name.
class Join {
 public:
  struct Step {
    const language::Program* program;
    Names in, out, axes;
  };

  /// `in`, `out` and `axes`: other names for the program's inputs, outputs and axes. Keeps a pointer to the program.
  Join& then(const language::Program& program, Names in = {}, Names out = {}, Names axes = {});

  /// The whole, with the outputs of these names. Throws InputError if types do not meet.
  language::Program program(const std::string& name, const std::vector<std::string>& outputs) const;
  const std::vector<Step>& steps() const { return steps_; }

 private:
  std::vector<Step> steps_;
};

/// The program with one more output, "states": what `final_state` is before every token, [T][K][V]. Throws InputError
/// if its final_state is not the last state of a scan.
language::Program with_states(const language::Program& program);

}  // namespace assay::arguments
