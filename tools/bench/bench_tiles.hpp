#pragma once
// What else judges on a GPU, beside the CPU: draws of tile programs and slabs of truth, whether they have its bits, and
// what both cost.
#include <cstddef>
#include <string>
#include <vector>

#include "tools/print/table.hpp"

namespace assay {

/// The digest of what a row's code is compiled from: of a form's (`ROOM/FORM`), or of slabs' ("slabs"); "" of others.
std::string digest_of_device_code(const std::string& row);

/// A row for each form of a room, `rooms` alone if there are some: at 70 tokens in several formats and roundings, and
/// seconds at 1024 tokens of 8 heads. Throws InputError if there is no GPU. `kept`: an earlier page, whose rows stay
/// where their code has not changed. `differ`: numbers whose bits are not the CPU's.
Table tiles_on_gpu(const std::vector<std::string>& rooms, const std::string& kept, std::size_t& differ);
/// A row for each rule: in two to four words at two sizes, and seconds at 4096 tokens.
Table slabs_on_gpu_beside_cpu(const std::string& kept, std::size_t& differ);

/// The cells of the row of a page that begins with these, or none.
std::vector<std::string> kept_row(const std::string& page, const std::vector<std::string>& first);

}  // namespace assay
