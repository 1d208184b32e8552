#include "tools/run/long_check.hpp"

#include <algorithm>
#include <string>

#include "reference/core/error.hpp"
#include "tools/cases/check_costs.hpp"

namespace assay {
namespace {

constexpr double worth_a_word = 10;  // seconds
constexpr double slowest = 4;        // machines

/// What a check leaves in the cache that has learnt all that it judges by.
std::string mark_of(const CaseTrial& trial) {
  return text("judged ", digest_of(trial.file().problem), ' ', name_of(trial.kernel().precision), ' ',
              trial.kernel().contract->name);
}

}  // namespace

ClockCost tell_cost(int sample, const CaseTrial& trial, Cache* cache, Console& console) {
  const ProblemFile& file = trial.file();
  const int groups = std::max(1, file.shared_heads > 0 ? file.shared_heads : file.heads);
  const int parts = file.parts ? file.parts->all() : file.batch * groups;
  // The trial has only one part of a sample yet.
  const int judged = file.parts && sample > 0 ? sample : parts;
  const double of_rows = file.parts && file.parts->rows > 0 ? double{1} * file.parts->rows / file.parts->tokens : 1;
  std::size_t numbers = 0;
  for (const Arrays* arrays : {&file.problem.inputs, &file.problem.cotangents})
    for (const auto& [name, array] : *arrays)
      numbers += array.data.size() * (file.parts ? static_cast<std::size_t>(judged) : 1);
  auto cost = check_estimate(file.problem.mechanism, trial.shape(), !file.problem.cotangents.empty(), numbers);
  if (!cost) return {};
  if (trial.decides() == Decides::contract) cost->seconds *= times_by_contract;
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
