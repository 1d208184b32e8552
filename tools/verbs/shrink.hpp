#pragma once
// `assay check --shrink`: a smaller case on which the same kernel fails.
#include "judge/court/seeded_case.hpp"
#include "tools/run/checked.hpp"

namespace assay {

/// The case that --shrink starts from. Throws InputError if there is none, or no kernel to run on others.
SeededCase case_to_shrink(const CheckOptions& options);

/// Where a tensor of `checked` fails: looks for a smaller case on which one of those tensors fails, tells it in the
/// page's notes and, in JSON, as `smallest`, and writes it to `file`, if there is one.
void shrink_check(const CheckOptions& options, const SeededCase& seeded, Checked& checked, OutputFile* file,
                  Console& console);

}  // namespace assay
