#include "tools/why.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace assay {
namespace {

constexpr int draws = 4;
constexpr std::size_t shown = 5;
/// Explanations whose evidence differs by less, a likelihood ratio of 1000, the data do not tell apart.
constexpr double telling = 6.9;

std::string_view name_of(Explanation::Kind kind) {
  switch (kind) {
    case Explanation::Kind::site:
      return "site";
    case Explanation::Kind::form:
      return "form";
    case Explanation::Kind::fault:
      break;
  }
  return "fault";
}

std::string percent(double share) { return fmt::format("{:.3g}%", 100 * share); }

std::string sentence_of(const Contributions& c) {
  std::string words;
  for (std::size_t i = 0; i < std::min(shown, c.sites.size()); ++i)
    words += fmt::format("{}{} ({}) {}", i == 0 ? "" : ", ", c.sites[i].site, name_of(c.sites[i].format),
                         percent(c.sites[i].share));
  if (c.sites.empty()) return "nothing is rounded on the way to it";
  return words + fmt::format("; {} sites, together {}", c.sites.size(), percent(c.sum));
}

/// What it is, with those that the data do not tell from it.
std::string best_of(const Explanations& why) {
  const Explanation& best = why.list.front();
  std::string words = best.what;
  for (std::size_t i = 1; i < std::min(shown, why.list.size()); ++i) {
    const Explanation& other = why.list[i];
    if (other.sufficient && best.evidence - other.evidence < telling) words += ", or " + other.what;
  }
  return words;
}

}  // namespace

void add_contributions(std::vector<ReportRow>& rows, const KernelUnderTest& kernel, const Problem& problem) {
  for (const auto& [name, contributions] : contributions_of(kernel, problem, draws))
    for (ReportRow& row : rows)
      if (row.tensor == name) row.why = sentence_of(contributions);
}

void explain_check(Checked& checked) {
  add_contributions(checked.rows, checked.trial->kernel(), checked.trial->file().problem);
  const auto failing = [](const ReportRow& row) { return row.judgement.verdict == Verdict::fail; };
  std::vector<std::string>& notes = checked.page.notes;
  const auto failed = std::find_if(checked.rows.begin(), checked.rows.end(), failing);
  if (failed == checked.rows.end()) return;
  const KernelUnderTest kernel = checked.trial->kernel_at(failed->fits);
  const Problem& problem = checked.trial->file().problem;
  Expectation expectation = expect(checked.trial->oracle(), kernel, problem, default_draws);
  for (std::size_t t = expectation.tensors.size(); t-- > 0;)
    if (std::none_of(checked.rows.begin(), checked.rows.end(),
                     [&](const ReportRow& row) { return row.tensor == expectation.tensors[t].first; })) {
      expectation.tensors.erase(expectation.tensors.begin() + static_cast<std::ptrdiff_t>(t));
      expectation.emulated.erase(expectation.emulated.begin() + static_cast<std::ptrdiff_t>(t));
    }
  const KernelForm* planted = nullptr;
  if (planted_kernels != nullptr)
    if (const KernelRoom* room = find_kernels(planted_kernels(), problem.mechanism))
      for (const KernelForm& form : room->forms)
        if (form.name == kernel.form->name) planted = &form;
  const Explanations why =
      explain(expectation, in_report_order(checked.got.answer, expectation), kernel, problem, planted);

  const bool faults = std::any_of(why.list.begin(), why.list.end(),
                                  [](const Explanation& e) { return e.kind == Explanation::Kind::fault; });
  const std::string tried = faults
                                ? "a site that rounds more coarsely, an unstable form nor a planted fault"
                                : "a site that rounds more coarsely, an unstable form nor, in more than 16 dimensions "
                                  "or without assay-mutants, a planted fault";
  if (why.known())
    notes.push_back("why: " + best_of(why) + "; explains " + percent(why.list.front().explained) +
                    " of the squared error, and what is left a correct kernel could have");
  else
    notes.push_back("why: unknown: neither " + tried + " explains it" +
                    (why.list.empty() ? "" : "; nearest is " + why.list.front().what));
  Json list = Json::array();
  for (const Explanation& e : why.list)
    list.push_back({{"kind", name_of(e.kind)},
                    {"name", e.name},
                    {"what", e.what},
                    {"evidence", e.evidence},
                    {"explained", e.explained},
                    {"sufficient", e.sufficient}});
  checked.page.facts.emplace_back("why", Json{{"known", why.known()}, {"explanations", std::move(list)}});
}

}  // namespace assay
