#include "tools/court/why.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "judge/contract/contract.hpp"
#include "judge/contract/site_meanings.hpp"
#include "judge/hypotheses/hypotheses.hpp"
#include "judge/sigma/stored.hpp"

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

std::string sentence_of(const Contributions& c, std::string_view mechanism, std::string_view form) {
  std::string words;
  for (std::size_t i = 0; i < std::min(shown, c.sites.size()); ++i)
    words += fmt::format("{}{} in {}: {}", i == 0 ? "" : ", ", site_in_words(mechanism, form, c.sites[i].site),
                         name_of(c.sites[i].format), percent(c.sites[i].share));
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

/// A tensor below this explains nothing worth saying.
constexpr double least_share = 0.2;

using Clock = std::chrono::steady_clock;

std::vector<Suspect> suspects_of(const std::vector<ReportRow>& rows, const Arrays& got) {
  std::vector<Suspect> list;
  for (const ReportRow& row : rows) {
    const auto answer = got.find(row.tensor);
    if (row.expected == nullptr || answer == got.end()) continue;
    list.push_back(
        {row.tensor, row.extents, row.expected.get(), &answer->second.data, row.judgement.verdict == Verdict::fail});
  }
  return list;
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

/// Without the tensors that were not asked for; what the answer is stored in is allowed, as it was when it was judged.
Expectation expectation_of(const Checked& checked, const KernelUnderTest& kernel) {
  Expectation expectation = expect(checked.trial->oracle(), kernel, checked.trial->file().problem, default_draws);
  for (auto& [name, expected] : expectation.tensors)
    if (const auto stored = checked.got.stored.find(name); stored != checked.got.stored.end())
      allow_storage(expected, stored->second);
  const auto asked = [&](const auto& tensor) {
    return std::any_of(checked.rows.begin(), checked.rows.end(),
                       [&](const ReportRow& row) { return row.tensor == tensor.first; });
  };
  std::erase_if(expectation.tensors, [&](const auto& tensor) { return !asked(tensor); });
  std::erase_if(expectation.emulated, [&](const auto& tensor) { return !asked(tensor); });
  return expectation;
}

const KernelForm* planted_form(const KernelForm& form, std::string_view mechanism) {
  if (planted_kernels == nullptr) return nullptr;
  if (const KernelRoom* room = find_kernels(planted_kernels(), mechanism))
    for (const KernelForm& planted : room->forms)
      if (planted.name == form.name) return &planted;
  return nullptr;
}

/// What no convention explains: contracts, sites, unstable forms and planted faults.
void look_further(Checked& checked, const std::function<bool()>& stop) {
  const auto failed = std::find_if(checked.rows.begin(), checked.rows.end(),
                                   [](const ReportRow& row) { return row.judgement.verdict == Verdict::fail; });
  const KernelUnderTest kernel = checked.trial->kernel_at(failed->fits);
  const Problem& problem = checked.trial->file().problem;
  std::vector<std::string>& notes = checked.page.notes;
  const auto judged = [&](const std::string& name) {
    return std::any_of(checked.rows.begin(), checked.rows.end(),
                       [&](const ReportRow& row) { return row.tensor == name; });
  };
  const Contract* contract = checked.trial->other_contract(checked.got, judged, checked.others, stop);
  if (contract != nullptr)
    notes.push_back(fmt::format("why: nothing fails under the contract {0} ({1}): --contract {0}", contract->name,
                                contract->summary));
  Explanations why;
  if (!stop()) {
    const Expectation expectation = expectation_of(checked, kernel);
    why = explain(expectation, in_report_order(checked.got.answer, expectation), kernel, problem,
                  planted_form(*kernel.form, problem.mechanism), stop);
  }
  const bool known = why.known() && why.list.front().explained >= least_share;
  if (known)
    notes.push_back("why: " + best_of(why) + "; explains " + percent(why.list.front().explained) +
                    " of the squared error, and what is left a correct kernel could have");
  else if (contract == nullptr)
    notes.push_back(stop() ? "why: unknown so far: --why-limit gives it more time"
                           : "why: unknown: no convention, contract, coarser site or known fault explains it");
  Json list = Json::array();
  for (const Explanation& e : why.list)
    if (e.explained >= least_share)
      list.push_back({{"kind", name_of(e.kind)},
                      {"name", e.name},
                      {"what", e.what},
                      {"evidence", e.evidence},
                      {"explained", e.explained},
                      {"sufficient", e.sufficient}});
  checked.page.facts.emplace_back("why", Json{{"known", known || contract != nullptr},
                                              {"contract", contract == nullptr ? Json() : Json(contract->name)},
                                              {"explanations", std::move(list)}});
}

}  // namespace

void add_contributions(std::vector<ReportRow>& rows, const KernelUnderTest& kernel, const Problem& problem) {
  for (const auto& [name, contributions] : contributions_of(kernel, problem, draws))
    for (ReportRow& row : rows)
      if (row.tensor == name) row.why = sentence_of(contributions, problem.mechanism, kernel.form->name);
}

std::vector<std::string> Findings::lines() const {
  std::vector<std::string> lines;
  if (first) lines.push_back("first wrong: " + first->sentence);
  for (const LooksLike& cause : causes.list) lines.push_back(cause.sentence(cause.tensors.size() == failing_));
  return lines;
}

Findings findings_of(const CaseTrial& trial, const GivenAnswer& got, const std::vector<ReportRow>& rows,
                     const Effort& effort) {
  Findings found;
  const Arrays answered = flat(got.answer);
  const std::vector<Suspect> suspects = suspects_of(rows, answered);
  found.failing_ = static_cast<std::size_t>(
      std::count_if(suspects.begin(), suspects.end(), [](const Suspect& s) { return s.fails; }));
  found.any = found.failing_ > 0;
  if (!found.any) return found;
  const ProblemFile& file = trial.file();
  found.first = first_wrong(*file.room, file.batch, suspects);
  found.causes = causes_of(*file.room, file.problem, file.batch, suspects, effort);
  return found;
}

void explain_failures(Checked& checked, std::optional<double> limit) {
  const Clock::time_point start = Clock::now();
  const std::function<bool()> stop = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count() > *limit;
  };
  Effort effort;
  if (limit) effort = {std::max(effort.multiplications, *limit * multiplications_per_second), stop};
  const Findings found = findings_of(*checked.trial, checked.got, checked.rows, effort);
  Page& page = checked.page;
  if (!found.any) {
    page.facts.emplace_back("first_wrong", nullptr), page.facts.emplace_back("looks_like", Json::array());
    if (limit) page.notes.emplace_back("why: no tensor fails");
    return;
  }
  page.findings = found.lines();
  if (!found.causes.unexplained.empty() && !found.causes.all_tried && !limit)
    page.findings.emplace_back("not every convention was tried on so large a problem: --why takes longer");
  const std::optional<FirstWrong>& first = found.first;
  page.facts.emplace_back(
      "first_wrong",
      first ? Json{{"tensor", first->tensor}, {"followers", first->followers}, {"sentence", first->sentence}}
            : Json(nullptr));
  page.facts.emplace_back("looks_like", json_of(found.causes));
  if (limit && !found.causes.unexplained.empty() && checked.trial->kernel().form != nullptr)
    look_further(checked, stop);
}

}  // namespace assay
