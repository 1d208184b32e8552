#include "judge/court/report_row.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace assay {

bool ReportRow::judged() const {
  return judgement.verdict != Verdict::unsupported && judgement.verdict != Verdict::error;
}

void show_where(ReportRow& row, std::vector<NamedAxis> axes, Deviations deviations) {
  row.where = locate(axes, deviations);
  std::vector<std::vector<int>> wrong = wrong_indices(axes, deviations);
  row.errors = std::make_shared<const Errors>(Errors{std::move(axes), std::move(deviations), std::move(wrong)});
}

const std::string& contract_of(const ReportRow& row) { return row.contract.empty() ? row.precision : row.contract; }

Verdict worse_of(Verdict a, Verdict b) {
  constexpr Verdict worst_first[] = {Verdict::fail,        Verdict::error,  Verdict::undecided, Verdict::vacuous,
                                     Verdict::unsupported, Verdict::unseen, Verdict::pass};
  return *std::find_if(std::begin(worst_first), std::end(worst_first), [=](Verdict v) { return v == a || v == b; });
}

Verdict worst_of(const std::vector<ReportRow>& rows) {
  if (rows.empty()) return Verdict::error;
  Verdict worst = Verdict::pass;
  for (const ReportRow& row : rows) worst = worse_of(worst, row.judgement.verdict);
  return worst;
}

bool all_pass(const std::vector<ReportRow>& rows) { return passes(worst_of(rows)); }

void add_shown(const Judgement& j, Shown& shown) {
  shown.insert(j.rejected_corruptions.begin(), j.rejected_corruptions.end());
}

bool is_shown(const Judgement& vacuous, const Shown& shown) {
  return std::ranges::all_of(vacuous.accepted_corruptions,
                             [&](std::string_view corruption) { return shown.contains(corruption); });
}

namespace {

/// Where queries see one key, their rows are alike whatever the data, and a copy in which they have moved is right.
void excuse_moved_rows(Judgement& j) {
  for (const Corruption& c : corruptions())
    if (c.moves_rows && std::erase(j.accepted_corruptions, c.name) > 0) j.blind_spots.push_back(c.name);
  if (j.accepted_corruptions.empty()) j.reason.clear();
}

}  // namespace

void call_vacuous(std::vector<ReportRow>& rows, bool strict, const Shape& shape) {
  Shown shown;
  for (const ReportRow& row : rows) add_shown(row.judgement, shown);
  const bool one_key = shape.seq_len == 1 && shape.query_len > 1;
  for (ReportRow& row : rows) {
    Judgement& j = row.judgement;
    if (strict || j.verdict != Verdict::vacuous) continue;
    if (one_key) excuse_moved_rows(j);
    if (is_shown(j, shown)) j.verdict = Verdict::pass;
  }
  const auto is_unseen = [](const ReportRow& row) { return row.judgement.verdict == Verdict::unseen; };
  if (!strict && !std::all_of(rows.begin(), rows.end(), is_unseen)) return;
  for (ReportRow& row : rows)
    if (is_unseen(row)) row.judgement.verdict = Verdict::vacuous;
}

}  // namespace assay
