#pragma once
// The record of a device's runs in records/gpu: {"device": name, "rooms": {room: entry}}. An entry says by itself
// when, where and from which sources it was measured, for rooms are run when they have changed, not all at once.
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace assay {

/// The digest of the kernel sources of every room that has device kernels.
using Digests = std::map<std::string, std::string>;

/// An entry stands for a room as long as the digest is that of today's sources.
inline bool is_current(const nlohmann::json& entry, const std::string& digest) { return entry.at("sources") == digest; }

/// Rooms to be run: those that the record lacks, or has from other sources, or with failures.
inline std::vector<std::string> rooms_due(const nlohmann::json& record, const Digests& digests) {
  std::vector<std::string> due;
  for (const auto& [room, digest] : digests) {
    const auto rooms = record.find("rooms");
    const auto entry = rooms == record.end() ? nlohmann::json() : rooms->value(room, nlohmann::json());
    if (entry.is_null() || !is_current(entry, digest) || entry.at("failed") != 0) due.push_back(room);
  }
  return due;
}

/// The record with what has been measured now in place of what it had of those rooms, and without rooms that have no
/// device kernels any more.
inline nlohmann::json merged(const nlohmann::json& record, const nlohmann::json& measured, const Digests& digests) {
  nlohmann::json result = measured;
  if (const auto rooms = record.find("rooms"); rooms != record.end())
    for (const auto& [room, entry] : rooms->items())
      if (digests.contains(room) && !measured.at("rooms").contains(room)) result["rooms"][room] = entry;
  return result;
}

}  // namespace assay
