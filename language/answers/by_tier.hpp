#pragma once
// The answers that a Room gives (oracles/core/room.hpp), by a program.
#include <optional>

#include "language/answers/posed.hpp"
#include "oracles/core/room.hpp"

namespace assay::language {

Decimals decimals(const Mechanism& mechanism, const BasicProblem<std::string>& problem, const DecimalOptions& options);
BasicAnswer<HiLo> values(const Mechanism& mechanism, const Problem& problem, Tier tier);
std::optional<BasicAnswer<Enclosed>> enclosed(const Mechanism& mechanism, const Problem& problem);
std::optional<BasicAnswer<Enclosed>> in_words(const Mechanism& mechanism, const Problem& problem,
                                              const WordEffort& effort);
Answer shapes(const Mechanism& mechanism, const Problem& problem);
Answer emulated(const Mechanism& mechanism, const Problem& problem);
Arrays term_sizes(const Mechanism& mechanism, const Problem& problem, const HeldIn& numbers, int threads);
BasicArrays<HiLo> slopes(const Mechanism& mechanism, const Problem& problem, const Arrays& tangent);

}  // namespace assay::language
