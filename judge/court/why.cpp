#include "judge/court/why.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "files/names.hpp"
#include "judge/contract/contract.hpp"
#include "judge/contract/site_meanings.hpp"
#include "judge/court/argument_form.hpp"
#include "judge/hypotheses/scene.hpp"
#include "judge/sigma/stored.hpp"
#include "judge/verdict/infer.hpp"
#include "reference/core/blocks.hpp"

namespace assay {
namespace {

constexpr int draws = 4;
constexpr std::size_t shown = 5;

std::string percent(double share) { return fmt::format("{:.3g}%", 100 * share); }

std::string sentence_of(const Contributions& c, std::string_view mechanism, std::string_view form) {
  std::string words;
  for (std::size_t i = 0; i < std::min(shown, c.sites.size()); ++i)
    words += fmt::format("{}{} in {}: {}", i == 0 ? "" : ", ", site_in_words(mechanism, form, c.sites[i].site),
                         name_of(c.sites[i].format, c.sites[i].blocks), percent(c.sites[i].share));
  if (c.sites.empty()) return "nothing is rounded on the way to it";
  return words + fmt::format("; {} sites, together {}", c.sites.size(), percent(c.sum));
}

/// The best explanation, with those that the data do not tell from it.
std::string best_of(const Explanations& why) {
  const Explanation& best = why.list.front();
  std::string words = best.what;
  for (std::size_t i = 1; i < std::min(shown, why.list.size()); ++i) {
    const Explanation& other = why.list[i];
    if (other.sufficient && std::fabs(best.evidence - other.evidence) < telling) words += ", or " + other.what;
  }
  return words;
}

/// An explanation of a smaller share is not worth saying.
constexpr double least_share = 0.2;

using Clock = std::chrono::steady_clock;

bool has_row(const std::vector<ReportRow>& rows, const std::string& tensor) {
  return std::any_of(rows.begin(), rows.end(), [&](const ReportRow& row) { return row.tensor == tensor; });
}

std::vector<Suspect> suspects_of(const std::vector<ReportRow>& rows, const Arrays& got) {
  std::vector<Suspect> list;
  for (const ReportRow& row : rows) {
    const auto answer = got.find(row.tensor);
    if (row.expected == nullptr || answer == got.end()) continue;
    Suspect suspect{row.tensor, row.extents, row.expected.get(), &answer->second.data,
                    row.judgement.verdict == Verdict::fail};
    if (row.errors != nullptr) suspect.axes = &row.errors->axes, suspect.wrong = &row.errors->wrong;
    list.push_back(std::move(suspect));
  }
  return list;
}

/// Without the tensors that were not asked for; what the answer is stored in is allowed, as it was when it was judged.
Expectation expectation_of(const CaseTrial& trial, const GivenAnswer& got, const std::vector<ReportRow>& rows,
                           const KernelUnderTest& kernel) {
  Expectation expectation = expect(trial.oracle(), kernel, trial.file().problem, default_draws);
  for (auto& [name, expected] : expectation.tensors)
    if (const auto stored = got.stored.find(name); stored != got.stored.end()) allow_storage(expected, stored->second);
  const auto not_asked = [&](const auto& tensor) { return !has_row(rows, tensor.first); };
  std::erase_if(expectation.tensors, not_asked);
  std::erase_if(expectation.emulated, not_asked);
  return expectation;
}

}  // namespace

void add_contributions(std::vector<ReportRow>& rows, const KernelUnderTest& kernel, const Problem& problem) {
  for (const auto& [name, contributions] : contributions_of(kernel, problem, draws))
    for (ReportRow& row : rows)
      if (row.tensor == name) row.why = sentence_of(contributions, problem.mechanism, kernel.form->name);
}

std::vector<std::string> Why::findings() const {
  std::vector<std::string> lines;
  if (first) lines.push_back("FAIL  " + first->sentence);
  for (const LooksLike& cause : causes.list) lines.push_back(cause.sentence(failing));
  return lines;
}

bool Why::known() const { return explanations.known() && says_something(explanations.list.front()); }

std::vector<std::string> Why::further() const {
  if (failing == 0 && !loose.tensors.empty())
    return {fmt::format("why: rounds more than {} allows in {}: {}", loose.contract, names_in(loose.tensors),
                        loose.sites.empty() ? loose.obstacle : loose.sites)};
  if (!looked_further) return {};
  std::vector<std::string> lines;
  if (!contract.empty())
    lines.push_back(
        fmt::format("why: nothing fails under the contract {0} ({1}): --contract {0}", contract, contract_summary));
  if (known()) {
    const double share = explanations.list.front().explained;
    // A contract allows what a cause predicts: the cause that leaves nothing says more.
    lines.insert(share >= predicted ? lines.begin() : lines.end(),
                 "why: " + best_of(explanations) + "; explains " + percent(share) +
                     " of the squared error, and what is left a correct kernel could have");
  }
  if (lines.empty())
    lines.emplace_back(stopped ? "why: unknown so far: --why-limit gives it more time"
                               : "why: unknown: no convention, contract, coarser site or known fault explains it");
  return lines;
}

bool is_loose(const ReportRow& row) {
  return row.judgement.verdict == Verdict::pass && row.evidence == "model" && row.by_contract &&
         row.by_contract->verdict == Verdict::fail;
}

bool says_something(const Explanation& explanation) { return explanation.explained >= least_share; }

namespace {

/// Looks beyond conventions: at contracts, sites, unstable forms and planted faults.
void look_further(Why& why, const CaseTrial& trial, const GivenAnswer& got, const std::vector<ReportRow>& rows,
                  OtherContracts& others, const std::function<bool()>& stop) {
  const auto failed = std::find_if(rows.begin(), rows.end(),
                                   [](const ReportRow& row) { return row.judgement.verdict == Verdict::fail; });
  const KernelUnderTest kernel = trial.kernel_at(failed->fits);
  const Problem& problem = trial.file().problem;
  why.looked_further = true;
  const Contract* contract = trial.other_contract(
      got, [&](const std::string& name) { return has_row(rows, name); }, others, stop);
  if (contract != nullptr) why.contract = contract->name, why.contract_summary = contract->summary;
  if (!stop()) {
    const Expectation expectation = expectation_of(trial, got, rows, kernel);
    why.explanations = explain(expectation, in_report_order(got.answer, expectation), kernel, problem, stop);
  }
  why.stopped = stop();
}

/// The sites that round more in what is loose, read off the answer.
InferredContract rounding_of(const CaseTrial& trial, const GivenAnswer& got, const std::vector<ReportRow>& rows,
                             const std::function<bool()>& stop) {
  AnsweredCase given{trial.file().problem, trial.oracle(), {}, got.stored};
  const Arrays answered = flat(got.answer);
  std::string tile;
  for (const ReportRow& row : rows) {
    if (const auto found = answered.find(row.tensor); found != answered.end()) given.got.insert(*found);
    if (is_loose(row)) tile = row.fits;
  }
  return infer_contract({&given, 1}, trial.kernel_at(tile), stop);
}

Looseness looseness_of(const CaseTrial& trial, const GivenAnswer& got, const std::vector<ReportRow>& rows,
                       OtherContracts& others, const std::function<bool()>& stop) {
  Looseness loose;
  for (const ReportRow& row : rows)
    if (is_loose(row)) loose.tensors.push_back(row.tensor), loose.contract = contract_of(row);
  if (loose.tensors.empty()) return loose;
  const InferredContract found = rounding_of(trial, got, rows, stop);
  loose.obstacle = "no coarser site and no contract with a name explains it";
  if (found.explained) {
    loose.sites = words_of(found.contract);
  } else if (found.predicted >= least_share) {  // a narrow state
    loose.obstacle = found.obstacle, loose.narrow_state = found.narrow_state;
  } else if (const Contract* other = trial.other_contract(
                 got, [&](const std::string& name) { return has_row(rows, name); }, others, stop)) {
    loose.obstacle = "the contract " + other->name + " allows it: --contract " + other->name;
  } else if (stop()) {
    loose.obstacle = "unknown so far: --why-limit gives it more time";
  }
  return loose;
}

}  // namespace

Why why_it_fails(const CaseTrial& trial, const GivenAnswer& got, const std::vector<ReportRow>& rows,
                 OtherContracts& others, std::optional<double> seconds) {
  const Clock::time_point start = Clock::now();
  const std::function<bool()> stop = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count() > *seconds;
  };
  Effort effort;
  if (seconds) effort = {std::max(effort.multiplications, *seconds * multiplications_per_second), stop};
  Why why;
  const Arrays answered = flat(got.answer);
  const std::vector<Suspect> suspects = suspects_of(rows, answered);
  why.failing = static_cast<std::size_t>(std::ranges::count_if(suspects, [](const Suspect& s) { return s.fails; }));
  const ProblemFile& file = trial.file();
  if (why.failing == 0 && seconds.value_or(0) > 0 && !file.has_arguments() && trial.kernel().form != nullptr)
    why.loose = looseness_of(trial, got, rows, others, stop);
  if (why.failing == 0) return why;
  why.first = first_wrong(*file.room, file.batch, suspects);
  if (seconds == 0.0) return why;
  why.causes = file.has_arguments() ? causes_of_arguments(file.problem, suspects, effort)
                                    : causes_of(*file.room, file.problem, file.batch, suspects, effort);
  if (seconds && !file.has_arguments() && !why.causes.unexplained.empty() && trial.kernel().form != nullptr)
    look_further(why, trial, got, rows, others, stop);
  return why;
}

void name_roundings(std::vector<ReportRow>& rows, const Why& why) {
  for (ReportRow& row : rows)
    if (is_loose(row)) row.rounded_at = why.loose.sites.empty() ? why.loose.narrow_state : why.loose.sites;
}

}  // namespace assay
