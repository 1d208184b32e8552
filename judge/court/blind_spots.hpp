#pragma once
// What a case with arguments would not have shown: a judge that passes a kernel says little where nothing would have
// failed.
#include <string>
#include <vector>

#include "judge/court/case_trial.hpp"

namespace assay {

/// Of errors that kernels make, those that the model would have passed in every tensor that was judged: "soft_cap left
/// out", "sink in bf16", "q and k normalised". Empty of a case without arguments.
std::vector<std::string> blind_spots_of(const CaseTrial& trial, const std::vector<ReportRow>& rows);

}  // namespace assay
