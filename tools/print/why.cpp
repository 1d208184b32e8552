#include "tools/print/why.hpp"

#include <fmt/format.h>

#include <utility>

namespace assay {
namespace {

std::string_view name_of(Explanation::Kind kind) {
  constexpr std::string_view names[] = {"site", "form", "fault"};
  return names[static_cast<int>(kind)];
}

Json json_of(const Causes& causes) {
  Json list = Json::array();
  for (const LooksLike& cause : causes.list)
    list.push_back({{"tensors", cause.tensors},
                    {"name", cause.name},
                    {"what", cause.what},
                    {"mend", cause.mend},
                    {"where", cause.where},
                    {"share", cause.share},
                    {"or", cause.or_else}});
  return list;
}

Json json_of(const Explanations& explanations) {
  Json list = Json::array();
  for (const Explanation& e : explanations.list)
    if (says_something(e))
      list.push_back({{"kind", name_of(e.kind)},
                      {"name", e.name},
                      {"what", e.what},
                      {"evidence", e.evidence},
                      {"explained", e.explained},
                      {"sufficient", e.sufficient}});
  return list;
}

}  // namespace

void add_why(Page& page, const Why& why, bool asked) {
  if (why.failing == 0) {
    page.facts.emplace_back("first_wrong", nullptr), page.facts.emplace_back("looks_like", Json::array());
    if (!asked) return;
    const Looseness& loose = why.loose;
    if (loose.tensors.empty()) page.notes.emplace_back("why: no tensor fails");
    for (std::string& line : why.further()) page.notes.push_back(std::move(line));
    page.facts.emplace_back("why", Json{{"known", !loose.sites.empty()},
                                        {"rounds_more_in", loose.tensors},
                                        {"sites", loose.sites.empty() ? Json() : Json(loose.sites)}});
    return;
  }
  page.findings = why.findings();
  if (!why.causes.unexplained.empty() && !why.causes.all_tried && !asked)
    page.findings.emplace_back("not every convention was tried on so large a problem: --why takes longer");
  const std::optional<FirstWrong>& first = why.first;
  if (first) page.first_wrong = first->tensor;
  if (first && !why.causes.list.empty())
    page.cause = why.causes.list.front().cause(why.failing), page.mend = why.causes.list.front().mend;
  page.facts.emplace_back(
      "first_wrong",
      first ? Json{{"tensor", first->tensor}, {"followers", first->followers}, {"sentence", first->sentence}}
            : Json(nullptr));
  page.facts.emplace_back("looks_like", json_of(why.causes));
  for (std::string& line : why.further()) page.notes.push_back(std::move(line));
  if (why.looked_further)
    page.facts.emplace_back("why", Json{{"known", why.known() || !why.contract.empty()},
                                        {"contract", why.contract.empty() ? Json() : Json(why.contract)},
                                        {"explanations", json_of(why.explanations)}});
}

void add_formula(Page& page, const FormulaErrors& errors) {
  page.notes.push_back(fmt::format("formula: this case would have failed {} of {} errors in the formula{}",
                                   errors.revealed, errors.counted, errors.passes.empty() ? "" : "; not these:"));
  for (const std::string& what : errors.passes) page.notes.push_back("  " + what);
  if (!errors.no_change.empty())
    page.notes.push_back(fmt::format("  {} more change no number of this case", errors.no_change.size()));
  page.facts.emplace_back("formula", Json{{"mutants", errors.counted},
                                          {"revealed", errors.revealed},
                                          {"passes", errors.passes},
                                          {"no_change", errors.no_change}});
}

}  // namespace assay
