#pragma once
#include <cstdint>

namespace assay {

/// The upper end of Clopper and Pearson's one-sided 95% interval for a probability that `events` of `runs` estimate, 1
/// of no runs; the lower end for events that mostly happen.
double upper_bound_95(std::uint64_t events, std::uint64_t runs);
double lower_bound_95(std::uint64_t events, std::uint64_t runs);

}  // namespace assay
