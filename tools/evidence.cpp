#include "tools/evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "fixtures/problem_file.hpp"
#include "oracles/core/contract.hpp"
#include "oracles/core/locate.hpp"
#include "reference/core/rounding.hpp"
#include "tools/second_form.hpp"

namespace assay {
namespace {

/// Tensors of fewer elements than this are numbers that stand alone.
constexpr double single_numbers = 8;

/// The narrowest of the formats that answers come in which holds every number: what was stored can be read off.
Format stored_format(const std::vector<double>& values) {
  for (const Format format : {Format::bf16, Format::fp16, Format::tf32, Format::fp32})
    if (std::all_of(values.begin(), values.end(), [=](double x) { return representable(format, x); })) return format;
  return Format::fp64;
}

std::string times(double x) { return fmt::format("{:.{}f} times", x, x < 10 ? 1 : 0); }

Weighed weighed_of(const Judgement& j, double factor = 1) { return {j.verdict, j.excess * factor, j.reason}; }

/// The judgement takes the row over.
void rest_on(ReportRow& row, std::string evidence, const Judgement& judgement) {
  row.evidence = std::move(evidence), row.judgement = judgement;
}

/// Of another named contract of the precision under which the tensor of `row` passes: its row.
std::optional<ReportRow> passing_contract(const Trial& trial, const ReportRow& row, const Answer& got) {
  for (const Contract& named : named_contracts()) {
    const Contract contract = named.in(trial.kernel.precision);
    if (contract.precision != trial.kernel.precision || contract.plain()) continue;
    if (!contract.obstacle(trial.kernel.form->sites).empty()) continue;
    KernelUnderTest kernel = trial.kernel;
    kernel.contract = &contract;
    const Trial other{trial.room,         kernel,      trial.problem, trial.oracle, trial.batch,        trial.in_file,
                      trial.false_alarms, trial.tiles, false,         trial.stored, trial.strict_dtypes};
    ReportRow blank = row;
    blank.by_model.reset(), blank.by_contract.reset(), blank.evidence.clear(), blank.detects.reset();
    for (ReportRow& found : judge_rows(other, blank, got, [&](const std::string& name) { return name == row.tensor; }))
      if (found.judgement.verdict == Verdict::pass) return std::move(found);
  }
  return std::nullopt;
}

/// The model decides, and what it leaves open a contract may still explain.
void let_model_decide(const Trial& trial, ReportRow& row, const Judgement& by_model, const Answer& got,
                      SecondForm& second) {
  const Judgement by_contract = row.judgement;
  rest_on(row, "model", by_model);
  if (by_model.verdict == Verdict::pass || trial.kernel.form == nullptr) return;
  if (by_contract.verdict == Verdict::pass) return rest_on(row, "contract " + row.contract, by_contract);
  if (by_model.verdict == Verdict::vacuous) return;
  if (const ReportRow* passing = second.passing(row.tensor)) {
    rest_on(row, text("contract ", row.contract, ", token by token"), passing->judgement);
    row.by_contract = weighed_of(passing->judgement), row.command = passing->command;
    return;
  }
  if (const std::optional<ReportRow> found = passing_contract(trial, row, got)) {
    rest_on(row, "contract " + found->contract, found->judgement);
    row.by_contract = weighed_of(found->judgement);
  }
}

/// Of a FAIL by a contract: which of the two kinds it is.
void say_which(ReportRow& row, double factor) {
  row.evidence = "contract " + row.contract;
  if (row.judgement.verdict != Verdict::fail || !row.by_model) return;
  const Weighed& model = *row.by_model;
  if (model.verdict == Verdict::pass)
    row.judgement.reason += text("; within any algorithm's error (", times(model.excess), " its own roundings, up to ",
                                 factor, " pass), beyond contract ", row.contract);
  else if (model.verdict == Verdict::fail)
    row.judgement.reason += text("; beyond any algorithm (", times(model.excess), " what the precision rounds)");
}

}  // namespace

namespace {

/// A number that stands alone has no neighbours to learn sigma from, and gets more draws.
int draws_for(const std::vector<ReportRow>& rows) {
  const bool alone = std::any_of(rows.begin(), rows.end(), [](const ReportRow& row) {
    return std::accumulate(row.extents.begin(), row.extents.end(), 1.0, std::multiplies<>()) < single_numbers;
  });
  return alone ? 4 * default_draws : default_draws;
}

/// Expectations of the tensors of `rows` by the model.
class ModelTrial {
 public:
  ModelTrial(const Trial& trial, Format precision, const std::vector<ReportRow>& rows, const Arrays& answered)
      : trial_(trial),
        answered_(answered),
        runs_(model_runs(trial.problem, precision, draws_for(rows), trial.kernel.threads)),
        expected_(by(trial.oracle)) {}

  int draws() const { return static_cast<int>(runs_.drawn.size()); }

  /// What is expected of that tensor, and the judgement; null where nothing is known of it. Where the oracle is not
  /// sharp enough it is asked again in four words.
  const Expected* judge(const ReportRow& row, Judgement& judgement) {
    const auto values = answered_.find(row.tensor);
    if (values == answered_.end()) return nullptr;
    for (;;) {
      const auto found =
          std::find_if(expected_.begin(), expected_.end(), [&](const auto& e) { return e.first == row.tensor; });
      if (found == expected_.end()) return nullptr;
      found->second.place = row.place;
      judgement = judge_by_model(found->second, runs_.precision, values->second.data);
      if (judgement.verdict != Verdict::undecided || judgement.bound_over_sigma <= oracle_share || sharp_)
        return &found->second;
      sharp_ = true;
      expected_ = by(oracle_of(trial_.room, trial_.problem, 4));
    }
  }

 private:
  Named<Expected> by(const Oracle& oracle) const {
    return expect_by_model(
        oracle, runs_,
        [&](const std::string& name) {
          const auto found = answered_.find(name);
          return found == answered_.end() ? Format::fp64 : stored_format(found->second.data);
        },
        trial_.false_alarms);
  }

  const Trial& trial_;
  const Arrays& answered_;
  ModelRuns runs_;
  Named<Expected> expected_;
  bool sharp_ = false;
};

/// With sigma so many times as large and the same limits: slices of a healthy algorithm may spread by as much.
Expected widened(Expected expected, double factor) {
  for (double& sigma : expected.sigma) sigma *= factor;
  for (double& reach : expected.reach) reach /= factor;
  expected.rms_limit /= factor;
  return expected;
}

/// Kernels that are called with fp32 multiply in tf32 where nobody forbids it. That is another precision, and said.
void say_tf32(const Trial& trial, std::vector<ReportRow>& rows, const Arrays& answered) {
  std::optional<ModelTrial> tf32;
  for (ReportRow& row : rows) {
    if (row.judgement.verdict != Verdict::fail && row.judgement.verdict != Verdict::undecided) continue;
    if (!row.by_model || trial.kernel.precision != Format::fp32) continue;
    if (!tf32) tf32.emplace(trial, Format::tf32, rows, answered);
    Judgement j;
    if (tf32->judge(row, j) != nullptr && j.verdict == Verdict::pass)
      row.judgement.reason += "; right if its products are in tf32: --precision tf32 allows that";
  }
}

}  // namespace

void weigh(const Trial& trial, std::vector<ReportRow>& rows, const Answer& got, Decides decides) {
  if (!has_model(trial.room.name)) return;
  const double factor = model_factor(trial.kernel.precision).passes;
  const Arrays answered = flat(got);
  ModelTrial model(trial, trial.kernel.precision, rows, answered);
  SecondForm second(trial, rows, got);
  for (ReportRow& row : rows) {
    Judgement j;
    const Expected* expected = model.judge(row, j);
    if (expected == nullptr) continue;
    if (trial.kernel.form != nullptr) row.by_contract = weighed_of(row.judgement);
    row.by_model = weighed_of(j, factor);
    if (decides == Decides::contract) {
      say_which(row, factor);
      continue;
    }
    if (trial.strict_dtypes && !row.stored.empty()) continue;  // refused, whatever it is worth
    let_model_decide(trial, row, j, got, second);
    if (row.evidence != "model") continue;
    row.ulp_format = name_of(expected->ulp_format), row.draws = model.draws(), row.stall = 0;
    row.where.clear(), row.expected = std::make_shared<const Expected>(*expected);
    if (j.verdict == Verdict::fail)
      row.where = locate(named_axes(answer_field(trial.room, row.tensor), expected->shape, trial.batch),
                         deviations_of(widened(*expected, factor), answered.at(row.tensor).data));
  }
  say_tf32(trial, rows, answered);
}

std::vector<std::string> evidence_legend(Format precision, const std::string& contract, Decides decides) {
  const ModelFactor factor = model_factor(precision);
  std::vector<std::string> lines = {
      fmt::format("evidence  model: error in units of what roundings to {} do in the recurrence itself, up to {:g} is "
                  "right,",
                  name_of(precision), factor.passes),
      fmt::format("          beyond {:g} no algorithm's; contract: in units of what {} allows, up to 1 keeps it",
                  factor.fails, contract)};
  lines.push_back(decides == Decides::model
                      ? "          the model decides; what it leaves open passes if it passes under a contract"
                      : fmt::format("          contract {} decides", contract));
  return lines;
}

}  // namespace assay
