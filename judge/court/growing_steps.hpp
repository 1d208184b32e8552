#pragma once
// Why the numbers of a delta rule may be beyond anyone's digits: its steps multiply the state by 1 - beta k k^T, which
// grows where beta |k|^2 > 2.
#include <string>

#include "oracles/core/room.hpp"

namespace assay {

/// "a delta rule grows where beta |k|^2 > 2: it is 63.7 at token 5, head 1 (of 128 steps, 40 are beyond); ..."; "" of
/// other mechanisms, and where no step is beyond. `problem` has its batch folded into the heads.
std::string growing_steps_of(const Problem& problem);

}  // namespace assay
