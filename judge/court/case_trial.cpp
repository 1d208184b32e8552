#include "judge/court/case_trial.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "files/did_you_mean.hpp"
#include "files/names.hpp"
#include "files/shown.hpp"
#include "judge/court/argument_form.hpp"
#include "judge/court/cache.hpp"
#include "judge/forms/sequential.hpp"
#include "judge/programs/program_form.hpp"
#include "oracles/core/room.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

/// The room's kernels; null of what has none and the model judges. Throws InputError if there is no such room.
const KernelRoom* kernels_of(const ProblemFile& file, const std::string& where) {
  const std::string& mechanism = file.problem.mechanism;
  if (file.room == nullptr) throw InputError(text(where, ": ", unknown_mechanism(mechanism).what()));
  if (file.room->is_program()) return nullptr;
  return file.has_arguments() ? find_argument_forms(mechanism) : find_kernels(kernel_rooms(), mechanism);
}

/// The form asked for, or the first one that takes the problem and has the contract's sites.
const KernelForm& form_for(const KernelRoom& kernels, const Problem& problem, const std::string& asked,
                           const Contract& contract, const std::string& where) {
  std::string obstacles;
  bool of_problem = true;  // and not of the contract
  std::vector<std::string> names;
  for (const KernelForm* form : forms_of(kernels)) {
    names.emplace_back(form->name);
    // The model judges what no tile program takes; a contract that none keeps may be one of kernels without tiles.
    const bool unasked = !form->unstable.empty() || (is_reference(*form) && (contract.plain() || of_problem));
    if (asked.empty() ? unasked : form->name != asked) continue;
    std::string obstacle = form->obstacle(problem);
    of_problem = of_problem && !obstacle.empty();
    if (obstacle.empty()) obstacle = contract.obstacle(measure_of(kernels, *form).sites);
    if (obstacle.empty()) return *form;
    obstacles += text(obstacles.empty() ? "" : "; ", form->name, ": ", obstacle);
  }
  require(!obstacles.empty(), "--form: ", kernels.name, " has no ", asked, did_you_mean(asked, names), "; it has ",
          names_in(names));
  throw InputError(text(
      where, ": ", obstacles,
      of_problem ? "; so no contract can be asked; without --contract, --form and --tile the model judges it" : ""));
}

/// The tile shape asked for, or all that are compiled in.
std::vector<int> tiles_of(const KernelForm& form, const std::string& asked) {
  std::vector<int> tiles;
  for (std::size_t t = 0; t < form.tiles.size(); ++t)
    if (asked.empty() || form.tiles[t] == asked) tiles.push_back(static_cast<int>(t));
  require(!tiles.empty(), "--tile: ", form.name, " has no ", asked, "; it has ", names_in(form.tiles));
  return tiles;
}

/// The precision of that name; `who` begins messages.
Format precision_named(const std::string& name, const std::string& who) {
  for (const Format format : case_precisions)
    if (name == name_of(format)) return format;
  throw InputError(who + ": " + there_is_no(name, name_list(case_precisions)));
}

/// The precision that `assay case` has written down, or the dtype of the case's first tensor; then `guess` says so.
/// Nothing where it has neither.
std::optional<Format> precision_of(const ProblemFile& file, const std::string& where, std::string& guess) {
  const auto named = file.metadata.find("precision");
  if (named != file.metadata.end()) return precision_named(named->second, where + ": __metadata__.precision");
  // Rooms name q first, or what stands for it.
  for (const RoomFacts::Ranked& ranked : file.room->inputs()) {
    const auto dtype = file.dtypes.find(std::string(ranked.field.name));
    if (dtype == file.dtypes.end()) continue;
    guess = text(name_of(dtype->second), ", as ", dtype->first, " is stored");
    return dtype->second;
  }
  return std::nullopt;
}

/// The contract asked for, as it is in the precision of the case, or that of the precision asked for, or of the case.
Contract contract_for(const Standard& standard, const ProblemFile& file, const std::string& where, std::string& guess) {
  if (!standard.contract.empty()) {
    const Contract contract = contract_from(standard.contract);
    const std::optional<Format> precision =
        contract.follows ? precision_of(file, where, guess) : std::optional(contract.precision);
    return contract.in(precision.value_or(contract.precision));
  }
  if (!standard.precision.empty()) return Contract::of(precision_named(standard.precision, "--precision"));
  const std::optional<Format> precision = precision_of(file, where, guess);
  require(precision.has_value(), where, ": names no precision; --precision or --contract says what counts");
  return Contract::of(*precision);
}

/// Whether no tensor is missing and every number is one.
bool is_whole(const ProblemFile& file) {
  const auto finite = [](const Arrays& arrays) {
    return std::all_of(arrays.begin(), arrays.end(), [](const auto& array) {
      return std::all_of(array.second.data.begin(), array.second.data.end(), [](double x) { return std::isfinite(x); });
    });
  };
  for (const RoomFacts::Ranked& ranked : file.room->inputs())
    if (ranked.field.place == Field::Place::input && ranked.field.missing == Field::Missing::error &&
        !file.problem.inputs.contains(ranked.field.name))
      return false;
  return finite(file.problem.inputs) && finite(file.problem.cotangents);
}

/// Whether the reference, in doubles, finds its inputs in the mechanism's domain. Where it does not, the oracle
/// decides.
bool is_in_domain(const ProblemFile& file) {
  Problem forward = file.problem;
  forward.cotangents.clear();
  try {
    file.room->values(forward, Tier::fp64);
  } catch (const InputError&) {
    return false;
  }
  return true;
}

/// With what the oracle's own answers say of it.
void erase_pair(Safetensors& answer, const std::string& tensor) {
  for (const char* part : {"", ".lo", ".bound"}) answer.tensors.erase(tensor + part);
}

void require_names(const std::vector<std::string>& names, const Named<std::vector<int>>& answered) {
  std::vector<std::string> known;
  for (const auto& [name, shape] : answered) known.push_back(name);
  for (const std::string& name : names)
    require(std::find(known.begin(), known.end(), name) != known.end(), "--tensor: there is no ", name,
            did_you_mean(name, known), "; there are ", names_in(known));
}

/// "B,T,H,K,V" as its tensors have them, those of the whole case where it is a part of one.
Shape shape_of(const ProblemFile& file) {
  if (file.shape) return *file.shape;
  Extents extents;
  for (const RoomFacts::Ranked& ranked : file.room->inputs()) {
    const auto given = file.problem.inputs.find(ranked.field.name);
    if (given == file.problem.inputs.end()) continue;
    for (std::size_t r = 1; r < given->second.shape.size() && r <= ranked.field.axes.size(); ++r)
      extents[ranked.field.axes[r - 1]] = given->second.shape[r];
  }
  const auto known = [&](Axis axis) { return std::max(0, extents[axis]); };
  Shape shape{.batch = file.batch,
              .seq_len = known(Axis::seq_len),
              .heads = file.heads,
              .shared_heads = file.shared_heads,
              .key_dim = known(Axis::key_dim),
              .value_dim = known(Axis::value_dim),
              .query_len = known(Axis::query_len)};
  if (file.parts) {
    shape.batch = file.parts->sequences;
    shape.heads *= file.parts->groups, shape.shared_heads *= file.parts->groups;
    if (file.parts->rows > 0) shape.query_len = shape.seq_len = file.parts->tokens;
  }
  if (shape.query_len == shape.seq_len) shape.query_len = 0;
  if (shape.shared_heads == shape.heads) shape.shared_heads = 0;
  return shape;
}

}  // namespace

CaseTrial::CaseTrial(Safetensors stored, Standard standard, std::string where, std::optional<SampledParts> parts)
    : standard_(std::move(standard)),
      where_(std::move(where)),
      file_(read_problem(with_mechanism(std::move(stored), standard_.mechanism), where_)),
      kernels_(kernels_of(file_, where_)),
      contract_(contract_for(standard_, file_, where_, precision_guess_)) {
  require(!parts || !file_.has_arguments(), where_,
          ": --sample: a case with arguments cannot be taken apart; without --sample all of it is judged");
  file_.parts = std::move(parts);
  kernel_.precision = contract_.precision, kernel_.contract = &contract_;
  kernel_.threads = words::threads_or_all(standard_.threads);
}

void CaseTrial::prepare(const PartDone& done, Cache* cache) {
  cache_ = cache;
  if (cache_ != nullptr) digest_ = digest_of(file_.problem);
  const auto ask = [&] {
    BasicAnswer<Enclosed> answer;
    const CaseResult result = answer_problem(file_, Tier::w2, kernel_.threads, done, answer);
    require(result.status == Status::ok, where_, ": ", name_of(result.status), ": ", result.message);
    return oracle_of(file_.problem, std::move(answer), kernel_.threads);
  };
  oracle_ = kept_in(file_.refusal ? nullptr : cache_, "truth " + digest_, ask);
  choose_form();
  if (is_by_program()) prove_form();
  if (judges_gradients()) return;
  file_.problem.cotangents.clear();
  if (cache_ != nullptr) digest_ = digest_of(file_.problem);
  std::erase_if(oracle_.tensors, [&](const auto& tensor) {
    if (!tensor.first.starts_with("d_")) return false;
    without_gradients_.push_back({tensor.first, text("the form ", kernel_.form->name, " has no gradients")});
    return true;
  });
}

Decides CaseTrial::decides() const {
  // A form of a program is the full judge, with its own sites.
  const bool asked =
      !standard_.contract.empty() || !standard_.tile.empty() || (kernels_ == nullptr && !standard_.form.empty());
  return asked ? Decides::contract : Decides::model;
}

/// Finds the form. The model needs no kernel of ours that takes the problem; a contract, form or tile asked for does.
void CaseTrial::choose_form() {
  if (kernels_ == nullptr) {
    unfit_ = file_.has_arguments() ? "no kernel of ours takes a case with arguments"
                                   : file_.problem.mechanism + " is a program, and has no kernel of ours";
    if (decides() == Decides::model) return;
    require(!file_.has_arguments(), where_, ": ", unfit_,
            ": without --contract, --form and --tile the model judges it");
    require(is_program_form(standard_.form), where_, ": ", unfit_,
            ": --form FORM.json, a program with the kernel's roundings, has the sites of a contract; without "
            "--contract, --form and --tile the model judges it");
    of_program_ = program_form(standard_.form, file_.problem.mechanism), kernel_.form = of_program_.get();
    const std::string obstacle = contract_.obstacle(kernel_.form->sites);
    require(obstacle.empty(), where_, ": ", standard_.form, ": ", obstacle);
    tiles_ = tiles_of(*kernel_.form, standard_.tile);
    return;
  }
  try {
    kernel_.form = &measure_of(*kernels_, form_for(*kernels_, file_.problem, standard_.form, contract_, where_));
  } catch (const InputError& error) {
    if (decides() == Decides::contract || !standard_.form.empty()) throw;
    unfit_ = error.what();
    return;
  }
  tiles_ = tiles_of(*kernel_.form, standard_.tile);
  kernel_.tile = tiles_.front();
}

/// Before anything is judged by a form of a program: that it computes what it is a form of.
void CaseTrial::prove_form() {
  const auto prove = [&] {
    require_equal(*kernel_.form, file_.problem, oracle_, kernel_.threads);
    return Oracle{};  // what is kept is that it was proven
  };
  kept_in(cache_, text("form ", kernel_.form->summary, " of ", digest_), prove);
}

bool CaseTrial::is_admitted(const std::vector<std::string>& tensors) {
  // Forms need not know what to do with a problem that the reference would refuse.
  if (file_.refusal || !is_whole(file_) || !is_in_domain(file_)) return false;
  choose_form();
  const bool gradients = judges_gradients() && !file_.problem.cotangents.empty();
  const auto is_answered = [&](const std::string& tensor) {
    const bool gradient = tensor.starts_with("d_");
    const auto fields = gradient ? file_.room->inputs() : file_.room->outputs();
    return (gradients || !gradient) && find_field(fields, std::string_view(tensor).substr(gradient ? 2 : 0)) != nullptr;
  };
  return std::all_of(tensors.begin(), tensors.end(), is_answered);
}

void CaseTrial::admit(Safetensors& answer, const std::vector<std::string>& tensors, const std::string& source) {
  if (file_.refusal || file_.parts || !is_whole(file_)) return;
  std::optional<Answer> shapes;
  try {
    shapes = file_.room->shapes(file_.problem);
  } catch (const InputError&) {  // the oracle says it
  }
  if (!shapes) return;
  choose_form();
  Named<std::vector<int>> answered;
  for (const auto& [name, array] : named(*std::move(shapes))) {
    if (judges_gradients() || !name.starts_with("d_"))
      answered.emplace_back(name, array.shape);
    else
      erase_pair(answer, name);
  }
  require_names(tensors, answered);
  require_outputs(answer, file_, answered, tensors, source);
}

Shape CaseTrial::shape() const { return shape_of(file_); }

std::string CaseTrial::flags() const {
  return text(standard_.mechanism.empty() ? "" : "--mechanism " + shown_word(standard_.mechanism) + " ",
              kernel_.form == nullptr ? "" : text("--form ", shown_word(std::string(kernel_.form->name)), ' '),
              standard_.contract.empty() ? text("--precision ", name_of(kernel_.precision))
                                         : "--contract " + shown_word(contract_.argument()),
              standard_.tile.empty() ? "" : " --tile " + standard_.tile);
}

KernelUnderTest CaseTrial::kernel_at(const std::string& tile) const {
  KernelUnderTest kernel = kernel_;
  if (!tile.empty()) kernel.tile = tiles_of(*kernel_.form, tile).front();
  return kernel;
}

void CaseTrial::require_tensors(const std::vector<std::string>& names) const { require_names(names, oracle_.shapes()); }

GivenAnswer CaseTrial::read(Safetensors answer, const std::vector<std::string>& tensors,
                            const std::string& source) const {
  for (const NotJudged& one : without_gradients_) erase_pair(answer, one.tensor);
  GivenAnswer given = read_outputs(std::move(answer), file_, oracle_.shapes(), tensors, source);
  given.not_judged.insert(given.not_judged.end(), without_gradients_.begin(), without_gradients_.end());
  return given;
}

/// The forms of other algorithms; none where a form or a tile is named, for then that one is meant. They must have the
/// sites, too, of a contract that is not the precision's own.
std::vector<OtherForm> CaseTrial::other_forms() const {
  if (!standard_.form.empty() || !standard_.tile.empty()) return {};
  std::vector<OtherForm> forms;
  if (const KernelForm* form = recurrent_form(file_.problem.mechanism); form != nullptr && form != kernel_.form)
    forms.push_back({{std::shared_ptr<const void>(), form}, "token by token"});
  if (decides() == Decides::model)
    for (auto& [form, how] : published_forms(file_.problem)) forms.push_back({std::move(form), std::move(how), false});
  std::erase_if(forms, [&](const OtherForm& other) { return !contract_.obstacle(other.form->sites).empty(); });
  return forms;
}

Trial CaseTrial::trial_of(const GivenAnswer& got) const {
  return {.room = *file_.room,
          .kernel = kernel_,
          .problem = file_.problem,
          .oracle = oracle_,
          .batch = file_.batch,
          .file = &file_,
          .false_alarms = standard_.false_alarms,
          .tiles = tiles_,
          .detects = standard_.detects,
          .detects_of_wrong = standard_.detects_of_wrong,
          .stored = got.stored,
          .strict_dtypes = standard_.strict_dtypes,
          .others = [this] { return other_forms(); },
          .both = standard_.both,
          .strict = standard_.strict,
          .large = standard_.large,
          .limits_alone = standard_.limits_alone,
          .is_sample = file_.parts.has_value(),
          .cache = cache_,
          .digest = digest_,
          .unfit = unfit_};
}

ReportRow CaseTrial::common_row(const std::string& command) const {
  ReportRow row;
  row.device.clear(), row.shape = text_of(shape_of(file_)), row.command = command;
  row.title = title_of(file_.problem);
  return row;
}

namespace {

/// Whether `wanted` holds a tensor and the answer has it.
std::function<bool(const std::string&)> present(const GivenAnswer& got,
                                                const std::function<bool(const std::string&)>& wanted) {
  return [&got, &wanted](const std::string& name) {
    return wanted(name) && std::none_of(got.not_judged.begin(), got.not_judged.end(),
                                        [&](const NotJudged& one) { return one.tensor == name; });
  };
}

}  // namespace

const Contract* CaseTrial::other_contract(const GivenAnswer& got, const std::function<bool(const std::string&)>& wanted,
                                          OtherContracts& others, const std::function<bool()>& stop) const {
  const Trial trial = trial_of(got);
  std::vector<const Contract*> known = others.known(trial, kernel_.precision);
  if (kernel_.precision == Format::fp32)  // such a kernel may multiply in tf32: that is said, and no verdict
    for (const Contract* contract : others.known(trial, Format::tf32)) known.push_back(contract);
  for (const Contract* contract : known) {
    if (stop()) return nullptr;
    const std::vector<ReportRow>& rows =
        others.rows(*contract, trial, common_row(""), got.answer, present(got, wanted));
    if (std::none_of(rows.begin(), rows.end(),
                     [](const ReportRow& row) { return row.judgement.verdict == Verdict::fail; }))
      return contract;
  }
  return nullptr;
}

std::vector<std::string> CaseTrial::kept_contracts(const GivenAnswer& got,
                                                   const std::function<bool(const std::string&)>& wanted,
                                                   const std::function<bool()>& stop) const {
  const Trial trial = trial_of(got);
  OtherContracts others;
  std::vector<std::string> names;
  for (const Contract* contract : others.known(trial, kernel_.precision)) {
    if (stop()) break;
    const std::vector<ReportRow>& rows =
        others.rows(*contract, trial, common_row(""), got.answer, present(got, wanted));
    if (std::all_of(rows.begin(), rows.end(), [](const ReportRow& row) { return passes(row.judgement.verdict); }))
      names.push_back(contract->name);
  }
  return names;
}

std::vector<ReportRow> CaseTrial::judge(const GivenAnswer& got, const std::function<bool(const std::string&)>& wanted,
                                        const std::string& command, OtherContracts* others, const Phase& phase) const {
  const ReportRow row = common_row(command);
  Trial trial = trial_of(got);
  trial.phase = phase;
  OtherContracts own;
  std::vector<ReportRow> rows;
  try {
    rows = judge_by_both(trial, row, got.answer, present(got, wanted), decides(), others != nullptr ? *others : own);
  } catch (const InputError& error) {  // what the sharper oracle, or a run of our kernel, has met
    throw InputError(where_ + ": " + error.what());
  }
  call_vacuous(rows, standard_.strict, shape());
  for (ReportRow& judged : rows) judged.command += " --tensor " + judged.tensor;
  return rows;
}

}  // namespace assay
