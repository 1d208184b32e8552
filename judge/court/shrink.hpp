#pragma once
// From a case that fails to a small one that fails: fewer sequences, heads, tokens and dimensions, nothing special.
#include <functional>

#include "judge/verdict/locate.hpp"
#include "reference/core/inputs.hpp"

namespace assay {

/// The sizes that count as few: two chunks, and a tile's dimensions.
inline constexpr int few_tokens = 2 * usual_chunk, few_dims = 16;

/// Runs of a kernel that a search makes at most: docs/check.md, "A smaller case".
inline constexpr int usual_shrink_runs = 100;

/// The result of a search.
struct Shrunk {
  CaseSpec spec;  ///< the smallest that is known to fail
  int runs = 0, failures = 0;
  bool stopped = false;  ///< by the limit
};

/// Runs `fails` on smaller and smaller cases, `runs` times at most, until nothing that it tries makes one smaller:
/// first on one head, two chunks and 16 dimensions at once, or one head of another seed, then axis by axis, by
/// bisection over the boundaries of chunks and between them. A case that `fails` does not take, for which it throws
/// InputError, counts as one that passes. The result depends on no clock.
Shrunk shrink(const CaseSpec& failing, bool grouped_heads, const std::function<bool(const CaseSpec&)>& fails, int runs);

}  // namespace assay
