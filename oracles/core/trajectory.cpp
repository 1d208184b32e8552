#include "oracles/core/trajectory.hpp"

#include <algorithm>
#include <iterator>

namespace assay {
namespace recurrences {
#define MECHANISM(name) extern const Recurrence name;
#include "mechanisms.def"
#undef MECHANISM
}  // namespace recurrences

const Recurrence* find_recurrence(const Room& room) {
#define MECHANISM(name) &recurrences::name,
  static constexpr const Recurrence* all[] = {
#include "mechanisms.def"
  };
#undef MECHANISM
  const auto* it = std::find_if(std::begin(all), std::end(all),
                                [&](const Recurrence* r) { return r->name == room.name && r->in_w2 != nullptr; });
  if (it != std::end(all)) return *it;
  return room.is_program() ? &recurrence_of_programs() : nullptr;
}

std::vector<std::pair<std::string, std::string>> carried_names(const Room& room) {
  constexpr std::string_view last = "final_";
  std::vector<std::pair<std::string, std::string>> names;
  const auto inputs = room.inputs();
  for (const RoomFacts::Ranked& output : room.outputs()) {
    if (!output.field.name.starts_with(last)) continue;
    const std::string rest(output.field.name.substr(last.size()));
    std::vector<std::string> taken_up{"initial_" + rest};
    if (!is_unlisted(room.name)) taken_up.push_back(rest);  // a room's tail of pairs
    for (const std::string& name : taken_up)
      if (std::any_of(inputs.begin(), inputs.end(), [&](const auto& input) { return input.field.name == name; }))
        names.emplace_back(output.field.name, name);
  }
  return names;
}

}  // namespace assay
