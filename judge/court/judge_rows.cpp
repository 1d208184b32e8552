#include "judge/court/judge_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "arguments/file_case.hpp"
#include "files/layout.hpp"
#include "files/names.hpp"
#include "files/problem_file.hpp"
#include "judge/court/cache.hpp"
#include "judge/sigma/stored.hpp"
#include "judge/verdict/locate.hpp"
#include "oracles/multiword/parallel.hpp"

namespace assay {
namespace {

std::string name_of_tile(const Trial& trial, int tile) {
  return std::string(trial.kernel.form->tiles[static_cast<std::size_t>(tile)]);
}

/// The tile shapes that count.
std::vector<int> tiles_of(const Trial& trial) {
  return trial.tiles.empty() ? std::vector{trial.kernel.tile} : trial.tiles;
}

/// Allows for the dtypes of the answer. By tensor: the contract's format, where it is wider.
std::map<std::string, Format> allow_dtypes(const Trial& trial, Expectation& expectation) {
  std::map<std::string, Format> wider;
  for (auto& [name, expected] : expectation.tensors) {
    const auto dtype = trial.stored.find(name);
    if (dtype == trial.stored.end()) continue;
    const Format contract = expected.stored;
    if (trial.strict_dtypes ? is_narrower(dtype->second, contract) : allow_storage(expected, dtype->second))
      wider[name] = contract;
  }
  return wider;
}

/// Says of a tensor that the contract stores in a wider format than its dtype, and fails it where that is asked for.
void note_dtype(const Trial& trial, Format contract, ReportRow& row) {
  row.stored = name_of(trial.stored.at(row.tensor)), row.stored_by_contract = name_of(contract);
  if (!trial.strict_dtypes) return;
  row.judgement.verdict = Verdict::fail, row.where.clear();
  row.judgement.reason = fmt::format("is stored in {}, and the contract stores it in {}: --strict-dtypes refuses that",
                                     row.stored, row.stored_by_contract);
}

/// All that what is learnt depends on.
std::string key_of(const Trial& trial, const Wanted& wanted) {
  std::string key = fmt::format("contract {} {} {} tiles", trial.digest, key_of(trial.kernel), trial.false_alarms);
  for (const int tile : tiles_of(trial)) key += fmt::format(" {}", tile);
  key += fmt::format(" draws {}", trial.draws);
  for (const auto& [name, truth] : trial.oracle.tensors)
    if (!wanted || wanted(name)) key += ' ' + name;
  return key;
}

/// An answer before its judge: what was learnt for each tile shape, with what its dtypes allow.
class Court {
 public:
  Court(const Trial& trial, const std::optional<Answer>& got, const Wanted& wanted)
      : trial_(trial), given_(got.has_value()), tiles_(tiles_of(trial)) {
    const std::string key = trial.cache == nullptr ? "" : key_of(trial, wanted);
    expectations_ = kept_in(trial.cache, key, [&] {
      Learnt learnt = learn(trial, wanted);
      for (Expectation& expectation : learnt.expectations)
        for (auto& [name, expected] : expectation.tensors) leave_out_what_follows(expected, learnt.sharper.has_value());
      return std::move(learnt.expectations);
    });
    for (Expectation& expectation : expectations_)
      for (auto& [name, expected] : expectation.tensors) put_in_what_follows(expected, name, trial.oracle);
    if (got && wanted)
      for (Expectation& expectation : expectations_)
        std::erase_if(expectation.tensors, [&](const auto& tensor) { return !wanted(tensor.first); });
    for (Expectation& expectation : expectations_) wider_.push_back(allow_dtypes(trial, expectation));
    answer_ = got ? in_report_order(*got, expectations_.front()) : expectations_.front().emulated;
    if (trial.detects) detects_ = detectability(key);
  }

  /// The errors that the problem could have shown, if that was asked for.
  const std::optional<Detectability>& detects() const { return detects_; }

  /// Fills in what becomes of the row's tensor.
  void judge(ReportRow& row, int threads) {
    row.draws = trial_.draws;
    row.judgement.verdict = Verdict::unsupported, row.judgement.reason = "the kernel does not answer it";
    for (std::size_t t = 0; t < answer_.size(); ++t)
      if (answer_[t].first == row.tensor) judge(t, row, threads);
  }

 private:
  void judge(std::size_t t, ReportRow& row, int threads) {
    const std::vector<double>& values = answer_[t].second;
    std::vector<Judgement> judgements;
    for (Expectation& expectation : expectations_) {
      Expected& expected = expectation.tensors[t].second;
      expected.place = row.place;
      judgements.push_back(assay::judge(expected, values, threads));
    }
    const std::size_t s = fitting(judgements);
    Expected& expected = expectations_[s].tensors[t].second;
    row.ulp_format = name_of(expected.ulp_format), row.stall = expected.stall, row.draws = expected.draws;
    row.fits = tiles_of(trial_).size() > 1 ? name_of_tile(trial_, tiles_[s]) : "", row.judgement = judgements[s];
    if (row.judgement.verdict == Verdict::fail)
      show_where(row, axes_in_trial(trial_, row.tensor, row.extents), deviations_of(expected, values));
    if (const auto wider = wider_[s].find(row.tensor); wider != wider_[s].end()) note_dtype(trial_, wider->second, row);
    if (given_) row.expected = std::make_shared<const Expected>(std::move(expected));
  }

  Detectability detectability(const std::string& key) const {
    KernelUnderTest first = trial_.kernel;
    first.tile = tiles_.front();
    std::string stored;
    for (const auto& [name, format] : trial_.stored) stored += fmt::format(" {}:{}", name, name_of(format));
    return kept_in(trial_.cache, fmt::format("detects {} stored {} {}", key, trial_.strict_dtypes, stored),
                   [&] { return detectability_of(trial_.room, first, trial_.problem, expectations_); });
  }

  const Trial& trial_;
  bool given_;
  std::vector<int> tiles_;
  std::vector<Expectation> expectations_;             // of each of the tile shapes
  std::vector<std::map<std::string, Format>> wider_;  // likewise
  Named<std::vector<double>> answer_;
  std::optional<Detectability> detects_;
};

}  // namespace

std::vector<NamedAxis> axes_in_trial(const Trial& trial, const std::string& tensor, const std::vector<int>& shape) {
  const RoomFacts::Ranked field = answer_field(trial.room, tensor);
  std::vector<NamedAxis> axes = named_axes(field, shape, trial.batch);
  if (trial.is_sample && !axes.empty()) axes.front().one = "sampled part", axes.front().many = "sampled parts";
  if (arguments::without_suffix(trial.room.name).empty()) return axes;
  const auto file = arguments::FileCase::of(trial.problem);
  const auto judged = file->judged().find(tensor);
  if (judged == file->judged().end() || judged->second.shape != shape) return axes;
  axes = named_axes(field, shape, judged->second.states);
  for (NamedAxis& axis : axes)
    if (axis.one == "token" || axis.one == "query") axis.borders = judged->second.borders;
  return axes;
}

Learnt learn(const Trial& trial, const Wanted& wanted) {
  const std::vector<int> tiles = tiles_of(trial);
  std::vector<KernelRuns> runs(tiles.size());
  const std::string contract =
      "contract " +
      (trial.kernel.contract == nullptr ? std::string(name_of(trial.kernel.precision)) : trial.kernel.contract->name);
  const auto each = [&](auto f) {
    for (std::size_t s = 0; s < tiles.size(); ++s) {
      KernelUnderTest kernel = trial.kernel;
      kernel.tile = tiles[s];
      f(runs[s], kernel);
    }
  };
  Learnt learnt;
  const auto expected = [&] {
    return expect(learnt.sharper ? *learnt.sharper : trial.oracle, trial.kernel, tiles, trial.problem, runs,
                  trial.false_alarms);
  };
  std::size_t done = 0;
  each([&](KernelRuns& r, const KernelUnderTest& kernel) {
    if (trial.phase) trial.phase(contract + ", tile shapes", done++, tiles.size());
    add_runs(r, kernel, trial.problem, trial.draws);
  });
  if (trial.phase) trial.phase("judging", 0, 0);
  learnt.expectations = expected();
  const auto any = [&](bool (*asks)(const Expectation&, const Wanted&)) {
    return std::ranges::any_of(learnt.expectations, [&](const auto& e) { return asks(e, wanted); });
  };
  const bool words = any(asks_for_words), draws = any(asks_for_draws);
  if (words) learnt.sharper = oracle_of(trial.room, trial.problem, 4);
  if (draws)
    each(
        [&](KernelRuns& r, const KernelUnderTest& kernel) { add_numbers(r, kernel, trial.problem, draws_of_numbers); });
  if (words || draws) learnt.expectations = expected();
  return learnt;
}

std::vector<ReportRow> blank_rows(const Trial& trial, ReportRow row, const Wanted& wanted) {
  const KernelForm* form = trial.kernel.form;
  const std::string_view name_of_form = form == nullptr ? "any" : form->name;
  row.mechanism = trial.room.name;
  if (row.form.empty()) row.form = name_of_form;
  if (row.form != name_of_form) row.judged_by = name_of_form;
  row.tile = form == nullptr ? "none" : names_in(tiles_of(trial), [&](int tile) { return name_of_tile(trial, tile); });
  row.precision = name_of(trial.kernel.precision);
  row.contract = trial.kernel.contract == nullptr ? row.precision : trial.kernel.contract->name;
  row.judgement = {}, row.where.clear(), row.stall = 0, row.expected.reset(), row.errors.reset();
  if (form == nullptr) row.judgement.verdict = Verdict::unsupported, row.judgement.reason = trial.unfit;
  row.stored.clear(), row.stored_by_contract.clear();
  std::vector<ReportRow> rows;
  for (const auto& [name, truth] : trial.oracle.tensors) {
    if (truth.value.empty() || (wanted && !wanted(name))) continue;
    row.tensor = name, row.extents = truth.shape;
    if (trial.file != nullptr) row.place = trial.file->places_in_file(row.tensor, row.extents);
    rows.push_back(row);
  }
  return rows;
}

Named<std::vector<double>> emulated(const Trial& trial) {
  const Arrays own = flat(trial.kernel.form->run(trial.problem, trial.kernel.policy(), tiles_of(trial).front()));
  Named<std::vector<double>> list;
  for (const auto& [name, truth] : trial.oracle.tensors)
    if (const auto found = own.find(name); found != own.end() && !found->second.data.empty())
      list.emplace_back(name, found->second.data);
  return list;
}

void note_dtypes(const Trial& trial, const Named<Format>& stored, std::vector<ReportRow>& rows) {
  for (ReportRow& row : rows)
    for (const auto& [name, contract] : stored) {
      const auto dtype = trial.stored.find(row.tensor);
      if (name == row.tensor && dtype != trial.stored.end() && is_narrower(dtype->second, contract))
        note_dtype(trial, contract, row);
    }
}

std::vector<ReportRow> judge_rows(const Trial& trial, const ReportRow& row, const std::optional<Answer>& got,
                                  const Wanted& wanted) {
  Court court(trial, got, wanted);
  std::vector<ReportRow> rows = blank_rows(trial, row, wanted);
  for (ReportRow& one : rows) one.detects = court.detects();
  const int threads = trial.kernel.threads, of_each = words::threads_of_each(threads, rows.size());
  words::in_parallel(rows.size(), threads, [&](std::size_t i) { court.judge(rows[i], of_each); });
  return rows;
}

}  // namespace assay
