#pragma once
// Keys that rows chose: topk_indices, topk_length and topk_block_size (docs/arguments.md), as masks.
#include <optional>
#include <vector>

#include "arguments/given.hpp"
#include "arguments/plan.hpp"

namespace assay::arguments {

/// The lists of a case with so many rows and heads of q (0: no axis of heads); nothing where it has none. Throws
/// Refusal (DOMAIN) for shapes that do not fit, and for what is of lists without them.
std::optional<Choice> choice_of(const Given& given, int query_heads, int rows);

/// Whether a row chose a key, [heads of the choice, at least 1][rows][keys], of a sequence with those rows and so many
/// keys. Throws Refusal (DOMAIN) for lengths that a list does not have, and for entries that count and name a key that
/// there is not, or one a second time.
std::vector<bool> chosen_keys(const Choice& choice, const std::vector<int>& rows, int keys);

}  // namespace assay::arguments
