#pragma once
// Published forms, beside the healthy ones that say how far a correct kernel may be off.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "judge/sigma/expected.hpp"
#include "proptests/laws/laws.hpp"

namespace assay::laws {

/// The judge's verdicts on every tensor of the published form in its first tile, by the errors allowed to the healthy
/// one, which passes.
std::map<std::string, Verdict> verdicts(const Subject& healthy, const KernelForm& published, const Problem& p,
                                        Format precision);

}  // namespace assay::laws
