#pragma once
// Causes of what fails, and, of our own kernels, which roundings make a tensor's error.
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "judge/court/case_trial.hpp"
#include "judge/hypotheses/hypotheses.hpp"
#include "judge/verdict/attribution.hpp"
#include "kernels/core/kernel_room.hpp"

namespace assay {

/// Sets `why` of the judged rows of one kernel: "Sc (bf16) 41%, out (bf16) 30%, ...".
void add_contributions(std::vector<ReportRow>& rows, const KernelUnderTest& kernel, const Problem& problem);

/// Whether a tensor passes by the model and rounds more than the precision's contract allows.
bool is_loose(const ReportRow& row);

/// The tensors of an answer that are loose (is_loose()), and why.
struct Looseness {
  std::vector<std::string> tensors;  ///< of none there is nothing else
  std::string contract;              ///< that of the precision
  std::string sites;                 ///< whose coarser rounding predicts the errors: "vbar in fp16"; "" of none
  std::string obstacle;              ///< where none does, what else is known, in words
  std::string narrow_state = {};     ///< "S in bf16", where that is what is known
};

/// The look of a failure, and its explanations.
struct Why {
  std::size_t failing = 0;          ///< tensors; of none there is nothing else
  std::optional<FirstWrong> first;  ///< where it begins to be wrong
  Causes causes;                    ///< conventions that were misunderstood (judge/hypotheses)
  bool looked_further = false;      ///< because these do not explain all, and there was time; then:
  std::string contract;             ///< one under which nothing fails, or ""
  std::string contract_summary;
  Explanations explanations;  ///< coarser sites, unstable forms, known faults
  bool stopped = false;       ///< by the limit
  Looseness loose = {};       ///< where nothing fails, and there was time

  /// Whether one of the explanations is a reason.
  bool known() const;
  /// Where it begins and what it looks like, in lines.
  std::vector<std::string> findings() const;
  /// The results of looking further, in lines; none if that was not done.
  std::vector<std::string> further() const;
};
/// Whether what it explains is worth saying.
bool says_something(const Explanation& explanation);

/// Explains the failures of rows that `trial` has judged. With a limit in seconds it looks further: conventions of
/// large problems, named contracts, and what judge/verdict/attribution.hpp knows; where nothing fails, sites that round
/// more than the contract allows.
Why why_it_fails(const CaseTrial& trial, const GivenAnswer& got, const std::vector<ReportRow>& rows,
                 OtherContracts& others, std::optional<double> seconds = {});

/// Sets `rounded_at` of rows that pass by the model and not by the contract, as `why` found it.
void name_roundings(std::vector<ReportRow>& rows, const Why& why);

}  // namespace assay
