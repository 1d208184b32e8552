#pragma once
// The cost of every room's reference in every tier, measured in one run on one core.
#include <string>
#include <vector>

#include "oracles/core/room.hpp"

namespace assay {

struct RoomCost {
  std::string mechanism, tier;
  double seconds = 0;       ///< processor time per token and head, outputs and gradients
  double per_double = 0;    ///< of the tier double's
  double faster = 0;        ///< mp50's time over this one
  double of_bin_float = 0;  ///< cpp_bin_float_50's time over this one, by what it takes for the delta rule beside mp50
  double log2_bound = 0;    ///< worst bound over its tensor's largest number; 0 where nothing is proven
  double peak_memory = 0;   ///< of the process so far, bytes
};

/// A problem [1, tokens, 8, dim] in w2, w3 and w4, one of its heads in double and mp50. Empty if the room cannot be
/// answered in words.
/// `bin_float` is words::bin_float_over_mp50().
std::vector<RoomCost> bench_room(const Room& room, int tokens, int dim, double bin_float);

}  // namespace assay
