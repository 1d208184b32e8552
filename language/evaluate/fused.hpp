#pragma once
// Scans over the same tokens as one, so that what both compute is computed once.
#include <memory>

#include "language/program/program.hpp"

namespace assay::language {

/// The block with maps of tokens in the scans beside them, where both only add up and neither reads the other:
/// attention and its backward pass make the scores once. The same values; sums may come in another order.
std::shared_ptr<const Block> fused(std::shared_ptr<const Block> block);

}  // namespace assay::language
