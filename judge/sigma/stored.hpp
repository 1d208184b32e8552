#pragma once
// The dtype that a tensor is stored in is a rounding that has happened: what it allows a correct kernel.
// docs/judge-derivation.md, "The dtype of an answer", derives it.
#include <span>
#include <vector>

#include "judge/verdict/judge.hpp"
#include "reference/core/format.hpp"

namespace assay {

/// The narrowest of `formats` that holds every number; fp64 where none does.
Format narrowest_of(std::span<const Format> formats, const std::vector<double>& values);
/// The format that the numbers of an answer are stored in, as far as they show it, whatever its file calls it: bf16,
/// fp16, tf32, fp32 or fp64.
Format stored_format(const std::vector<double>& values);

/// Whether there are numbers of `than` that `format` does not hold: it has fewer digits or a smaller range.
bool is_narrower(Format format, Format than);

/// Allows a correct kernel's answer to be rounded to nearest in `dtype` once more, where that is coarser than what
/// sigma counts already: sigma^2 grows by s^2/12, s being the spacing of `dtype` at the element, or by what rounding
/// the truth itself is off by, squared, if that is more. Where sigma is zero the answer must be the truth to half of s.
/// Weights of sums stay, their limits grow. Returns whether anything has changed.
bool allow_storage(Expected& expected, Format dtype);

}  // namespace assay
