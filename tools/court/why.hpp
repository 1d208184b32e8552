#pragma once
// Causes of what fails, and, of our own kernels, which roundings make a tensor's error.
#include <optional>

#include "judge/hypotheses/hypotheses.hpp"
#include "judge/verdict/attribution.hpp"
#include "kernels/core/kernel_room.hpp"
#include "tools/cases/planted_kernels.hpp"
#include "tools/verbs/check.hpp"

namespace assay {

/// Sets `why` of the judged rows of one kernel: "Sc (bf16) 41%, out (bf16) 30%, ...".
void add_contributions(std::vector<ReportRow>& rows, const KernelUnderTest& kernel, const Problem& problem);

/// What a failure looks like, without looking further.
struct Findings {
  std::optional<FirstWrong> first;
  Causes causes;
  bool any = false;  ///< whether anything fails
  std::vector<std::string> lines() const;

 private:
  friend Findings findings_of(const CaseTrial&, const GivenAnswer&, const std::vector<ReportRow>&, const Effort&);
  std::size_t failing_ = 0;
};
/// Of rows that `trial` has judged.
Findings findings_of(const CaseTrial& trial, const GivenAnswer& got, const std::vector<ReportRow>& rows,
                     const Effort& effort = {});

/// Of what was checked and fails: where it begins to be wrong, and what it looks like (oracles/hypotheses), as findings
/// of the page and, in JSON, as `first_wrong` and `looks_like`. With a limit in seconds it looks further: conventions
/// of large problems, named contracts, and what attribution.hpp knows, as a note and, in JSON, as `why`.
void explain_failures(Checked& checked, std::optional<double> limit);

}  // namespace assay
