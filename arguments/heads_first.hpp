#pragma once
// Cases with arguments as plain problems lie: heads in front, the rows of all sequences one after the other.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "oracles/core/room.hpp"
#include "reference/core/problem.hpp"

namespace assay::arguments {

/// Such a problem, and the room that answers it and those that differ from it in numbers, heads or params, in doubles.
/// It describes inputs of heads and rows; the others (integers, truth values) are as the file has them.
struct HeadsFirst {
  std::shared_ptr<const Room> room;
  Problem problem;
  /// Params that are one of some words, the first of which is the default.
  std::map<std::string, std::vector<std::string>> choices;
  bool in_parts = false;  ///< whether its first tokens are a problem, too, of a plain room
};
/// Keeps no reference. Throws Refusal as FileCase does.
HeadsFirst heads_first(const Problem& in_file);
/// The same with q, k, v, log_decay and beta as norms, gates and steps make them, in the place of these arguments, and
/// without cotangents; of a single sequence without other arguments a plain problem. Nothing where it has none of them.
std::optional<HeadsFirst> behind_front_end(const Problem& in_file);

}  // namespace assay::arguments
