#include "judge/trial/calibrate.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "files/case_file.hpp"
#include "files/did_you_mean.hpp"
#include "files/names.hpp"
#include "files/problem_file.hpp"
#include "oracles/core/in_order.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

/// A form and the variants of it that are asked for, by precision.
struct Subject {
  const Room* room;
  const KernelForm* form;
  std::map<Format, std::vector<HealthyVariant>> variants;
};

std::vector<Subject> subjects_of(const CalibrateOptions& options) {
  for (const std::string& name : options.mechanisms) room_named(name, "--mechanism");
  std::vector<Subject> list;
  std::vector<std::string> forms, variants;
  const auto add_new = [](std::vector<std::string>& names, std::string_view name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
  };
  for (const KernelRoom* kernels : kernel_rooms()) {
    if (!asks_for(options.mechanisms, kernels->name)) continue;
    for (const KernelForm& form : kernels->forms) {
      if (!form.unstable.empty()) continue;
      add_new(forms, form.name);
      if (!asks_for(options.forms, form.name)) continue;
      Subject subject{&listed_room(kernels->name), &form, {}};
      for (const Format precision : case_precisions) {
        if (!asks_for(options.precisions, precision)) continue;
        for (HealthyVariant& v : healthy_variants(kernels->name, form, precision)) {
          add_new(variants, v.name);
          if (asks_for(options.variants, v.name)) subject.variants[precision].push_back(std::move(v));
        }
      }
      if (!subject.variants.empty()) list.push_back(std::move(subject));
    }
  }
  for (const std::string& name : options.forms)
    require(std::find(forms.begin(), forms.end(), name) != forms.end(), "--form: ", there_is_no(name, forms));
  for (const std::string& name : options.variants)
    require(std::ranges::find(variants, name) != variants.end(), "--variant: ", there_is_no(name, variants));
  require(!list.empty(), "--mechanism: none of these has kernels");
  return list;
}

/// The case of that number, in the setting whose turn it is, which seed and style say alone; a problem without inputs
/// if the form takes none of them.
Problem case_of(const Subject& s, const CalibrateOptions& options, Format precision, Style style, int number,
                CaseSpec& spec) {
  const std::vector<Params> settings = s.room->variants();
  const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(number);
  const auto turn = static_cast<std::size_t>(seed % settings.size()) + static_cast<std::size_t>(style);
  for (std::size_t attempt = 0; attempt < settings.size(); ++attempt) {
    spec = {.mechanism = std::string(s.room->name),
            .shape = {.seq_len = 70, .heads = 2, .shared_heads = 1, .key_dim = 16, .value_dim = 16},
            .precision = precision,
            .style = style,
            .seed = seed,
            .params = settings[(turn + attempt) % settings.size()]};
    // Every query is a system of its own, and every step towards its solution a pass over the keys.
    if (s.form->iterative) spec.shape = {.seq_len = 37, .heads = 2, .shared_heads = 1, .key_dim = 8, .value_dim = 8};
    if (!options.shape.empty()) spec.shape = shape_from(options.shape);
    if (!groups_heads(s.room->inputs())) spec.shape.shared_heads = 0;
    if (s.form->name == "split_decode" && spec.shape.query_len == 0)
      spec.shape.query_len = std::min(3, spec.shape.seq_len);
    Problem problem = s.room->make(spec);
    if (!s.form->obstacle(problem).empty()) continue;
    if (!s.form->has_gradients) problem.cotangents.clear();
    return problem;
  }
  return {};
}

/// One case, of every variant.
struct Task {
  const Subject* subject;
  Format precision;
  Style style;
  int number;  ///< of the seed
};

/// Seed by seed, so that a part has something of every kernel.
std::vector<Task> tasks_of(const std::vector<Subject>& subjects, const CalibrateOptions& options) {
  const std::span<const Style> styles =
      options.styles.empty() ? std::span<const Style>(calibration_styles) : options.styles;
  std::vector<Task> tasks;
  for (int number = 0; number < options.seeds; ++number)
    for (const Subject& s : subjects)
      for (const auto& [precision, variants] : s.variants)
        for (const Style style : styles.first(options.styles.empty() && precision == Format::fp64 ? 1 : styles.size()))
          tasks.push_back({&s, precision, style, number});
  return tasks;
}

struct Gauged {
  bool answered = false;
  std::vector<Gauge> gauges;
};

Gauged gauge_case(const Task& task, const CalibrateOptions& options) {
  const auto& [s, precision, style, number] = task;
  CaseSpec spec;
  const Problem problem = case_of(*s, options, precision, style, number, spec);
  require(!problem.inputs.empty(), "--shape: ", s->room->name, ' ', s->form->name, " takes no such case");
  Gauged result;
  try {
    result.gauges = gauge(*s->room, s->variants.at(precision), problem);
    result.answered = true;
  } catch (const InputError&) {  // no enclosure decides a comparison of equal numbers
  }
  return result;
}

/// The command that measures one variant on one case.
std::string command_of(const Task& task, const std::string& variant, const CalibrateOptions& options) {
  CalibrateOptions one = options;
  one.mechanisms = {std::string(task.subject->room->name)}, one.forms = {std::string(task.subject->form->name)};
  one.variants = {variant}, one.precisions = {task.precision}, one.styles = {task.style};
  one.seeds = 1, one.cases = 0, one.seed = options.seed + static_cast<std::uint64_t>(task.number);
  return one.command();
}

}  // namespace

std::string CalibrateOptions::command() const {
  std::string command = "build/assay-lab calibrate";
  for (const std::string& name : mechanisms) command += " --mechanism " + name;
  for (const std::string& name : forms) command += " --form " + name;
  for (const std::string& name : variants) command += " --variant '" + name + "'";
  for (const Format precision : precisions) command += text(" --precision ", name_of(precision));
  for (const Style style : styles) command += text(" --style ", name_of(style));
  if (!shape.empty()) command += " --shape " + shape;
  command += text(" --seeds ", seeds, " --seed ", seed);
  return cases > 0 ? command + text(" --cases ", cases) : command;
}

Gauge CalibrationRow::whole() const {
  Gauge all;
  for (const Gauge& g : by_precision) all.join(g);
  return all;
}

bool CalibrationRow::passed() const {
  const Gauge all = whole();
  if (!asks_anything(fit)) return true;
  const bool within = all.beyond_limit == 0 && all.rms() <= most_rms;
  if (fit == Fit::wider || all.elements == 0) return within;
  return within && all.rms() >= least_rms && all.median_slack() <= most_slack;
}

Gauge Calibration::whole() const {
  Gauge all;
  for (const CalibrationRow& row : rows)
    if (asks_anything(row.fit)) all.join(row.whole());
  return all;
}

bool Calibration::passed() const {
  return std::all_of(rows.begin(), rows.end(), [](const CalibrationRow& row) { return row.passed(); });
}

Calibration calibrate(const CalibrateOptions& options, const CaseDone& done) {
  const std::vector<Subject> subjects = subjects_of(options);
  std::vector<Task> tasks = tasks_of(subjects, options);
  const auto place_of = [&](const Subject* s) { return static_cast<std::size_t>(s - subjects.data()); };
  std::erase_if(tasks, [&](const Task& task) {
    return place_of(task.subject) % static_cast<std::size_t>(options.parts) !=
           static_cast<std::size_t>(options.part - 1);
  });
  const std::size_t asked = tasks.size();
  if (options.cases > 0) tasks.resize(std::min(tasks.size(), options.cases));

  Calibration calibration{.options = options, .asked = asked, .rows = {}};
  std::map<std::pair<const Subject*, std::string>, std::size_t> row_of;
  for (const Subject& s : subjects)
    for (std::string& name : variant_names(s.room->name, *s.form)) {
      row_of[{&s, name}] = calibration.rows.size();
      calibration.rows.push_back({.room = s.room->name, .form = s.form->name, .variant = std::move(name)});
    }
  const auto take = [&](std::size_t i, const Gauged& result) {
    const Subject* s = tasks[i].subject;
    const Format precision = tasks[i].precision;
    calibration.unanswered += result.answered ? 0 : 1;
    const std::vector<HealthyVariant>& variants = s->variants.at(precision);
    for (std::size_t v = 0; v < variants.size(); ++v) {
      CalibrationRow& row = calibration.rows[row_of.at({s, variants[v].name})];
      ++row.cases, row.fit = variants[v].fit;
      if (!result.answered) continue;
      row.by_precision[static_cast<std::size_t>(precision)].join(result.gauges[v]);
      if (result.gauges[v].beyond_limit == 0 || !asks_anything(row.fit)) continue;
      row.alarms.push_back(command_of(tasks[i], row.variant, options));
    }
  };
  calibration.cases = in_order(
      tasks.size(), {options.threads, options.seconds}, [&](std::size_t i) { return gauge_case(tasks[i], options); },
      take,
      [&](std::size_t i) {
        const Subject& s = *tasks[i].subject;
        done(tasks.size(), text(s.room->name, ' ', s.form->name, ' ', name_of(tasks[i].precision)));
      });
  // The first so many, on whatever machine.
  calibration.options.cases = calibration.cases < asked ? calibration.cases : 0;
  for (const Subject& s : subjects)
    for (const CalibrationRow& row : calibration.rows)
      if (row.cases > 0 && row.room == s.room->name && row.form == s.form->name)
        calibration.places.push_back(place_of(&s));
  std::erase_if(calibration.rows, [](const CalibrationRow& row) { return row.cases == 0; });
  return calibration;
}

}  // namespace assay
