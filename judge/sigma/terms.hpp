#pragma once
// How large the numbers are that an answer's elements are sums of. docs/judge-derivation.md, "What no draw holds".
#include <optional>
#include <string_view>

#include "oracles/core/room.hpp"
#include "reference/core/format.hpp"
#include "reference/core/problem.hpp"

namespace assay {

/// The size, for every element ("o", "d_q"), of the largest number that its accumulators hold on the way to it, carried
/// through what follows; 0 where accumulators of that format hold all of it exactly, in whatever order. Nothing where
/// the room has no kernels, or the reference overflows. Heads on several threads, with the same bits.
std::optional<Arrays> term_sizes(std::string_view room, const Problem& problem, Format accumulators, int threads = 1);

/// The size of what an operand of that format leaves that is below its normal numbers, for every element: a product's
/// operand may carry every factor that comes later. 0 and nothing as above.
std::optional<Arrays> sizes_below_normal(std::string_view room, const Problem& problem, Format operands,
                                         int threads = 1);

/// The sigma of a product and of the sum that it goes into, each rounded at that size; 0 where nothing rounds.
double sigma_of_terms(double size, Format accumulators);

/// Whether accumulators of that format may hold a number exactly in whatever order, as far as the number alone shows:
/// it is then one of theirs, but for a rest of less than a quarter of its last place. Half of all numbers are so, and
/// hardly any row of them: that saves asking for the sizes of its terms.
bool may_be_exact(const HiLo& x, double bound, Format accumulators);

}  // namespace assay
