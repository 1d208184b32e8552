#pragma once
// The chunk form of states that decay and are written to, in doubles, with one of its terms made otherwise.
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "judge/hypotheses/convention.hpp"

namespace assay::hypotheses {

/// Adds mistakes of kernels inside of chunks of these sizes: decays, the products of keys (A) and what the error reads,
/// what joins the state. None unless the chunk form without a mistake answers the first tokens as the room does.
/// `chunks`: a size in words; `counted`: which of them.
void add_chunk_slips(std::vector<Convention>& list, const Scene& scene, const std::vector<std::size_t>& sizes,
                     const std::function<std::string(std::size_t)>& chunks, Counted counted);

/// The factor of one token on a state that it does not write to; 1 where an input says it. Throws what the room throws.
double fixed_decay(const Scene& scene);

}  // namespace assay::hypotheses
