#pragma once
// Which rows of packed tensors belong to which sequence.
#include <optional>
#include <vector>

#include "arguments/given.hpp"

namespace assay::arguments {

/// The rows of every sequence, in order: those of queries and those of keys. Where queries and keys are the same rows,
/// both lists are.
struct Sequences {
  bool packed = false;  ///< the case says where sequences start; then states have one of each
  std::vector<std::vector<int>> queries, keys;

  int count() const { return static_cast<int>(queries.size()); }
};

/// The sequences of a mechanism whose tensors have `rows` rows each, by cu_seqlens and lengths.
Sequences sequences_of(const Given& given, int rows);

/// Keys that lie in pages of `size` rows.
struct Pages {
  int count = 0, size = 0;
};
/// The sequences of attention, by all names for either side. Pages number their keys together: page * size + slot.
Sequences sequences_of(const Given& given, int query_rows, int key_rows, std::optional<Pages> pages);

}  // namespace assay::arguments
