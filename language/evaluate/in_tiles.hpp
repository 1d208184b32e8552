#pragma once
// Tokens that do not wait for one another, many at once.
#include <memory>
#include <string>

#include "language/evaluate/evaluate.hpp"
#include "language/program/program.hpp"

namespace assay::language {

/// The axis of the tokens of a tile.
inline const std::string tokens_of_tile = "tokens of a tile";

/// The step of a scan whose tokens may go side by side (adds_up), for a tile of them: rows that it reads and makes have
/// their tokens first, and states get the sum over the tile. Null where tokens may not, or an operation has too many
/// axes so.
std::shared_ptr<const Block> step_of_tile(const Block& body, int carry, int xs);

/// So many at most: of any value, and tokens.
inline constexpr int most_numbers_of_tile = 1 << 18, most_tokens_of_tile = 64;
/// How many tokens a tile of that step has, at least one, so that no value of it has many numbers.
int tile_of(const Block& step, const Sizes& sizes);

}  // namespace assay::language
