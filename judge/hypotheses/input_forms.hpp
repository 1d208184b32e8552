#pragma once
// Inputs that a kernel reads otherwise than they lie: other heads, the other way round, a part of them, cut off.
#include <string>
#include <vector>

#include "judge/hypotheses/convention.hpp"

namespace assay::hypotheses {

/// An input that a kernel reads in another form; `key` and `what` follow its name.
struct InputForm {
  std::string key, what, mend;
  Move move;
  Gradient gradient = Gradient::moved;
  bool looks_ahead = false, whole_sequences = false;
};
void add_form(std::vector<Convention>& list, const std::string& name, const InputForm& form);

/// Each input by itself, of any room and program, with its gradient taken back through the change, or left as it is.
void add_input_forms(std::vector<Convention>& list, const Scene& scene);

}  // namespace assay::hypotheses
