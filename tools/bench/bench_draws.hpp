#pragma once
// Draws of programs on a GPU beside the evaluator's: whether they have its bits, and what both cost.
#include <string>
#include <vector>

namespace assay {

/// records/emitted.md: programs of the library's JSON files, at a few sizes, on the GPU of this machine. Throws
/// InputError if there is none, or where a program has no text. `differ`: numbers whose bits are not the evaluator's.
std::string page_of_draws(const std::vector<std::string>& files, const std::vector<std::string>& shapes,
                          std::size_t& differ);

/// The programs whose texts are not those of the page, a sentence each; `folder` has their files.
std::vector<std::string> stale_in_page(const std::string& page, const std::string& folder);

}  // namespace assay
