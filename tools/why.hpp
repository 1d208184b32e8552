#pragma once
// Causes of what fails, and, of our own kernels, which roundings make a tensor's error.
#include <optional>

#include "kernels/core/kernel_room.hpp"
#include "oracles/core/attribution.hpp"
#include "tools/check.hpp"
#include "tools/planted_kernels.hpp"

namespace assay {

/// Sets `why` of the judged rows of one kernel: "Sc (bf16) 41%, out (bf16) 30%, ...".
void add_contributions(std::vector<ReportRow>& rows, const KernelUnderTest& kernel, const Problem& problem);

/// Of what was checked and fails: where it begins to be wrong, and what it looks like (oracles/hypotheses), as findings
/// of the page and, in JSON, as `first_wrong` and `looks_like`. With a limit in seconds it looks further: conventions
/// of large problems, named contracts, and what attribution.hpp knows, as a note and, in JSON, as `why`.
void explain_failures(Checked& checked, std::optional<double> limit);

}  // namespace assay
