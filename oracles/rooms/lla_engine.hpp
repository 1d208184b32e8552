#pragma once
// Large problems of local linear attention: by the engine of oracles/multiword, which never forms the K x K systems in
// words.
#include "oracles/core/in_words.hpp"
#include "reference/lla.hpp"

namespace assay {

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<lla, double>& binding, bool gradients,
                                                   const WordEffort& effort);

}  // namespace assay
