#include "judge/court/second_form.hpp"

#include <algorithm>

#include "reference/core/error.hpp"

namespace assay {

SecondForm::SecondForm(const Trial& trial, const std::vector<ReportRow>& rows, const Answer& got)
    : trial_(trial), got_(got) {
  if (trial.second == nullptr || trial.kernel.form == nullptr) return;
  for (const ReportRow& row : rows) {
    if (row.judgement.verdict != Verdict::fail) continue;
    // What no form allows needs no second one.
    if (trial.strict_dtypes && !row.stored.empty()) continue;
    rejected_.push_back(row.tensor), blank_ = row;
  }
  blank_.by_model.reset(), blank_.by_contract.reset(), blank_.evidence.clear(), blank_.detects.reset();
}

const ReportRow* SecondForm::passing(const std::string& tensor) {
  if (std::find(rejected_.begin(), rejected_.end(), tensor) == rejected_.end()) return nullptr;
  if (!judged_) judge();
  const auto found = std::find_if(judged_->begin(), judged_->end(), [&](const ReportRow& row) {
    return row.tensor == tensor && row.judgement.verdict == Verdict::pass;
  });
  return found == judged_->end() ? nullptr : &*found;
}

void SecondForm::judge() {
  Trial second = trial_;
  second.kernel.form = trial_.second, second.kernel.tile = 0;
  second.tiles.clear(), second.second = nullptr, second.phase = {};
  second.detects = false;
  ReportRow row = blank_;
  const std::string first = text("--form ", row.form, ' ');
  if (const std::size_t at = row.command.find(first); at != std::string::npos)
    row.command.replace(at, first.size(), text("--form ", trial_.second->name, ' '));
  row.form = trial_.second->name, row.tile = trial_.second->tiles.front();
  judged_ = judge_rows(second, row, got_, [&](const std::string& name) {
    return std::find(rejected_.begin(), rejected_.end(), name) != rejected_.end();
  });
}

void allow_second_form(const Trial& trial, std::vector<ReportRow>& rows, const Answer& got) {
  SecondForm second(trial, rows, got);
  for (ReportRow& row : rows)
    if (const ReportRow* passing = second.passing(row.tensor)) row = *passing;
}

}  // namespace assay
