#pragma once
// What a kernel may have misunderstood of the arguments of a case (docs/arguments.md).
#include <map>
#include <string>
#include <vector>

#include "judge/hypotheses/convention.hpp"

namespace assay::hypotheses {

/// Of a scene with heads in front (arguments/heads_first.hpp). `choices`: params that are one of some words, the first
/// the default.
std::vector<Convention> conventions_of_arguments(const Scene& scene,
                                                 const std::map<std::string, std::vector<std::string>>& choices);

/// What a kernel may have made of gates, write strengths and norms, of a scene behind its front end; `given`: the
/// problem in front of it.
std::vector<Convention> conventions_of_front_end(const Scene& scene, const Problem& given);

}  // namespace assay::hypotheses
