#pragma once
// Lists of names: all of them, in one line, and whether one is asked for.
#include <algorithm>
#include <functional>
#include <string>
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

/// Their names in one line, for messages; of words themselves.
template <class List, class Name = std::identity>
std::string names_in(const List& list, Name name = {}) {
  std::string names;
  for (const auto& entry : list) names += (names.empty() ? "" : ", ") + std::string(name(entry));
  return names;
}

}  // namespace assay
