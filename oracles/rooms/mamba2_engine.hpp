#pragma once
// Problems of Mamba-2: by the engine of oracles/multiword.
#include "oracles/core/in_words.hpp"
#include "reference/mamba2.hpp"

namespace assay {

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<mamba2, double>& binding, bool gradients,
                                                   const WordEffort& effort);

}  // namespace assay
