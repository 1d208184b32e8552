#pragma once
// Decays as chunk kernels have them: exponentials of differences of running sums, b_i - b_j. A sum is rounded at its
// own size, so these decays lose as many digits as the sum has before the point, and the recurrence's lose none.
#include <cstdint>
#include <vector>

#include "judge/verdict/locate.hpp"
#include "reference/core/format.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// The log decays that the problem gives by token, if their running sums round as operands in that format do: where
/// these are narrower than fp32, their own roundings are larger.
std::vector<RoomFacts::Ranked> cumulated_decays(const Problem& problem, Format operands);

/// A problem as such a kernel reads it: every log decay off by one rounding of its chunk's running sum there. Over
/// tokens j+1 to i these add up to the error of b_i - b_j. A rule that reads before it decays takes (b_i - g_i) - b_j,
/// and what is read is off by a factor f of such a rounding, as in beta (v - f read) = beta f (v / f - read). As it is
/// where it has no cumulated_decays().
class CumulatedDecays {
 public:
  CumulatedDecays(const Problem& problem, Format operands, std::uint64_t seed, int chunk = usual_chunk);

  const Problem& problem() const { return problem_; }
  /// Takes the gradients of an answer to it back to what was given, by the names of a report.
  void take_back(Arrays& answered) const;

 private:
  Problem problem_;
  std::vector<double> read_;  ///< what the read of each row is multiplied by; empty where nothing is
};

}  // namespace assay
