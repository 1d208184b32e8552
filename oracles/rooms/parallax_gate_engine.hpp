#pragma once
// Large problems of gated Parallax: its probe in packs of heads, Parallax along it by the engine of oracles/multiword.
#include "oracles/core/in_words.hpp"
#include "reference/parallax_gate.hpp"

namespace assay {

template <>
std::optional<BasicAnswer<WordBall>> engine_answer(const Binding<parallax_gate, double>& binding, bool gradients,
                                                   const WordEffort& effort);

}  // namespace assay
