#pragma once
// Mistakes inside algorithms that go by blocks: chunks of tokens in recurrences, tiles of keys in attention.
#include <vector>

#include "judge/hypotheses/convention.hpp"

namespace assay::hypotheses {

/// Of a recurrence whose states are carried from chunk to chunk: what is read from the state that a chunk starts with,
/// and what its own tokens add. Rooms without such states: none.
void add_chunks(std::vector<Convention>& list, const Scene& scene);

/// Of whatever carries no state that a case gives: chunks that know nothing of each other.
void add_lone_chunks(std::vector<Convention>& list, const Scene& scene);

/// Of softmax attention over tiles of keys with a running maximum, and of its backward pass.
void add_tiles(std::vector<Convention>& list, const Scene& scene);

}  // namespace assay::hypotheses
