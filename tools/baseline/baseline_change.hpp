#pragma once
// Whether a kernel's errors have grown from one commit to the next.
#include <string>
#include <string_view>
#include <vector>

#include "tools/baseline/baseline_file.hpp"

namespace assay {

enum class Change {
  same,     ///< errors and verdicts are what they were
  noise,    ///< it has moved no further than the seeds do
  better,   ///< the error has shrunk by more than that
  worse,    ///< it has grown by more than that, or what passed fails
  missing,  ///< no kernel answers it any more
  added,    ///< it was not there
};
inline constexpr Change all_changes[] = {Change::same,  Change::noise,   Change::better,
                                         Change::worse, Change::missing, Change::added};
/// "same", "noise", "better", "WORSE", "MISSING", "new"
std::string_view name_of(Change change);

struct Comparison {
  BaselineRow row;  ///< as it is, or, missing, as it was
  Change change = Change::same;
  double before = 0, after = 0;  ///< geometric means of the relative errors
  double growth = 1, noise = 1;  ///< after / before, and the ratio that it must exceed to be a change
  std::string why = {};          ///< of one that is worse for another reason than its growth
};

/// Probability that a comparison of two sets of numbers from the same law finds one that is worse.
inline constexpr double baseline_false_alarm_rate = 1e-3;

/// The probability of a larger t of Student's distribution with `freedom` > 0 degrees of freedom.
double student_tail(double t, double freedom);

/// Row by row. A change is one that Welch's t, of the logarithms of the errors, finds at `rate` shared out among the
/// rows: the standard deviation is that from seed to seed, of before and of after.
std::vector<Comparison> compare_rows(const std::vector<BaselineRow>& before, const std::vector<BaselineRow>& after,
                                     double rate = baseline_false_alarm_rate);

}  // namespace assay
