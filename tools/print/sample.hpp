#pragma once
// The judged part of a case, and faults that could hide in the rest.
#include <string>

#include "files/sampled_parts.hpp"
#include "tools/print/rows.hpp"

namespace assay {

/// "heads 2..3 of sequence 0": a part, of so many heads.
std::string name_of(const SampledParts::Part& part, int heads);
/// Adds to the page's header which parts were judged, each of so many heads, and how likely it is that a fault was
/// missed.
void tell_sample(const SampledParts& parts, int heads, Page& page);
/// The same for JSON.
Json facts_of(const SampledParts& parts);

}  // namespace assay
