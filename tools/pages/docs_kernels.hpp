#pragma once
// records/kernels.md: the contract of every kernel form, and what devices measured of it.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/gpu/record.hpp"

namespace assay {

/// The files that the bits of a room's device kernels, and of their emulation, are made from.
std::set<std::string> kernel_sources(const std::filesystem::path& source, std::string_view room);

/// The digest of their code, whatever its comments and its format, as `tools/gpu/run --digests` prints it.
std::string kernel_sources_digest(const std::filesystem::path& source, std::string_view room);

/// Digests of all rooms that have device kernels.
Digests kernel_sources_digests(const std::filesystem::path& source);

/// Every record of records/gpu, by file name.
std::vector<nlohmann::json> gpu_records(const std::filesystem::path& source);

/// The page. A room's entry whose digest is not the one in `digests` is shown as stale.
std::string kernels_page(const std::vector<nlohmann::json>& records, const Digests& digests);

}  // namespace assay
