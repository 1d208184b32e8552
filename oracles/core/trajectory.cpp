#include "oracles/core/trajectory.hpp"

#include <algorithm>
#include <iterator>

namespace assay {
namespace recurrences {
#define MECHANISM(name) extern const Recurrence name;
#include "mechanisms.def"
#undef MECHANISM
}  // namespace recurrences

const Recurrence* find_recurrence(std::string_view room) {
#define MECHANISM(name) &recurrences::name,
  static constexpr const Recurrence* all[] = {
#include "mechanisms.def"
  };
#undef MECHANISM
  const auto* it = std::find_if(std::begin(all), std::end(all),
                                [&](const Recurrence* r) { return r->name == room && r->in_w2 != nullptr; });
  return it == std::end(all) ? nullptr : *it;
}

std::vector<std::pair<std::string, std::string>> carried_names(const Room& room) {
  constexpr std::string_view last = "final_";
  std::vector<std::pair<std::string, std::string>> names;
  const auto inputs = room.inputs();
  for (const RoomFacts::Ranked& output : room.outputs()) {
    if (!output.field.name.starts_with(last)) continue;
    const std::string rest(output.field.name.substr(last.size()));
    for (const std::string& name : {"initial_" + rest, rest})
      if (std::any_of(inputs.begin(), inputs.end(), [&](const auto& input) { return input.field.name == name; }))
        names.emplace_back(output.field.name, name);
  }
  return names;
}

}  // namespace assay
