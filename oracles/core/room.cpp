#include "oracles/core/room.hpp"

#include <algorithm>
#include <iterator>

#include "reference/core/error.hpp"

namespace assay {
namespace room_entries {
#define MECHANISM(name) extern const Room& name;
#define REFERENCE(name) extern const Room& name;
#include "mechanisms.def"
#undef MECHANISM
}  // namespace room_entries

std::span<const Room* const> rooms() {
#define MECHANISM(name) &room_entries::name,
#define REFERENCE(name) &room_entries::name,
  static const Room* const all[] = {
#include "mechanisms.def"
  };
#undef MECHANISM
  return all;
}

Answer Room::emulated(const Problem&) const {
  throw InputError(text(name, ": no model of its roundings; `assay oracle` answers it with proven bounds"));
}
std::optional<Arrays> Room::term_sizes(const Problem&, const HeldIn&, int) const { return std::nullopt; }
std::unique_ptr<Trajectory> Room::trajectory(Tier) const { return nullptr; }

const Room& listed_room(std::string_view name) {
  const auto all = rooms();
  const auto it = std::find_if(all.begin(), all.end(), [&](const Room* room) { return room->name == name; });
  require(it != all.end(), name, ": no such room");
  return **it;
}

std::vector<std::pair<std::string, std::string>> carried_names(const Room& room) {
  constexpr std::string_view last = "final_";
  std::vector<std::pair<std::string, std::string>> names;
  const auto inputs = room.inputs();
  for (const RoomFacts::Ranked& output : room.outputs()) {
    if (!output.field.name.starts_with(last)) continue;
    const std::string rest(output.field.name.substr(last.size()));
    std::vector<std::string> taken_up{"initial_" + rest};
    if (!room.is_program()) taken_up.push_back(rest);  // a room's tail of pairs
    for (const std::string& name : taken_up)
      if (find_field(inputs, name) != nullptr) names.emplace_back(output.field.name, name);
  }
  return names;
}

std::string_view name_of(Tier tier) {
  constexpr std::string_view names[] = {"double", "w2", "w3", "w4", "mp50", "mp100", "mp200", "ball", "exact"};
  return names[static_cast<int>(tier)];
}

std::string_view summary_of(Tier tier) {
  constexpr std::string_view summaries[] = {
      "double precision",
      "sums of two doubles, about 100 bits, each number with a proven bound; more words where needed",
      "sums of three doubles, about 150 bits, as above",
      "sums of four doubles, about 200 bits, as above",
      "50 decimal digits",
      "100 decimal digits",
      "200 decimal digits",
      "enclosures, as narrow as the digits need",
      "rational numbers: no exp, log or root but of what stays rational"};
  return summaries[static_cast<int>(tier)];
}

std::optional<Tier> tier_from(std::string_view name) {
  const auto* it = std::find_if(std::begin(all_tiers), std::end(all_tiers), [&](Tier t) { return name == name_of(t); });
  return it == std::end(all_tiers) ? std::nullopt : std::optional(*it);
}

}  // namespace assay
