#pragma once
// Problems of Gated DeltaNet: by the engine of oracles/multiword.
#include "oracles/core/in_words.hpp"
#include "reference/gated_deltanet.hpp"

namespace assay {

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<gated_deltanet, double>& binding, bool gradients,
                                                   const WordEffort& effort);

}  // namespace assay
