#include "tools/case_trial.hpp"

#include <algorithm>
#include <cmath>
#include <thread>

#include "reference/core/error.hpp"
#include "tools/case_flags.hpp"
#include "tools/escape.hpp"

namespace assay {
namespace {

/// The room's kernels. Throws InputError if it has none.
const KernelRoom& kernels_of(const ProblemFile& file, const std::string& where) {
  const std::string& mechanism = file.problem.mechanism;
  const KernelRoom* kernels = find_kernels(kernel_rooms(), mechanism);
  require(kernels != nullptr || file.room == nullptr, where, ": ", mechanism,
          " has no kernel and so no contract to judge by; `assay oracle` answers the case with proven bounds");
  require(kernels != nullptr, where, ": ", unknown_mechanism(mechanism).what());
  return *kernels;
}

/// The form asked for, or the first one that takes the problem and has the contract's sites.
const KernelForm& form_for(const KernelRoom& kernels, const Problem& problem, const std::string& asked,
                           const Contract& contract, const std::string& where) {
  std::string obstacles;
  for (const KernelForm& form : kernels.forms) {
    if (asked.empty() ? !form.unstable.empty() : form.name != asked) continue;
    std::string obstacle = form.obstacle(problem);
    if (obstacle.empty()) obstacle = contract.obstacle(measure_of(kernels, form).sites);
    if (obstacle.empty()) return form;
    obstacles += text(obstacles.empty() ? "" : "; ", form.name, ": ", obstacle);
  }
  require(!obstacles.empty(), "--form: ", kernels.name, " has no ", asked, "; it has ",
          names_in(kernels.forms, [](const KernelForm& form) { return form.name; }));
  throw InputError(where + ": " + obstacles);
}

/// The tile shape asked for, or all that are compiled in.
std::vector<int> tiles_of(const KernelForm& form, const std::string& asked) {
  std::vector<int> tiles;
  for (std::size_t t = 0; t < form.tiles.size(); ++t)
    if (asked.empty() || form.tiles[t] == asked) tiles.push_back(static_cast<int>(t));
  require(!tiles.empty(), "--tile: ", form.name, " has no ", asked, "; it has ",
          names_in(form.tiles, [](std::string_view tile) { return tile; }));
  return tiles;
}

/// The contract asked for, or that of the precision asked for, or of the one that `assay case` has written down.
Contract contract_for(const Standard& standard, const ProblemFile& file, const std::string& where) {
  if (!standard.contract.empty()) return contract_from(standard.contract);
  const auto named = file.metadata.find("precision");
  if (standard.precision.empty() && named != file.metadata.end())
    for (const Format format : case_precisions)
      if (named->second == name_of(format)) return Contract::of(format);
  require(!standard.precision.empty(), where, ": names no precision; --precision or --contract says what counts");
  const std::optional<Format> precision = format_from(standard.precision);
  require(precision && *precision != Format::exact, "--precision: there is no ", standard.precision);
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

/// "B,T,H,K,V" as its tensors have them.
Shape shape_of(const ProblemFile& file) {
  Extents extents;
  for (const RoomFacts::Ranked& ranked : file.room->inputs()) {
    const auto given = file.problem.inputs.find(ranked.field.name);
    if (given == file.problem.inputs.end()) continue;
    for (std::size_t r = 1; r < given->second.shape.size(); ++r)
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
  if (shape.query_len == shape.seq_len) shape.query_len = 0;
  if (shape.shared_heads == shape.heads) shape.shared_heads = 0;
  return shape;
}

}  // namespace

CaseTrial::CaseTrial(Safetensors stored, Standard standard, std::string where)
    : standard_(std::move(standard)),
      where_(std::move(where)),
      file_(read_problem(std::move(stored), where_)),
      kernels_(&kernels_of(file_, where_)),
      contract_(contract_for(standard_, file_, where_)) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  kernel_.precision = contract_.precision, kernel_.contract = &contract_;
  kernel_.threads = standard_.threads > 0 ? standard_.threads : cores;
}

void CaseTrial::prepare(const PartDone& done) {
  BasicAnswer<Enclosed> answer;
  const CaseResult result = answer_problem(file_, Tier::w2, kernel_.threads, done, answer);
  require(result.status == Status::ok, where_, ": ", name_of(result.status), ": ", result.message);
  oracle_ = oracle_of(file_.problem, std::move(answer));
  choose_form();
  if (kernel_.form->has_gradients) return;
  file_.problem.cotangents.clear();
  std::erase_if(oracle_.tensors, [](const auto& tensor) { return tensor.first.starts_with("d_"); });
}

void CaseTrial::choose_form() {
  kernel_.form = &measure_of(*kernels_, form_for(*kernels_, file_.problem, standard_.form, contract_, where_));
  tiles_ = tiles_of(*kernel_.form, standard_.tile);
  kernel_.tile = tiles_.front();
}

bool CaseTrial::is_admitted(const std::vector<std::string>& tensors) {
  // Of a problem that the reference would refuse, forms need not know what to do.
  if (file_.refusal || !is_whole(file_)) return false;
  choose_form();
  const bool gradients = kernel_.form->has_gradients && !file_.problem.cotangents.empty();
  const auto is_answered = [&](const std::string& tensor) {
    const bool gradient = tensor.starts_with("d_");
    const auto fields = gradient ? file_.room->inputs() : file_.room->outputs();
    return (gradients || !gradient) && std::any_of(fields.begin(), fields.end(), [&](const RoomFacts::Ranked& ranked) {
             return ranked.field.name == std::string_view(tensor).substr(gradient ? 2 : 0);
           });
  };
  return std::all_of(tensors.begin(), tensors.end(), is_answered);
}

std::string CaseTrial::flags() const {
  return text("--form ", kernel_.form->name,
              standard_.contract.empty() ? text(" --precision ", name_of(kernel_.precision))
                                         : " --contract " + shown_word(contract_.argument()),
              standard_.tile.empty() ? "" : " --tile " + standard_.tile);
}

KernelUnderTest CaseTrial::kernel_at(const std::string& tile) const {
  KernelUnderTest kernel = kernel_;
  if (!tile.empty()) kernel.tile = tiles_of(*kernel_.form, tile).front();
  return kernel;
}

void CaseTrial::require_tensors(const std::vector<std::string>& names) const {
  for (const std::string& name : names)
    require(std::any_of(oracle_.tensors.begin(), oracle_.tensors.end(), [&](const auto& t) { return t.first == name; }),
            "--tensor: there is no ", name, "; there are ",
            names_in(oracle_.tensors, [](const auto& tensor) { return tensor.first; }));
}

Answer CaseTrial::read(Safetensors answer, const std::function<bool(const std::string&)>& wanted,
                       const std::string& source) const {
  return read_outputs(std::move(answer), file_, oracle_, wanted, source);
}

std::vector<ReportRow> CaseTrial::judge(const Answer& got, const std::function<bool(const std::string&)>& wanted,
                                        const std::string& command) const {
  ReportRow row;
  row.device.clear(), row.shape = text_of(shape_of(file_)), row.command = command;
  const Trial trial{*file_.room, kernel_,          file_.problem, oracle_, file_.batch, true, standard_.false_alarms,
                    tiles_,      standard_.detects};
  std::vector<ReportRow> rows;
  try {
    rows = judge_rows(trial, row, got, wanted);
  } catch (const InputError& error) {  // what the sharper oracle, or a run of our kernel, has met
    throw InputError(where_ + ": " + error.what());
  }
  for (ReportRow& judged : rows) judged.command += " --tensor " + judged.tensor;
  return rows;
}

}  // namespace assay
