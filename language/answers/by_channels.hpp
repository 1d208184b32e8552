#pragma once
// A program's value channels as heads of their own, where a pack would have empty lanes.
#include <optional>
#include <set>
#include <string>

#include "language/answers/posed.hpp"
#include "oracles/multiword/word_ball.hpp"

namespace assay::language {

/// The problem with every head cut into groups of value channels, as many as a pack has room for: arrays along V have
/// so many times the heads, all others are shared. Nothing where the heads fill a pack, or where some number of the
/// program depends on more than one channel, so that it is not that of its parts.
struct ByChannels {
  int groups = 1;
  Problem parts;
  std::set<std::string> missing;  ///< inputs without channels that are not given: every part has a gradient of its own
};
std::optional<ByChannels> by_channels(const Mechanism& mechanism, const Problem& problem);

/// The answer to the problem, of that to its parts.
void join_channels(const Mechanism& mechanism, const ByChannels& apart, BasicAnswer<WordBall>& answer);

}  // namespace assay::language
