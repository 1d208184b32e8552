#pragma once
// Batches of sequences of several lengths, packed: every launch of a form is one for all of them.
#include <array>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/kernel_room.hpp"

namespace assay {
namespace pack {

/// One sentence why the problems are no batch, or "": lengths in tokens are all that may differ. Parameters, the inputs
/// and cotangents that exist, and every other axis are those of the first.
std::string obstacle(std::span<const Problem> problems);
/// The form's answers to the problems of a batch, computed in a pack. Throws InputError, by the number of the sequence,
/// where one of them has an obstacle, or where they are no batch.
std::vector<Answer> run_batch(std::span<const Problem> problems,
                              const std::function<std::string(const Problem&)>& form_obstacle,
                              const std::function<Answer(const Problem&)>& form);

}  // namespace pack

/// What decides which programs a form launches: a problem's options, tensors and channels.
std::string kind_of(const Problem& problem);

/// The answers to the problems of a batch, each the bits of form.run on that problem alone. The policy counts nothing.
std::vector<Answer> run_packed(const KernelForm& form, std::span<const Problem> problems, const Policy& policy,
                               int tile);

/// The faults of a packed launch, planted where blocks are dealt.
inline constexpr std::array pack_mutants{
    Mutant{"block_of_the_neighbour", "the first block of a sequence computes the last of the sequence before once more",
           "cu_seqlens class"},
    Mutant{"stream_of_the_batch", "a block draws its random bits by its place in the batch instead of in its sequence",
           "catalogue"},
};

}  // namespace assay
