#include "python/native/judging.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "files/names.hpp"
#include "files/problem_file.hpp"
#include "oracles/core/large.hpp"
#include "reference/core/error.hpp"
#include "tools/plots/error_plots.hpp"
#include "tools/print/escape.hpp"
#include "tools/print/rows_page.hpp"
#include "tools/run/device.hpp"
#include "tools/verbs/command.hpp"
#include "tools/verbs/plot_file.hpp"

namespace assay::python {
namespace {

/// A console whose output is not read.
struct Silent {
  std::ostringstream out, err;
  Console console;
  explicit Silent(Watch watch = {}) : console{out, err, false, false, std::move(watch)} {}
};

/// Its number of every element, in the file's layout, as F64.
template <class Number>
void put(TensorFile& to, const ProblemFile& file, const std::string& tensor, const std::string& suffix,
         const Expected& expected, Number number) {
  Array array(expected.shape);
  for (std::size_t i = 0; i < array.data.size(); ++i) array.data[i] = number(i);
  to.put(tensor + suffix, std::move(array), file, tensor, "F64");
}

void put_all(TensorFile& to, const ProblemFile& file, const std::string& tensor, const Expected& e) {
  put(to, file, tensor, "", e, [&](std::size_t i) { return e.value[i].hi; });
  put(to, file, tensor, ".lo", e, [&](std::size_t i) { return e.value[i].lo; });
  put(to, file, tensor, ".bound", e, [&](std::size_t i) { return e.bound[i]; });
  put(to, file, tensor, ".sigma", e, [&](std::size_t i) { return e.sigma[i]; });
  put(to, file, tensor, ".limit", e, [&](std::size_t i) { return e.reach[i] * e.sigma[i] + e.bound[i]; });
}

/// The expectation of the truth itself by the model, which judges where no kernel of this build takes the case.
Safetensors expected_by_model(const CaseTrial& trial) {
  GivenAnswer truth;
  for (const auto& [name, tensor] : trial.oracle().tensors) {
    if (tensor.value.empty()) continue;
    const bool gradient = name.starts_with("d_");
    Array& values = (gradient ? truth.answer.gradients : truth.answer.outputs)[name.substr(gradient ? 2 : 0)];
    values = Array(tensor.shape);
    for (std::size_t i = 0; i < values.data.size(); ++i) values.data[i] = tensor.value[i].hi;
  }
  TensorFile to;
  for (const ReportRow& row : trial.judge(
           truth, [](const std::string&) { return true; }, ""))
    if (row.expected != nullptr) put_all(to, trial.file(), row.tensor, *row.expected);
  return std::move(to).finish({});
}

}  // namespace

Said run_verb(const std::vector<std::string>& words, const Watch& watch) {
  Silent silent(watch);
  const int code = run(words, silent.console);
  return {code, silent.out.str(), silent.err.str()};
}

Verdicts::Verdicts(const CheckOptions& options, Safetensors problem, Safetensors answer, std::optional<double> why,
                   const Watch& watch)
    : checked_(std::make_shared<Checked>()) {
  judge_on(options.judge);
  Silent silent(watch);
  *checked_ = check_answer(options.told(why.value_or(0) > 0), std::move(problem), std::move(answer), silent.console);
  tell_why(*checked_, why);
}

std::string Verdicts::page(const std::string& format, bool in_short) const {
  const std::optional<RowsFormat> known = rows_format_from(format);
  require(known.has_value(), "format: there is no ", format, "; there are ",
          names_in(name_list(all_rows_formats), [](const std::string& name) { return name; }));
  Page page = checked_->page;
  if (in_short) page.header.resize(1);
  std::vector<std::string>& lines = prints_notes(*known) ? page.header : page.notes;
  if (*known != RowsFormat::json) lines.insert(lines.end(), checked_->remarks.begin(), checked_->remarks.end());
  return print(page, checked_->rows, *known);
}

std::string Verdicts::complaints() const {
  const Page& page = checked_->page;
  std::vector<std::string> lines = page.findings;
  for (std::string& line : complaints_of(checked_->rows)) lines.push_back(std::move(line));
  lines.insert(lines.end(), page.notes.begin(), page.notes.end());
  lines.push_back(count_of(checked_->rows, page.not_judged));
  return text_of_lines(wrapped(lines)) + "reproduce: " + page.command;
}

void Verdicts::plot(const std::string& path) const {
  std::ostringstream out, err;
  Console console{out, err};
  PlotFile(path, console).commit(plots_of(checked_->rows));
}

Safetensors Verdicts::expected(const std::string& tensor) const {
  const auto row = std::find_if(checked_->rows.begin(), checked_->rows.end(),
                                [&](const ReportRow& one) { return one.tensor == tensor; });
  require(row != checked_->rows.end() && row->expected != nullptr, tensor, ": was not judged; there are ",
          names_in(checked_->rows, [](const ReportRow& one) { return one.tensor; }));
  TensorFile to;
  put_all(to, checked_->trial->file(), tensor, *row->expected);
  return std::move(to).finish({});
}

std::optional<std::map<std::string, Scattered>> asked_of(Safetensors problem, const std::string& where) {
  ProblemFile file = read_problem(std::move(problem), where);
  if (!file.has_arguments()) return std::nullopt;
  require(!file.refusal, where, ": ", file.refusal ? file.refusal->message : "");
  return std::move(file.scattered);
}

Safetensors oracle_answer(Safetensors problem, const std::string& where, const std::string& tier, int threads,
                          const Watch& watch) {
  const std::optional<Tier> asked = tier_from(tier);
  require(tier.empty() || asked.has_value(), "tier: there is no ", tier, "; there are ",
          names_in(all_tiers, [](Tier one) { return name_of(one); }));
  const PartDone done = [&](std::size_t total, std::string_view what) {
    if (watch) watch(what, 0, total);
  };
  Safetensors answer = answer_file(read_problem(std::move(problem), where), asked, threads, ASSAY_VERSION, done);
  const auto& said = answer.metadata;
  require(said.at("status") == "OK", where, ": ", said.at("status"), ": ",
          said.contains("message") ? said.at("message") : "");
  return answer;
}

Safetensors expectation_of(Safetensors problem, const std::string& where, const Standard& standard,
                           const Watch& watch) {
  CaseTrial trial(std::move(problem), standard, where);
  trial.prepare([&](std::size_t total, std::string_view what) {
    if (watch) watch(what, 0, total);
  });
  const KernelUnderTest& kernel = trial.kernel();
  if (kernel.form == nullptr) return expected_by_model(trial);
  if (watch) watch("sigma", 0, 0);
  const Expectation found = expect(trial.oracle(), kernel, trial.file().problem, default_draws, standard.false_alarms);
  TensorFile to;
  for (const auto& [tensor, expected] : found.tensors) put_all(to, trial.file(), tensor, expected);
  return std::move(to).finish({{"contract", kernel.contract->name}, {"form", std::string(kernel.form->name)}});
}

}  // namespace assay::python
