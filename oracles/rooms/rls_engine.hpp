#pragma once
// Recursive least squares with gradients in three words: what bounds the error of dL/dP is the length that the inverse
// of P measures, which has lost thirty bits after sixteen tokens of 128 channels. Two words never were enough.
#include "oracles/core/in_words.hpp"
#include "reference/rls.hpp"

namespace assay {

template <>
inline constexpr int words_of_gradients<rls> = 3;

}  // namespace assay
