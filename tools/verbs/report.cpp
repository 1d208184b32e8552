// assay report: every mechanism x form x precision on seeded inputs against the oracle.
#include "tools/verbs/report.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>
#include <sstream>
#include <tuple>

#include "arguments/file_case.hpp"
#include "files/did_you_mean.hpp"
#include "judge/court/argument_form.hpp"
#include "judge/court/seeded_case.hpp"
#include "judge/court/why.hpp"
#include "judge/programs/program_form.hpp"
#include "judge/sigma/expected.hpp"
#include "kernels/core/kernel_room.hpp"
#include "oracles/core/in_order.hpp"
#include "oracles/core/room.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/plots/error_plots.hpp"
#include "tools/print/colours.hpp"
#include "tools/print/escape.hpp"
#include "tools/print/rows_page.hpp"
#include "tools/verbs/command.hpp"
#include "tools/verbs/merge.hpp"
#include "tools/verbs/plot_file.hpp"

namespace assay {
namespace report_verb {
namespace {

/// Several chunks and a ragged one, two heads that share their keys, in rooms where heads do; and for forms that take
/// few queries, several splits of the keys. With one shared head nothing tells which of several a head reads: the laws
/// and mutants do.
constexpr Shape default_shape{.seq_len = 100, .heads = 2, .shared_heads = 1};
constexpr Shape decode_shape{.seq_len = 600, .heads = 2, .shared_heads = 1, .query_len = 4};
/// A solve costs as many passes over the keys as it takes steps, and those grow with the dimensions.
constexpr int iterative_dims = 8;

/// One kernel at one precision: what a thread works on.
struct Task {
  std::shared_ptr<const Room> room;
  const KernelForm *form, *measure;  ///< what runs, and what says how far it may be off
  Format precision;
  const Device* device = nullptr;                          ///< null: the CPU executor
  std::shared_ptr<const KernelForm> of_program = nullptr;  ///< the form, where it is a program's
};

/// The case that a kernel is given.
struct Posed {
  CaseSpec spec;
  Problem problem;
  std::shared_ptr<const Room> room;      ///< who answers it
  std::optional<ProblemFile> file = {};  ///< of a case with arguments
};

/// The shape asked for; heads that share nothing are not grouped.
Shape shape_of(const ReportOptions& options, const Room& room) {
  Shape shape = options.shape.empty() ? default_shape : shape_from(options.shape);
  if (!groups_heads(room.inputs())) shape.shared_heads = 0;
  return shape;
}

/// The case that a mechanism's kernels are given, as `assay case` would draw it.
SeededCase seeded_case(const ReportOptions& options, const Room& room) {
  CaseSpec spec = options.inputs;
  spec.mechanism = room.name, spec.shape = shape_of(options, room);
  return {find_room(room.name), std::move(spec)};
}

/// The kernels of a mechanism that take what is asked for; null if it has none. Throws InputError where a named
/// mechanism does not take an argument; for others `refusal` says why, unless it has a reason already.
const KernelRoom* kernels_for(const ReportOptions& options, const Room& room, std::string& refusal) {
  const KernelRoom* plain = find_kernels(kernel_rooms(), room.name);
  const SeededCase seeded = seeded_case(options, room);
  if (plain == nullptr || !seeded.has_arguments()) {
    if (plain != nullptr) refuse_params(room, options.inputs.params, seeded.spec.shape);
    return plain;
  }
  try {
    seeded.make();
  } catch (const InputError& error) {
    if (!options.mechanisms.empty()) throw;
    if (refusal.empty()) refusal = error.what();
    return nullptr;
  }
  const KernelRoom* kernels = find_argument_forms(std::string(room.name) + std::string(arguments::room_suffix));
  require(kernels != nullptr || options.mechanisms.empty(), "no kernel of ours takes ", room.name,
          " with arguments; `assay check` judges cases of it by the model");
  return kernels;
}

/// In eight bits what a solve makes of the operands' roundings is as large as the gradients that are single numbers,
/// and whatever data cannot show is VACUOUS: it is judged where it is asked for.
bool drowns(const KernelForm& form, Format precision, const ReportOptions& options) {
  return form.iterative && options.precisions.empty() && info(precision).bits == 8;
}

/// The index of the tile asked for, or of the form's own; nothing if it has none such.
std::optional<int> tile_of(const KernelForm& form, std::string_view asked) {
  if (asked.empty()) return 0;
  const auto tile = std::find(form.tiles.begin(), form.tiles.end(), asked);
  return tile == form.tiles.end() ? std::nullopt : std::optional(static_cast<int>(tile - form.tiles.begin()));
}

/// Adds the task of a user's program: the algorithm that --form names, or the recurrence itself, token by token.
void add_program(const std::string& name, const ReportOptions& options, std::vector<Task>& tasks) {
  const auto room = room_named(name, "--mechanism");
  require(options.form.empty() || is_program_form(options.form), "--form: ", name,
          " is a program, and has no kernel of ours: FORM.json is its algorithm; without, it is run token by token");
  require(options.device != RunsOn::gpu, "--device gpu: ", name, " is a program, and has no kernel of ours");
  refuse_params(*room, options.inputs.params, shape_of(options, *room));
  const auto form = program_form(options.form.empty() ? name : options.form, name);
  if (options.contract)
    require(options.contract->obstacle(form->sites).empty(), options.contract->obstacle(form->sites));
  for (const Format precision : case_precisions)
    if (options.contract ? precision == options.contract->precision : asks_for(options.precisions, precision))
      tasks.push_back({room, form.get(), form.get(), precision, nullptr, form});
}

/// The names in a list that commas or spaces divide.
std::vector<std::string> names_of(std::string list) {
  std::replace(list.begin(), list.end(), ',', ' ');
  std::istringstream words(list);
  return {std::istream_iterator<std::string>(words), {}};
}

/// Throws InputError if no kernel is known, or none of a form that is asked for.
void require_forms(const ReportOptions& options, const std::vector<std::string>& known) {
  require(!known.empty(), "--mechanism: no kernel of this build computes ", names_in(options.mechanisms));
  for (const std::string& name : names_of(options.form))
    require(std::find(known.begin(), known.end(), name) != known.end(), "--form: ", there_is_no(name, known));
}

std::vector<Task> tasks_of(const ReportOptions& options, const Device* device) {
  std::vector<Task> of_programs;
  for (const std::string& name : options.mechanisms)
    if (room_named(name, "--mechanism")->is_program()) add_program(name, options, of_programs);
  if (!of_programs.empty()) return of_programs;
  const auto precise = [&](Format precision) {
    return options.contract ? precision == options.contract->precision : asks_for(options.precisions, precision);
  };
  require(options.device != RunsOn::gpu || device != nullptr, "--device gpu: ", why_no_gpu());
  const Contract* contract = options.contract ? &*options.contract : nullptr;
  require(contract == nullptr || options.precisions.empty(),
          "--contract: it says which precision, leave out --precision");
  require(options.device != RunsOn::gpu || contract == nullptr || contract->plain(),
          "--device gpu: its kernels keep the contracts of precisions, not ",
          contract == nullptr ? "" : contract->name);
  if (contract != nullptr && !contract->plain()) device = nullptr;
  std::vector<Task> tasks;
  std::vector<std::string> known;
  const std::vector<std::string> forms = names_of(options.form);
  std::string mismatch, refusal;
  bool tiled = options.tile.empty();
  for (const Room* room : rooms()) {
    if (!asks_for(options.mechanisms, room->name)) continue;
    const KernelRoom* kernels = kernels_for(options, *room, refusal);
    if (kernels == nullptr) continue;
    const bool on_device = device != nullptr && !kernels->name.ends_with(arguments::room_suffix);
    require(options.device != RunsOn::gpu || on_device, "--device gpu: ", room->name,
            " with arguments is run on the CPU executor");
    bool matched = contract == nullptr;
    std::string why;
    for (const KernelForm& form : kernels->forms) {
      if (std::find(known.begin(), known.end(), form.name) == known.end()) known.emplace_back(form.name);
      if (forms.empty() ? !form.unstable.empty() : !asks_for(forms, form.name)) continue;
      const KernelForm& measure = measure_of(*kernels, form);
      if (!tile_of(form, options.tile) || !tile_of(measure, options.tile)) continue;
      tiled = true;
      if (contract != nullptr) {
        bool fits = true;
        for (const KernelForm* judged : {&form, &measure}) {
          const std::string obstacle = contract->obstacle(judged->sites);
          if (why.empty() && !obstacle.empty()) why = text(room->name, " ", judged->name, ": ", obstacle);
          fits = fits && obstacle.empty();
        }
        if (!fits) continue;
        matched = true;
      }
      if (options.device != RunsOn::gpu)
        for (const Format precision : case_precisions)
          if (precise(precision) && !drowns(form, precision, options))
            tasks.push_back({find_room(room->name), &form, &measure, precision});
      if (options.device != RunsOn::cpu && on_device)
        for (const Format precision : device->precisions)
          if (precise(precision)) tasks.push_back({find_room(room->name), &form, &measure, precision, device});
    }
    // A report without named mechanisms is about those that the contract is about.
    if (matched || why.empty()) continue;
    if (!options.mechanisms.empty()) throw InputError(why);
    if (mismatch.empty()) mismatch = why;
  }
  require(!known.empty() || refusal.empty(), refusal);
  require_forms(options, known);
  require(tiled, "--tile: none of these kernels has tiles of ", options.tile);
  if (tasks.empty() && !mismatch.empty()) throw InputError(mismatch);
  if (tasks.empty())
    throw InputError(text("--precision: ", device->name, " has kernels in ",
                          names_in(device->precisions, [](Format f) { return name_of(f); })));
  return tasks;
}

Posed posed_at(const Task& task, const ReportOptions& options, const Shape& shape) {
  SeededCase seeded = seeded_case(options, *task.room);
  seeded.spec.precision = task.precision, seeded.spec.shape = shape;
  if (!seeded.has_arguments()) return {seeded.spec, task.room->make(seeded.spec), task.room};
  Posed posed{seeded.spec, {}, nullptr, read_problem(seeded.make(), "report")};
  require(!posed.file->refusal, posed.file->refusal ? posed.file->refusal->message : "");
  posed.problem = posed.file->problem, posed.room = posed.file->room;
  return posed;
}

/// The shape that this form is judged on: the one asked for, with its last four queries where the form takes no more.
Posed posed_for(const Task& task, const ReportOptions& options) {
  Shape shape = shape_of(options, *task.room);
  if (options.shape.empty() && task.form->iterative) shape.key_dim = shape.value_dim = iterative_dims;
  Posed posed = posed_at(task, options, shape);
  if (shape.query_len > 0 || task.form->obstacle(posed.problem).empty()) return posed;
  Shape few = options.shape.empty() ? decode_shape : shape;
  few.query_len = std::min(few.seq_len, decode_shape.query_len);
  try {
    Posed decoding = posed_at(task, options, few);
    if (task.form->obstacle(decoding.problem).empty()) return decoding;
  } catch (const InputError&) {  // a room with one query per key: the obstacle stands
  }
  return posed;
}

std::string command_of(const Task& task, const ReportOptions& options, const Shape& shape, double share) {
  ReportOptions one = options;
  one.mechanisms = {std::string(task.room->name)};
  one.form = task.form->name;
  if (!one.contract) one.precisions = {task.precision};
  one.shape = text_of(shape);
  one.false_alarms = share;
  if (task.device != nullptr) one.device = RunsOn::gpu;
  return one.command();
}

/// `share` of the false alarms is this task's.
std::vector<ReportRow> rows_of(const Task& task, const ReportOptions& options, int threads, double share) {
  Posed posed;
  posed.spec.shape = shape_of(options, *task.room);  // of a row that says why there is no problem
  ReportRow row;
  row.device = task.device == nullptr ? std::string(cpu_executor) : task.device->name;
  row.mechanism = task.room->name, row.form = task.form->name, row.tile = task.form->tiles.front();
  row.precision = name_of(task.precision);
  const Contract* contract = options.contract ? &*options.contract : nullptr;
  if (contract != nullptr) row.contract = contract->name;
  const auto without = [&](Verdict verdict, const std::string& reason) {
    row.judgement.verdict = verdict, row.judgement.reason = reason;
    row.shape = text_of(posed.spec.shape), row.command = command_of(task, options, posed.spec.shape, share);
    return std::vector{row};
  };
  try {
    posed = posed_for(task, options);
    Problem& problem = posed.problem;
    row.title = title_of(problem);
    if (const std::string obstacle = task.form->obstacle(problem); !obstacle.empty())
      return without(Verdict::unsupported, obstacle);
    if (task.device != nullptr) {
      const std::string obstacle = task.device->obstacle(task.room->name, *task.form, problem, task.precision);
      if (!obstacle.empty() && options.device == RunsOn::every) return {};
      if (!obstacle.empty()) return without(Verdict::unsupported, obstacle);
    }
    if (!task.form->has_gradients) problem.cotangents.clear();
    const Oracle oracle = oracle_of(*posed.room, problem);
    row.shape = text_of(posed.spec.shape), row.command = command_of(task, options, posed.spec.shape, share);
    KernelUnderTest kernel{task.measure, task.precision, *tile_of(*task.measure, options.tile), threads, contract};
    if (task.device != nullptr) kernel.tile = task.device->tile(task.room->name, *task.form, problem, task.precision);
    std::optional<Answer> got;
    if (task.device != nullptr)
      got = task.device->run(task.room->name, *task.form, problem, task.precision);
    else if (task.measure != task.form)
      got = task.form->run(problem, KernelUnderTest{task.form, task.precision, 0, threads, contract}.policy(),
                           *tile_of(*task.form, options.tile));
    const Trial trial{.room = *posed.room,
                      .kernel = kernel,
                      .problem = problem,
                      .oracle = oracle,
                      .batch = posed.spec.shape.batch,
                      .file = posed.file ? &*posed.file : nullptr,
                      .false_alarms = share,
                      .detects = options.detects};
    std::vector<ReportRow> rows = judge_rows(trial, row, got);
    call_vacuous(rows, false, posed.spec.shape);
    for (ReportRow& judged : rows) judged.mechanism = task.room->name;  // with arguments its title has these
    if (options.why) add_contributions(rows, kernel, problem);
    return rows;
  } catch (const InputError& error) {
    return without(Verdict::unsupported, error.what());
  } catch (const std::exception& error) {
    return without(Verdict::error, error.what());
  }
}

/// `in_short`: where people see only what is not PASS.
std::vector<std::string> header_of(const Report& report, bool in_short) {
  std::vector<std::string> devices;
  for (const ReportRow& row : report.rows)
    if (std::find(devices.begin(), devices.end(), row.device) == devices.end()) devices.push_back(row.device);
  const std::string places = names_in(devices, [&versions = report.device_versions](const std::string& device) {
    return device == cpu_executor ? "the CPU executor" : device + " (" + versions + ")";
  });
  std::vector<std::string> header = {fmt::format("assay report: kernels, run on {}, against the oracle", places),
                                     fmt::format("inputs    style {}, seed {}, rounded once to the precision",
                                                 report.options.inputs.style_name(), report.options.inputs.seed)};
  const std::vector<std::string> lines =
      legend(report.options.contract ? &*report.options.contract : nullptr, report.options.false_alarms, in_short);
  header.insert(header.end(), lines.begin(), lines.end());
  if (in_short) {
    header.emplace_back("verdicts  the worst of a kernel's tensors, and how many do not pass");
    header.emplace_back("rows      of what does not pass; --rows prints all, with their errors");
  }
  return header;
}

// ---- the verb ----

struct Flags {
  ReportOptions options;
  CaseFlags inputs;
  std::vector<std::string> forms, precisions, with;
  std::string contract, device{name_of(RunsOn::every)}, format{name_of(RowsFormat::table)}, output = "-", plot, shard;
  std::string judge = "auto";
  bool rows = false;
};

int run_report(const Flags& flags, Console& console) {
  judge_on(flags.judge);
  ReportOptions options = flags.options;
  options.form = fmt::format("{}", fmt::join(flags.forms, ","));
  for (const std::string& name : flags.precisions) options.precisions.push_back(*format_from(name));
  if (!flags.contract.empty()) options.contract = contract_from(flags.contract);
  options.device = *entry_named(all_runs_on, flags.device);
  arguments::set_style(options.inputs, flags.inputs.style);
  for (const std::string& word : flags.with) options.inputs.with.push_back(with_from(word));
  options.inputs.seed = flags.inputs.seed, options.inputs.params = params_of(flags.inputs);
  options.detects = true;
  if (!flags.shard.empty()) {
    require(flags.format == "json", "--shard: needs --format json, of which assay merge makes the whole");
    std::tie(options.part, options.parts) = shard_from(flags.shard);
  }
  if (!options.shape.empty()) shape_from(options.shape);  // refused before any work
  OutputFile file(flags.output, console.out, {flags.contract});
  PlotFile plot(flags.plot, console);
  const Report report = [&] {
    Progress progress(console);
    progress.phase("kernels");
    return make_report(options, progress.steps());
  }();
  // A report with --why shows the errors that are explained, too.
  file.commit(
      print(report, *rows_format_from(flags.format), flags.rows || options.why, shows_colours(console, flags.output)));
  plot.commit(plots_of(report.rows));
  if (options.parts > 1 && report.rows.empty()) return exit_passed;  // there are more shares than work
  return report.passed() ? exit_passed : exit_failed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  ReportOptions& options = flags->options;
  app.add_option("--mechanism", options.mechanisms, "only this mechanism, or several")->delimiter(',');
  app.add_option("--form", flags->forms, "only kernels of this form (tiled, chunkwise, split_decode, ...), or several")
      ->delimiter(',');
  app.add_option("--tile", options.tile,
                 "the tile shape on the CPU executor, in place of every form's own (64x64, 16, ...)");
  app.add_option("--precision", flags->precisions, "only this precision, or several")
      ->delimiter(',')
      ->check(one_of(name_list(case_precisions)));
  add_contract_flag(app, flags->contract, "kernels run under it and are judged by it");
  add_choice_flag(app, "--device", flags->device,
                  "where kernels run; auto is the CPU executor and, if there is one, the GPU", name_list(all_runs_on));
  app.add_option("--shape", options.shape, "B,T,H,K,V; 1,4/128,8/2,64,64 has 4 queries and 2 key/value heads");
  add_argument_flags(app, flags->inputs, flags->with, options.inputs.layout);
  app.add_flag("--rows", flags->rows,
               "print a row for every tensor in the table, not only for those that are not PASS");
  app.add_flag("--why", options.why, "name the roundings that make the errors of every row");
  add_false_alarms_flag(app, options.false_alarms);
  add_judge_flag(app, flags->judge);
  add_threads_flag(app, options.threads);
  add_choice_flag(app, "--format", flags->format, std::string(rows_formats_help), name_list(all_rows_formats));
  app.add_option("-o,--output", flags->output, "where the report goes; - is standard output")->capture_default_str();
  add_plot_flag(app, flags->plot);
  add_shard_flag(app, flags->shard);
  return [flags](Console& console) { return run_report(*flags, console); };
}

}  // namespace
}  // namespace report_verb

std::string_view name_of(RunsOn where) {
  constexpr std::string_view names[] = {"auto", "cpu", "gpu"};
  return names[static_cast<int>(where)];
}

std::string ReportOptions::command() const {
  std::string command = "build/assay report";
  for (const std::string& mechanism : mechanisms) command += " --mechanism " + mechanism;
  if (!form.empty()) command += " --form " + form;
  if (!tile.empty()) command += " --tile " + tile;
  for (const Format precision : precisions) command += text(" --precision ", name_of(precision));
  if (contract) command += " --contract " + shown_word(contract->argument());
  if (device != RunsOn::every) command += text(" --device ", name_of(device));
  if (!shape.empty()) command += " --shape " + shape;
  if (false_alarms != false_alarm_rate) command += " --false-alarms " + round_trip(false_alarms);
  return command + text(" --style ", inputs.style_name(), " --seed ", inputs.seed, flags_of(inputs.params),
                        arguments::argument_flags(inputs), why ? " --why" : "");
}

bool Report::passed() const { return all_pass(rows); }

Report make_report(const ReportOptions& options, const std::function<void(std::size_t, std::string_view)>& done,
                   const Device* device) {
  const std::vector<report_verb::Task> tasks = report_verb::tasks_of(options, device);
  // The slow ones first: fp64 is emulated in wider numbers, and precisions are listed from there.
  std::vector<std::size_t> order(tasks.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::erase_if(order, [&](std::size_t i) {
    return i % static_cast<std::size_t>(options.parts) != static_cast<std::size_t>(options.part - 1);
  });
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tasks[a].precision < tasks[b].precision; });

  const int cores = words::threads_or_all(options.threads);
  const int each = std::max(1, cores / std::clamp(static_cast<int>(order.size()), 1, cores));
  const double share = options.false_alarms / static_cast<double>(tasks.size());
  std::vector<std::vector<ReportRow>> results(tasks.size());
  in_order(
      order.size(), {.threads = cores},
      [&](std::size_t i) { return report_verb::rows_of(tasks[order[i]], options, each, share); },
      [&](std::size_t i, std::vector<ReportRow>&& rows) { results[order[i]] = std::move(rows); },
      [&](std::size_t i) {
        const report_verb::Task& task = tasks[order[i]];
        done(order.size(), text(task.room->name, " ", task.form->name, " ", name_of(task.precision),
                                task.device == nullptr ? "" : " on " + task.device->name));
      });
  Report report{options, device == nullptr ? "" : device->versions, {}};
  for (std::size_t i = 0; i < results.size(); ++i)
    if (options.parts > 1) report.places.insert(report.places.end(), results[i].size(), i);
  for (std::vector<ReportRow>& rows : results)
    report.rows.insert(report.rows.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
  return report;
}

std::string print(const Report& report, RowsFormat format, bool rows, bool colours) {
  const bool brief = format == RowsFormat::table && !rows;
  Page page{.verb = "report",
            .header = report_verb::header_of(report, brief),
            .facts = {{"style", report.options.inputs.style_name()},
                      {"seed", report.options.inputs.seed},
                      {"false_alarm_rate", report.options.false_alarms}},
            .matrix = true,
            .brief = brief,
            .colours = colours,
            .command = report.options.command()};
  if (format == RowsFormat::table && rows && !report.options.why) page.command += " --rows";
  if (report.options.contract) page.facts.emplace_back("contract", report.options.contract->name);
  if (report.options.parts > 1)
    page.facts.emplace_back("shard", shard_facts(report.options.part, report.options.parts, report.places));
  return print(page, report.rows, format);
}

const Command commands::report = {"report", "judge every mechanism x form x precision on seeded inputs",
                                  report_verb::add};

}  // namespace assay
