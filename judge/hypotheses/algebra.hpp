#pragma once
// One tensor against the truth and what can be made of it without running anything: a factor, another order, another
// tensor's values.
#include <functional>
#include <string>

#include "judge/hypotheses/scene.hpp"

namespace assay::hypotheses {

/// A tensor that may have been in place of the truth; NaN where that is not known.
struct Variant {
  std::string key;   ///< the same for tensors that are wrong in the same way
  std::string what;  ///< after "looks like"
  std::string mend;
  Values values;
  int rank = 0;     ///< of two that fit alike the smaller one is meant
  double free = 0;  ///< the share of its numbers that were chosen to fit: as much of the error they take by chance
};

/// The answer for one tensor, and the weights by which it counts.
struct Observed {
  const std::string& tensor;
  const Values& got;
  const Values& weight;  ///< 1 / sigma^2; 0: does not count
};
/// Variants that only say what something is, and not why, have this rank.
inline constexpr int plain_factor = 9000;

/// Calls f with each variant of the tensor; `truths` are those of all tensors.
void each_variant(const Scene& scene, const Arrays& truths, const Observed& seen,
                  const std::function<void(const Variant&)>& f);

}  // namespace assay::hypotheses
