#pragma once
// Conventions in the arguments of a case that a kernel may have misunderstood (docs/arguments.md).
#include <map>
#include <string>
#include <vector>

#include "judge/hypotheses/convention.hpp"

namespace assay::hypotheses {

/// The conventions of a scene with heads in front (arguments/heads_first.hpp). `choices`: params that are one of some
/// words, the first the default.
std::vector<Convention> conventions_of_arguments(const Scene& scene,
                                                 const std::map<std::string, std::vector<std::string>>& choices);

/// Mistakes that a kernel may have made with gates, write strengths and norms, for a scene behind its front end;
/// `given`: the problem in front of it.
std::vector<Convention> conventions_of_front_end(const Scene& scene, const Problem& given);

}  // namespace assay::hypotheses
