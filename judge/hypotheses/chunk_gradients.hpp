#pragma once
// The backward pass of the chunk form of states that decay and are written to, in doubles, with one of its terms made
// otherwise.
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "judge/hypotheses/convention.hpp"

namespace assay::hypotheses {

/// Adds mistakes of backward passes inside of chunks of these sizes: what a chunk owes to the one before, the gradients
/// of the triangular system, decays, the sums of gates. None unless the pass without a mistake answers the first tokens
/// as the room does. `chunks`: a size in words; `counted`: which of them.
void add_gradient_slips(std::vector<Convention>& list, const Scene& scene, const std::vector<std::size_t>& sizes,
                        const std::function<std::string(std::size_t)>& chunks, Counted counted);

}  // namespace assay::hypotheses
