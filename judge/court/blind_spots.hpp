#pragma once
// The errors that a case with arguments would not have shown: a PASS says little where nothing would have failed.
#include <string>
#include <vector>

#include "judge/court/case_trial.hpp"

namespace assay {

/// The errors that kernels make and that the model would have passed in every tensor that was judged: "soft_cap left
/// out", "sink in bf16", "q and k normalised". Empty for a case without arguments.
std::vector<std::string> blind_spots_of(const CaseTrial& trial, const std::vector<ReportRow>& rows);

}  // namespace assay
