#pragma once
// Problems of linear attention without a normalisation: by the engine of oracles/multiword.
#include "oracles/core/in_words.hpp"
#include "reference/linear_attention.hpp"

namespace assay {

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<linear_attention, double>& binding, bool gradients,
                                                   const WordEffort& effort);

}  // namespace assay
