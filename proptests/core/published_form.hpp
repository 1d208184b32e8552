#pragma once
// Published forms, beside the healthy ones that say how far a correct kernel may be off.
#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "judge/sigma/expected.hpp"
#include "proptests/laws/laws.hpp"

namespace assay::laws {

/// The judge's verdicts on every tensor of the published form in its first tile, by the errors allowed to the healthy
/// one, which passes. `but` names a tensor that is left out.
std::map<std::string, Verdict> verdicts(const Subject& healthy, const KernelForm& published, const Problem& p,
                                        Format precision, std::string_view but = {});

/// The largest error of each tensor, relative to its largest element; NaN where one is NaN.
std::map<std::string, double> errors_of(const Oracle& truth, Answer answer);

/// 64 tokens in 16 dimensions, in bf16 under any contract: these inputs have that much in common in every channel, and
/// a bandwidth to which it is next to nothing. Without cotangents.
Problem with_offset(std::string_view room, std::initializer_list<const char*> inputs, Params params, double offset,
                    Format precision);

}  // namespace assay::laws
