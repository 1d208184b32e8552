#pragma once
// Mistakes inside algorithms that go by blocks: chunks of tokens in recurrences, tiles of keys in attention.
#include <cstddef>
#include <vector>

#include "judge/hypotheses/convention.hpp"

namespace assay::hypotheses {

/// Adds mistakes of a recurrence whose states are carried from chunk to chunk, in reading the state that a chunk starts
/// with and in what its own tokens add. None for rooms without such states.
void add_chunks(std::vector<Convention>& list, const Scene& scene);

/// Adds mistakes of softmax attention over tiles of keys with a running maximum, and of its backward pass.
void add_tiles(std::vector<Convention>& list, const Scene& scene);

/// Others, in chunks and tiles of the usual sizes, which suites of cases do not count among the faults that they show.
void add_further_blocks(std::vector<Convention>& list, const Scene& scene);

/// All of these in chunks or tiles of other sizes, each of which `Convention::block` names.
std::vector<Convention> block_conventions_of(const Scene& scene, const std::vector<std::size_t>& sizes);

}  // namespace assay::hypotheses
