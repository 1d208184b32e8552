#include "proptests/core/planted_room.hpp"

#include <algorithm>

namespace assay {
namespace {

thread_local std::string_view active;
thread_local bool asked = false;

}  // namespace

// Declared in reference/core/planted.hpp, where faults are planted.
bool is_planted(std::string_view fault) {
  const bool planted = !active.empty() && fault == active;
  asked = asked || planted;
  return planted;
}

PlantFault::PlantFault(std::string_view fault) {
  active = fault;
  asked = false;
}
PlantFault::~PlantFault() { active = {}; }
bool PlantFault::was_asked() { return asked; }

namespace planted_entries {
#define MECHANISM(name) extern const PlantedRoom name;
#define REFERENCE(name) extern const PlantedRoom name;
#include "mechanisms.def"
#undef MECHANISM
}  // namespace planted_entries

std::span<const PlantedRoom* const> planted_rooms() {
#define MECHANISM(name) &planted_entries::name,
#define REFERENCE(name) &planted_entries::name,
  static constexpr const PlantedRoom* all[] = {
#include "mechanisms.def"
  };
#undef MECHANISM
  return all;
}

const PlantedRoom& planted_room(std::string_view name) {
  const auto all = planted_rooms();
  const auto it = std::find_if(all.begin(), all.end(), [&](const PlantedRoom* room) { return room->name == name; });
  require(it != all.end(), name, ": no such room");
  return **it;
}

}  // namespace assay
