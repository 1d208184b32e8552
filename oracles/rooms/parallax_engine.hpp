#pragma once
// Large problems of Parallax: by the engine of oracles/multiword.
#include "oracles/core/in_words.hpp"
#include "reference/parallax.hpp"

namespace assay {

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<parallax, double>& binding, bool gradients,
                                                   const WordEffort& effort);

}  // namespace assay
