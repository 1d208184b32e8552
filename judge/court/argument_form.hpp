#pragma once
// Our tile programs that take arguments, as forms of cases with arguments: every sequence is a problem of the tile
// program, and the case's answer is folded from theirs as the oracle folds it.
#include <string_view>

#include "kernels/core/kernel_room.hpp"

namespace assay {

/// The forms of "softmax_attention+arguments" and the like; null of any other room.
const KernelRoom* find_argument_forms(std::string_view room);

/// "softmax_attention with sink, soft_cap" of a case with arguments, "" of any other.
std::string title_of(const Problem& problem);

/// The answer of a tile program to a case with arguments, its sequences one after the other.
Answer answer_of_sequences(const KernelForm& form, const Problem& problem, const Policy& policy, int tile);
/// One sentence why the tile program takes no such case, or "".
std::string obstacle_of_sequences(const KernelForm& form, const Problem& problem);

}  // namespace assay
