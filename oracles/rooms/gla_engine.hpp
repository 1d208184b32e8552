#pragma once
// Problems of GLA: by the engine of oracles/multiword.
#include "oracles/core/in_words.hpp"
#include "reference/gla.hpp"

namespace assay {

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<gla, double>& binding, bool gradients,
                                                   const WordEffort& effort);

}  // namespace assay
