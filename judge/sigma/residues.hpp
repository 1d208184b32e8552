#pragma once
// Where a sum is next to nothing, what is left of it has the scale of what was added up, which the answer does not
// show.
#include "kernels/core/kernel_room.hpp"
#include "reference/core/tensor.hpp"

namespace assay {

/// How far half a last bit of a double in every input and cotangent, each by itself, moves each element of what `form`
/// answers without rounding: root mean square by name ("o", "d_q").
///
/// It is 2^-53 of the root of the sum of squares of the terms that an element is a sum of, whatever they cancel to. A
/// run that does not round computes in 64 bits: n operations on the way of m terms leave n sqrt(m) 2^-64 of that root
/// at most, and n sqrt(m) < 2^11 for cases of a few chunks. So two such runs differ by no more, and the true answer to
/// the same doubles is no better known to who has its inputs rounded.
Arrays residues(const KernelForm& form, const Problem& problem, int tile);

}  // namespace assay
