#include "tools/run/long_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "files/names.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/check_costs.hpp"
#include "tools/print/sample.hpp"

namespace assay {
namespace {

constexpr double worth_a_word = 10;  // seconds
constexpr double slowest = 4;        // machines
constexpr int most_of_it = 8;        // the first part is at most an eighth of the case

std::string mark_of(const CaseTrial& trial) { return "judged " + digest_of(trial.file().problem); }

/// The options that judge one part of a case, and of attention some of its query rows; nothing where no part is small.
std::optional<CheckOptions> for_a_part(const CheckOptions& options, const Safetensors& problem) {
  const SampledParts parts = parts_of(with_mechanism(problem, options.standard.mechanism), options.problem);
  CheckOptions some = options;
  some.sample = 1, some.keeps = false, some.standard.detects = false, some.standard.limits_alone = true,
  some.standard.large = 0;
  if (parts.all() >= most_of_it) return some;
  some.sample_rows = parts.tokens * parts.all() / most_of_it;
  return some.sample_rows > 0 ? std::optional(some) : std::nullopt;
}

/// What was found in a part, with the flags that judge it again.
std::string sentence_of(const Checked& checked, const CheckOptions& options,
                        std::chrono::steady_clock::time_point begun) {
  std::vector<std::string> failing;
  for (const ReportRow& row : checked.rows)
    if (row.judgement.verdict == Verdict::fail) failing.push_back(row.tensor);
  const SampledParts& parts = *checked.trial->file().parts;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
  std::string where = name_of(parts.chosen.front(), checked.trial->file().heads), again;
  if (parts.rows > 0) where += fmt::format(", query rows {} to {}", parts.first_row, parts.first_row + parts.rows - 1);
  if (parts.rows > 0) again = fmt::format(" --sample-rows {}", options.sample_rows);
  return fmt::format(
      "assay: after {}: {} beyond the model's limits in {}, 1 of {} parts (--sample 1{} --sample-seed {} judges it "
      "alone); the rest follows",
      spoken_time(passed.count()),
      failing.empty() ? "no tensor is" : names_in(failing) + (failing.size() == 1 ? " is" : " are"), where, parts.all(),
      again, parts.seed);
}

}  // namespace

ClockCost tell_cost(const CheckOptions& options, const CaseTrial& trial, Cache* cache, Console& console) {
  const ProblemFile& file = trial.file();
  const int groups = std::max(1, file.shared_heads > 0 ? file.shared_heads : file.heads);
  const int parts = file.parts ? file.parts->all() : file.batch * groups;
  // The trial has only one part of a sample yet.
  const int judged = file.parts && options.sample > 0 ? options.sample : parts;
  const double of_rows = file.parts && file.parts->rows > 0 ? double{1} * file.parts->rows / file.parts->tokens : 1;
  std::size_t numbers = 0;
  for (const Arrays* arrays : {&file.problem.inputs, &file.problem.cotangents})
    for (const auto& [name, array] : *arrays)
      numbers += array.data.size() * (file.parts ? static_cast<std::size_t>(judged) : 1);
  auto cost = check_estimate(file.problem.mechanism, trial.shape(), !file.problem.cotangents.empty(), numbers);
  if (!cost) return {};
  const int threads = trial.kernel().threads;
  const double share = of_rows * judged / parts;
  const bool can_sample = !file.parts && !file.has_arguments();
  if (on_cores(cost->of(share), threads) * slowest >= worth_a_word) {
    if (cache != nullptr && cache->find(mark_of(trial))) return {};
    const double factor = machine_factor();
    cost->seconds *= factor, cost->faults *= factor, cost->draws *= factor;
  }
  const double all = on_cores(cost->of(share), threads);
  if (all >= worth_a_word && of_rows >= 1)
    console.err << "assay: " << cost_sentence(*cost, parts, judged, threads, can_sample) << '\n';
  return {all, cost->draws * share / threads};
}

void remember(const ClockCost& expected, const CaseTrial& trial, Cache* cache) {
  if (cache != nullptr && expected.all >= worth_a_word) cache->keep(mark_of(trial), "judged");
}

void tell_first_part(const CheckOptions& options, const Safetensors& problem, const Safetensors& answer,
                     const ClockCost& expected, Console& console) {
  if (expected.all < options.long_check || options.sample > 0 || options.sample_rows > 0) return;
  const auto begun = std::chrono::steady_clock::now();
  try {
    const std::optional<CheckOptions> some = for_a_part(options, problem);
    if (!some) return;
    console.err << sentence_of(check_answer(*some, problem, answer, console), *some, begun) << '\n';
  } catch (const InputError&) {
    // A case of which no part stands alone; what is wrong with the answer is said of all of it.
  }
}

void MoreDraws::hear(std::string_view what, std::size_t done, std::size_t total) {
  if (what != "draws of the model") return;
  if (done == 0) begun_ = std::chrono::steady_clock::now(), total_ = first_ = total;
  if (done == 0 || total <= total_) return;
  total_ = total;
  const double more = static_cast<double>(total - done);
  if (first_ == 0 || expected_ * more / static_cast<double>(first_) < worth_a_word) return;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun_;
  progress_.say(text("assay: ", done, " draws leave a tensor open; ", total - done, " more take about ",
                     spoken_time(passed.count() * more / static_cast<double>(done))));
}

}  // namespace assay
