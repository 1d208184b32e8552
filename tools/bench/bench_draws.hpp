#pragma once
// What judges on a GPU beside the CPU: whether it has the bits, and what both cost.
#include <string>
#include <vector>

namespace assay {

/// records/emitted.md: programs of the library's JSON files, at a few sizes, the tile programs of `rooms` or of all,
/// and slabs of truth, on the GPU of this machine. Throws InputError if there is none, or where a program has no text.
/// `kept`: an earlier page of such a machine, or "", whose rows stay where their code has not changed. `differ`:
/// numbers whose bits are not the CPU's.
std::string page_of_draws(const std::vector<std::string>& files, const std::vector<std::string>& shapes,
                          const std::vector<std::string>& rooms, const std::string& kept, std::size_t& differ);

/// Of what the page has, all whose code is another one today, a sentence each; `folder` has their files.
std::vector<std::string> stale_in_page(const std::string& page, const std::string& folder);

}  // namespace assay
