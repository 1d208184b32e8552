#pragma once
// How large the numbers are that an answer's elements are sums of. docs/judge-derivation.md, "What no draw holds".
#include <optional>
#include <string_view>

#include "reference/core/format.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// Of every element ("o", "d_q"): the size of the largest number that its accumulators hold on the way to it, carried
/// through what follows; 0 where accumulators of that format hold all of it exactly, in whatever order. Nothing where
/// the room has no kernels, or the reference overflows.
std::optional<Arrays> term_sizes(std::string_view room, const Problem& problem, Format accumulators);

}  // namespace assay
