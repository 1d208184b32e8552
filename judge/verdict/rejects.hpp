#pragma once
// A judgement of which the verdict alone is asked for.
#include <vector>

#include "judge/verdict/judge.hpp"

namespace assay {

/// Whether judge(expected, got) is FAIL, without what it measures besides.
bool rejects(const Expected& expected, const std::vector<double>& got);

}  // namespace assay
