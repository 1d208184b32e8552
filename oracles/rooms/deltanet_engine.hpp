#pragma once
// Problems of DeltaNet: by the engine of oracles/multiword.
#include "oracles/core/in_words.hpp"
#include "reference/deltanet.hpp"

namespace assay {

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<deltanet, double>& binding, bool gradients,
                                                   const WordEffort& effort);

}  // namespace assay
