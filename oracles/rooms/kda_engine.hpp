#pragma once
// Problems of KDA: by the engine of oracles/multiword.
#include "oracles/core/in_words.hpp"
#include "reference/kda.hpp"

namespace assay {

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<kda, double>& binding, bool gradients,
                                                   const WordEffort& effort);

}  // namespace assay
