#pragma once
// --why: which roundings make a tensor's error, and which coarser one, or which known fault, explains one that fails.
#include <span>
#include <string>

#include "kernels/core/kernel_room.hpp"
#include "oracles/core/attribution.hpp"
#include "tools/check.hpp"
#include "tools/planted_kernels.hpp"

namespace assay {

/// Sets `why` of the judged rows of one kernel: "Sc (bf16) 41%, out (bf16) 30%, ...".
void add_contributions(std::vector<ReportRow>& rows, const KernelUnderTest& kernel, const Problem& problem);

/// The same of what was checked; and where a tensor fails, what explains it: in the page's notes and, in JSON, as
/// `why`.
void explain_check(Checked& checked);

}  // namespace assay
