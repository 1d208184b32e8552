#pragma once
// Lists of names: all of them, in one line, and whether one is asked for.
#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

/// Whether a list asks for `entry`: an empty list asks for all.
template <class List, class Entry>
bool asks_for(const List& list, const Entry& entry) {
  return list.empty() || std::find(list.begin(), list.end(), entry) != list.end();
}

/// The names of a list's entries, as name_of calls them.
template <class List>
std::vector<std::string> name_list(const List& list) {
  std::vector<std::string> names;
  for (const auto& entry : list) names.emplace_back(name_of(entry));
  return names;
}

/// The entry that name_of calls so; nothing if there is none.
template <class List>
auto entry_named(const List& list, std::string_view name) {
  const auto it =
      std::find_if(std::begin(list), std::end(list), [&](const auto& entry) { return name_of(entry) == name; });
  return it == std::end(list) ? std::nullopt : std::optional(*it);
}

/// Their names in one line, for messages; of words themselves.
template <class List, class Name = std::identity>
std::string names_in(const List& list, Name name = {}) {
  std::string names;
  for (const auto& entry : list) names += (names.empty() ? "" : ", ") + std::string(name(entry));
  return names;
}

}  // namespace assay
