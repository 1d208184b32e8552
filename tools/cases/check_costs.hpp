#pragma once
// The cost of `assay check`: measured, room by room, by `assay-lab bench check`, and estimated for other shapes.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "reference/core/inputs.hpp"

namespace assay {

/// A check of one head of d = 64 with gradients takes linear T + quadratic T^2 seconds of processor time.
struct CheckCost {
  std::string_view mechanism;
  double linear, quadratic;
  double power;                           ///< of d / 64 that this grows by from d = 64 on
  double forward;                         ///< share of it that a case without gradients takes
  double bytes;                           ///< of memory for each number of the case
  double reading, truth, draws, judging;  ///< shares of it, at the longest size measured
};
/// The costs of all rooms that `assay-lab bench check` was run on.
std::span<const CheckCost> check_costs();

struct Estimate {
  double seconds = 0;      ///< of processor time, without planted faults
  double faults = 0;       ///< seconds of these, if all heads got them
  double with_faults = 1;  ///< the most of the case that gets them
  double bytes = 0;        ///< of memory at its peak
  double draws = 0;        ///< of the seconds those of draws, of which there are four unless they leave a tensor open

  /// Seconds of judging that share of the case.
  double of(double share) const { return seconds * share + faults * std::min(share, with_faults); }
};
/// The cost of a check of that case with nothing in the cache, on the machine that the costs were measured on; nothing
/// of rooms without costs. `numbers`: of inputs and cotangents.
std::optional<Estimate> check_estimate(std::string_view mechanism, const Shape& shape, bool gradients,
                                       std::size_t numbers);

/// How many times as long a check takes in which a contract decides: 12 to 16 (docs/costs.md).
inline constexpr double times_by_contract = 14;

/// The seconds that so many cores take for what takes one of them that long: a twelfth of a check is one core's alone,
/// as reading is. Measured on two cores and on sixteen (docs/costs.md).
inline double on_cores(double seconds, int cores) {
  constexpr double alone = 1.0 / 12;
  return seconds * (alone + (1 - alone) / cores);
}

/// Processor seconds of a small draw of the model, here and now and when the costs were measured. It takes a fifth of a
/// second to learn.
double small_draw();
double small_draw_then();
/// How many times as long such a draw takes now: this machine is another, or has more to do. Times this an estimate is
/// within a factor of 1.5 at up to 1000 tokens.
inline double machine_factor() { return small_draw() / small_draw_then(); }

/// The sentence before a check of `judged` of `parts` equal parts: what it costs. For all parts it also says what two
/// of them would cost, where the case can be sampled.
std::string cost_sentence(const Estimate& whole, int parts, int judged, int threads, bool can_sample);

/// "45 s", "4 minutes", "2.5 hours"
std::string spoken_time(double seconds);
/// "350 MB", "2.1 GB"
std::string spoken_size(double bytes);

/// docs/costs.md.
std::string costs_page();

}  // namespace assay
