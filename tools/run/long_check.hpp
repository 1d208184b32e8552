#pragma once
// Checks that take long: what they will cost.
#include <chrono>
#include <cstddef>
#include <string_view>

#include "judge/court/cache.hpp"
#include "judge/court/case_trial.hpp"
#include "tools/verbs/command.hpp"

namespace assay {

/// Seconds of the clock that a check is expected to take; 0 if they are not known, or if it was done before.
struct ClockCost {
  double all = 0;
  double draws = 0;  ///< of them those of the model's first draws
};

/// Says how long judging takes, if that is long, and what would be quicker. `sample`: parts to judge; 0: all.
ClockCost tell_cost(int sample, const CaseTrial& trial, Cache* cache, Console& console);

/// Keeps in mind that this was judged, if that took long.
void remember(const ClockCost& expected, const CaseTrial& trial, Cache* cache);

/// Tells of draws beyond the first ones, which no estimate knows of, by what those took.
class MoreDraws {
 public:
  /// `expected`: seconds that the first draws were expected to take.
  MoreDraws(double expected, Progress& progress) : expected_(expected), progress_(progress) {}

  /// Hears of a phase that begins on this thread, or goes on on others.
  void hear(std::string_view what, std::size_t done, std::size_t total);

 private:
  double expected_;
  Progress& progress_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::size_t first_ = 0, total_ = 0;
};

}  // namespace assay
