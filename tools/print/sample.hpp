#pragma once
// The judged part of a case, and faults that could hide in the rest.
#include "files/sampled_parts.hpp"
#include "tools/print/rows.hpp"

namespace assay {

/// Adds to the page's header which parts were judged, each of so many heads, and how likely it is that a fault was
/// missed.
void tell_sample(const SampledParts& parts, int heads, Page& page);
/// The same for JSON.
Json facts_of(const SampledParts& parts);

}  // namespace assay
