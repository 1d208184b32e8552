#pragma once
// A tensor judged by the evidence `model` (judge/sigma/model.hpp), other healthy algorithms asked before it fails.
#include <string>
#include <vector>

#include "judge/verdict/judge.hpp"
#include "reference/core/format.hpp"

namespace assay {

class OtherAlgorithms;

/// Judges by the model: PASS up to the factor that passes, FAIL beyond the one that fails, UNDECIDED between, and where
/// other algorithms do as much in that tensor as the answer does; PASS where draws with the sequence as one chunk let
/// it. `others` may be null.
Judgement judge_by_model(const Expected& expected, Format precision, const std::vector<double>& got, int threads = 1,
                         OtherAlgorithms* others = nullptr, const std::string& tensor = {}, bool has_contracts = true);

}  // namespace assay
