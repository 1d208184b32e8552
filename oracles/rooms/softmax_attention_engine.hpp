#pragma once
// Large problems of softmax attention: by the engine of oracles/multiword.
#include "oracles/core/in_words.hpp"
#include "reference/softmax_attention.hpp"

namespace assay {

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<softmax_attention, double>& binding, bool gradients,
                                                   const WordEffort& effort);

}  // namespace assay
