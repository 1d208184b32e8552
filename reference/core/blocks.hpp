#pragma once
// Rounding by block, and how blocks are spelled: "e2m1/1x16:e4m3" are blocks of one row and 16 columns in e2m1, whose
// scales are in e4m3 (docs/contracts.md).
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "reference/core/format.hpp"
#include "reference/core/rounding.hpp"

namespace assay {

struct BlockFormat {
  Format format = Format::exact;
  Blocks blocks = {};
};

/// The format's name, and how its blocks are spelled if it has any.
std::string name_of(Format format, const Blocks& blocks);
/// What name_of spells: a format of single numbers, or one with blocks. Nothing for any other text.
std::optional<BlockFormat> block_format_from(std::string_view text);

/// Rounds x[rows][cols] in place: every number becomes the nearest multiple of its block's scale that the format has. A
/// block whose scale is zero becomes zero, but for NaN. The random modes use one word of `random` for each number that
/// has a block, and are unbiased between neighbours of the block's grid; jittered, what is below half its smallest
/// number goes to zero.
void round_by_blocks(double* x, std::size_t rows, std::size_t cols, const BlockFormat& to, Rounding rounding,
                     RandomBits& random);

}  // namespace assay
