#include "judge/trial/calibrate_model.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "files/case_file.hpp"
#include "files/names.hpp"
#include "files/problem_file.hpp"
#include "judge/sigma/by_model.hpp"
#include "judge/sigma/model.hpp"
#include "judge/sigma/other_algorithms.hpp"
#include "judge/sigma/stored.hpp"
#include "judge/trial/program_variants.hpp"
#include "oracles/core/in_order.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

/// One case, and the kernels that answer it.
struct Piece {
  std::shared_ptr<const Room> room;
  const KernelForm* form;  ///< null of a program
  CaseSpec spec;
};

/// The results of a room in a precision: the errors of tensors, as the column `model` has them.
struct Seen {
  std::vector<double> excess;
  std::size_t passed = 0, undecided = 0, failed = 0, other = 0;
  std::vector<ModelAlarm> alarms;

  void add(const Judgement& j, double factor) {
    if (j.verdict == Verdict::unsupported) return;
    excess.push_back(j.excess * factor);
    ++(j.verdict == Verdict::pass        ? passed
       : j.verdict == Verdict::fail      ? failed
       : j.verdict == Verdict::undecided ? undecided
                                         : other);
  }
  void join(const Seen& more) {
    excess.insert(excess.end(), more.excess.begin(), more.excess.end());
    passed += more.passed, undecided += more.undecided, failed += more.failed, other += more.other;
    alarms.insert(alarms.end(), more.alarms.begin(), more.alarms.end());
  }
  double quantile(double share) {
    if (excess.empty()) return 0;
    std::sort(excess.begin(), excess.end());
    return excess[std::min(excess.size() - 1, static_cast<std::size_t>(share * static_cast<double>(excess.size())))];
  }
};

constexpr Format model_precisions[] = {Format::fp64, Format::fp32, Format::tf32, Format::bf16, Format::fp16};

void add_pieces(const std::shared_ptr<const Room>& room, const KernelForm* form, const CalibrateOptions& options,
                std::vector<Piece>& list) {
  for (const Format precision : model_precisions) {
    if (!asks_for(options.precisions, precision)) continue;
    for (const Style style : all_styles) {
      if (options.styles.empty() ? std::ranges::find(calibration_styles, style) == std::end(calibration_styles)
                                 : !asks_for(options.styles, style))
        continue;
      for (int n = 0; n < options.seeds; ++n) {
        CaseSpec spec{.mechanism = std::string(room->name),
                      .shape = {.seq_len = 70, .heads = 2, .shared_heads = 0, .key_dim = 16, .value_dim = 16},
                      .precision = precision,
                      .style = style,
                      .seed = options.seed + static_cast<std::uint64_t>(n),
                      .params = {}};
        if (!options.shape.empty()) spec.shape = shape_from(options.shape);
        list.push_back({room, form, spec});
      }
    }
  }
}

std::vector<Piece> pieces_of(const CalibrateOptions& options) {
  std::vector<Piece> list;
  for (const KernelRoom* kernels : kernel_rooms())
    if (asks_for(options.mechanisms, kernels->name))
      add_pieces(find_room(kernels->name), &kernels->forms.front(), options, list);
  for (const std::string& name : options.mechanisms)
    if (const auto room = room_named(name, "--mechanism"); room->is_program()) add_pieces(room, nullptr, options, list);
  return list;
}

/// Whether a kernel in that precision may be this variant. Tensor cores cut off their operands in tf32 alone: in 16
/// bits to cut off what is stored is a fault, and where operands are as wide as sums there are none. A contract that
/// keeps a state in fewer digits is a promise of its own, which the model does not know.
bool is_healthy(const HealthyVariant& variant, Format precision) {
  if (variant.fit == Fit::other || (variant.fit == Fit::biased && precision != Format::tf32)) return false;
  const tile::SiteTable& sites = variant.kernel.form->sites;
  return !has_narrower_state(variant.kernel.contract.policy(sites).sites, Policy::of(sites, precision).sites);
}

std::vector<HealthyVariant> model_variants(std::string_view room, const KernelForm& form, Format precision) {
  std::vector<HealthyVariant> list = healthy_variants(room, form, precision);
  std::erase_if(list, [&](const HealthyVariant& v) { return !is_healthy(v, precision); });
  if (precision != Format::bf16 && precision != Format::fp16) return list;
  Contract contract = Contract::of(precision);
  contract.name += ", sums cut off", contract.rounding = Rounding::toward_zero;
  contract.rules = {{"operands", Format::exact}, {"out", Format::fp64, false}};
  if (!contract.obstacle(form.sites).empty()) return list;
  const Rounds rounds{&form, 0, contract};
  list.push_back({"sums cut off", rounds, rounds, Fit::biased});
  return list;
}

/// The answers of the healthy variants that are asked for.
std::vector<HealthyAnswer> answers_to(const Piece& piece, const Problem& problem, const CalibrateOptions& options) {
  if (piece.form == nullptr) return program_answers(problem, options.forms, piece.spec.precision, options.variants);
  std::vector<HealthyAnswer> list;
  for (const HealthyVariant& variant : model_variants(piece.room->name, *piece.form, piece.spec.precision))
    if (asks_for(options.variants, variant.name) && variant.kernel.form->obstacle(problem).empty())
      list.push_back({variant.name,
                      flat(variant.kernel.form->run(problem, variant.kernel.contract.policy(variant.kernel.form->sites),
                                                    variant.kernel.tile))});
  return list;
}

/// The oracle's answer; nothing of a program whose case has none, as where a state grows beyond all numbers.
std::optional<Oracle> truth_of(const Piece& piece, const Problem& problem) {
  if (piece.form != nullptr) return oracle_of(*piece.room, problem);
  try {
    return oracle_of(*piece.room, problem);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// Answers of the healthy variants that are asked for to one case, judged by the model.
Seen judge_piece(const Piece& piece, const CalibrateOptions& options) {
  Seen seen;
  const Problem problem = piece.room->make(piece.spec);
  if (piece.form != nullptr && !piece.form->obstacle(problem).empty()) return seen;
  const std::optional<Oracle> truth = truth_of(piece, problem);
  if (!truth) return seen;
  const Oracle& oracle = *truth;
  const ModelRuns runs = model_runs(problem, piece.spec.precision, default_draws, 1);
  // Answers have few different formats.
  std::map<std::map<std::string, Format>, Named<Expected>> by_formats;
  for (const auto& [variant, got] : answers_to(piece, problem, options)) {
    std::map<std::string, Format> formats;
    for (const auto& [name, array] : got) {
      formats[name] = stored_format(array.data);
      // Numbers that underflow in fp16 fit into bf16, too, whose spacing there is smaller: a file would say which.
      const Format left_in = piece.spec.precision;
      if (piece.form == nullptr && is_narrower(left_in, formats[name]) &&
          narrowest_of(std::span(&left_in, 1), array.data) == left_in)
        formats[name] = left_in;
    }
    const auto stored = [formats](const std::string& name) {
      const auto found = formats.find(name);
      return found == formats.end() ? Format::fp64 : found->second;
    };
    const auto [known, is_new] = by_formats.try_emplace(formats);
    if (is_new) known->second = expect_by_model(oracle, runs, stored);
    OtherAlgorithms others(problem, oracle, piece.spec.precision, default_draws, 1, stored);
    for (const auto& [name, e] : known->second) {
      const auto found = got.find(name);
      if (found == got.end()) continue;
      const Judgement j = judge_by_model(e, piece.spec.precision, found->second.data, 1, &others, name);
      const double factor = model_factor(piece.spec.precision).passes;
      seen.add(j, factor);
      if (j.verdict == Verdict::fail)
        seen.alarms.push_back({piece.spec.mechanism, piece.spec.precision, piece.spec.style, piece.spec.seed, variant,
                               name, j.excess * factor});
    }
  }
  return seen;
}

}  // namespace

std::size_t ModelCalibration::count(std::size_t ModelRow::*of) const {
  std::size_t all = 0;
  for (const ModelRow& row : rows) all += row.*of;
  return all;
}

ModelCalibration calibrate_model(const CalibrateOptions& options, const CaseDone& done) {
  const std::vector<Piece> pieces = pieces_of(options);
  require(!pieces.empty(), "--model: no room, precision or style is left");
  std::map<std::pair<std::string, Format>, Seen> seen;
  in_order(
      pieces.size(), {options.threads, options.seconds}, [&](std::size_t i) { return judge_piece(pieces[i], options); },
      [&](std::size_t i, const Seen& of_piece) {
        seen[{std::string(pieces[i].room->name), pieces[i].spec.precision}].join(of_piece);
      },
      [&](std::size_t i) { done(pieces.size(), pieces[i].room->name); });
  ModelCalibration c{.options = options};
  for (auto& [key, of] : seen) {
    c.alarms.insert(c.alarms.end(), of.alarms.begin(), of.alarms.end());
    c.rows.push_back({.room = key.first,
                      .precision = key.second,
                      .tensors = of.excess.size(),
                      .passed = of.passed,
                      .undecided = of.undecided,
                      .failed = of.failed,
                      .other = of.other,
                      .median = of.quantile(0.5),
                      .high = of.quantile(0.99),
                      .largest = of.quantile(1)});
  }
  return c;
}

}  // namespace assay
