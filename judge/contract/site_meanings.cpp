#include "judge/contract/site_meanings.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "arguments/programs/library.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

/// The meanings of sites (site_meanings.json). One without forms holds in most of them; the forms are named where it
/// differs.
const std::vector<SiteMeaning>& meanings() {
  static const auto rows = nlohmann::json::parse(arguments::embedded_text("judge", "site_meanings"));
  static const std::vector<SiteMeaning> all = [] {
    std::vector<SiteMeaning> list;
    for (const nlohmann::json& row : rows) {
      const auto word = [&row](std::size_t i) -> std::string_view { return row.at(i).get_ref<const std::string&>(); };
      list.push_back({word(0), word(1), word(2)});
    }
    return list;
  }();
  return all;
}

/// Whether `name` is one of the words of `list`.
bool lists(std::string_view list, std::string_view name) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(' ', begin), list.size());
    if (list.substr(begin, end - begin) == name) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

std::span<const SiteMeaning> site_meanings() { return meanings(); }

const SiteMeaning* find_meaning(std::string_view mechanism, std::string_view form, std::string_view site) {
  // The meaning for one form goes before that for a mechanism, and that before the one that holds in general.
  mechanism = mechanism.substr(0, mechanism.find('+'));  // with arguments its sites mean what they meant
  for (const std::string& of : {text(mechanism, ':', form), text("*:", form), std::string(mechanism), std::string()})
    for (const SiteMeaning& meaning : meanings())
      if (meaning.site == site && lists(meaning.forms, of) && meaning.forms.empty() == of.empty()) return &meaning;
  return nullptr;
}

std::string site_in_words(std::string_view mechanism, std::string_view form, std::string_view site) {
  const SiteMeaning* meaning = find_meaning(mechanism, form, site);
  return meaning == nullptr ? std::string(site) : text(meaning->words, " (", site, ")");
}

}  // namespace assay
