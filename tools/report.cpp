// assay report: every mechanism x form x precision on seeded inputs against the oracle.
#include "tools/report.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <thread>

#include "kernels/core/kernel_room.hpp"
#include "oracles/core/expected.hpp"
#include "oracles/core/flint_caches.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/error.hpp"
#include "tools/case_flags.hpp"
#include "tools/command.hpp"

namespace assay {
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
  const Room* room;
  const KernelForm *form, *measure;  ///< what runs, and what says how far it may be off
  Format precision;
  const Device* device = nullptr;  ///< null: the CPU executor
};

Shape shape_of(const ReportOptions& options, const Room& room) {
  if (!options.shape.empty()) return shape_from(options.shape);
  Shape shape = default_shape;
  if (!groups_heads(room.inputs())) shape.shared_heads = 0;
  return shape;
}

/// In eight bits what a solve makes of the operands' roundings is as large as the gradients that are single numbers,
/// and whatever data cannot show is VACUOUS: it is judged where it is asked for.
bool drowns(const KernelForm& form, Format precision, const ReportOptions& options) {
  return form.iterative && options.precisions.empty() && info(precision).bits == 8;
}

std::vector<Task> tasks_of(const ReportOptions& options, const Device* device) {
  for (const std::string& name : options.mechanisms) room_named(name, "--mechanism");
  const auto wanted = [](const auto& list, const auto& entry) {
    return list.empty() || std::find(list.begin(), list.end(), entry) != list.end();
  };
  require(options.device != RunsOn::gpu || device != nullptr, "--device gpu: ", why_no_gpu());
  std::vector<Task> tasks;
  std::string known;
  bool found = false;
  for (const Room* room : rooms()) {
    if (!wanted(options.mechanisms, room->name)) continue;
    const KernelRoom* kernels = find_kernels(kernel_rooms(), room->name);
    if (kernels == nullptr) continue;
    refuse_params(*room, options.params, shape_of(options, *room));
    for (const KernelForm& form : kernels->forms) {
      known += text(known.empty() ? "" : ", ", room->name, ":", form.name);
      if (options.form.empty() ? !form.unstable.empty() : form.name != options.form) continue;
      const KernelForm& measure = measure_of(*kernels, form);
      found = true;
      if (options.device != RunsOn::gpu)
        for (const Format precision : case_precisions)
          if (wanted(options.precisions, precision) && !drowns(form, precision, options))
            tasks.push_back({room, &form, &measure, precision});
      if (options.device != RunsOn::cpu && device != nullptr)
        for (const Format precision : device->precisions)
          if (wanted(options.precisions, precision)) tasks.push_back({room, &form, &measure, precision, device});
    }
  }
  require(found, "--form: there is no ", options.form, "; there are ", known);
  if (tasks.empty())
    throw InputError(text("--precision: ", device->name, " has kernels in ",
                          names_in(device->precisions, [](Format f) { return name_of(f); })));
  return tasks;
}

/// The shape that this form is judged on: the one asked for, with its last four queries where the form takes no more.
Problem problem_of(const Task& task, const ReportOptions& options, CaseSpec& spec) {
  spec.mechanism = task.room->name;
  spec.precision = task.precision, spec.style = options.style, spec.seed = options.seed;
  spec.params = options.params;
  spec.shape = shape_of(options, *task.room);
  if (options.shape.empty() && task.form->iterative) spec.shape.key_dim = spec.shape.value_dim = iterative_dims;
  Problem problem = task.room->make(spec);
  if (spec.shape.query_len > 0 || task.form->obstacle(problem).empty()) return problem;
  CaseSpec few = spec;
  if (options.shape.empty()) few.shape = decode_shape;
  few.shape.query_len = std::min(few.shape.seq_len, decode_shape.query_len);
  try {
    Problem decoding = task.room->make(few);
    if (task.form->obstacle(decoding).empty()) {
      spec = few;
      return decoding;
    }
  } catch (const InputError&) {  // a room with one query per key: the obstacle stands
  }
  return problem;
}

std::string command_of(const Task& task, const ReportOptions& options, const Shape& shape) {
  ReportOptions one = options;
  one.mechanisms = {std::string(task.room->name)};
  one.form = task.form->name;
  one.precisions = {task.precision};
  one.shape = text_of(shape);
  if (task.device != nullptr) one.device = RunsOn::gpu;
  return one.command();
}

/// One row for each tensor of the oracle; `row` says what they have in common. `got` is the kernel's own answer, if
/// its emulation is not what is judged.
std::vector<ReportRow> judged(ReportRow row, const Oracle& oracle, const KernelUnderTest& kernel,
                              const Problem& problem, int draws, const std::optional<Answer>& got) {
  const Expectation expectation = expect(oracle, kernel, problem, draws);
  const Named<std::vector<double>> answer = got ? in_report_order(*got, expectation) : expectation.emulated;
  std::vector<ReportRow> rows;
  row.draws = draws;
  for (const auto& [name, truth] : oracle.tensors) {
    if (truth.value.empty()) continue;
    row.tensor = name, row.extents = truth.shape;
    row.judgement = {};
    row.judgement.verdict = Verdict::unsupported, row.judgement.reason = "the kernel does not answer it";
    for (std::size_t t = 0; t < expectation.tensors.size(); ++t) {
      const auto& [answered, expected] = expectation.tensors[t];
      if (answered != name) continue;
      row.ulp_format = name_of(expected.ulp_format);
      row.judgement = judge(expected, answer[t].second);
    }
    rows.push_back(row);
  }
  return rows;
}

/// Twelve draws know a number that stands alone only roughly, and its limit is wide: where that makes the verdict
/// VACUOUS, it gets four times as many. Numbers that cancel far below their tensor's largest can have a sigma below an
/// everyday bound: where that makes it UNDECIDED, the oracle answers in four words.
std::vector<ReportRow> rows_of(const Task& task, const ReportOptions& options, int threads) {
  CaseSpec spec;
  ReportRow row;
  row.device = task.device == nullptr ? std::string(cpu_executor) : task.device->name;
  row.mechanism = task.room->name, row.form = task.form->name, row.tile = task.form->tiles.front();
  row.precision = name_of(task.precision);
  if (task.measure != task.form) row.judged_by = task.measure->name;
  const auto without = [&](Verdict verdict, const std::string& reason) {
    row.judgement.verdict = verdict, row.judgement.reason = reason;
    row.shape = text_of(spec.shape), row.command = command_of(task, options, spec.shape);
    return std::vector{row};
  };
  try {
    Problem problem = problem_of(task, options, spec);
    if (const std::string obstacle = task.form->obstacle(problem); !obstacle.empty())
      return without(Verdict::unsupported, obstacle);
    if (task.device != nullptr) {
      const std::string obstacle = task.device->obstacle(task.room->name, *task.form, problem, task.precision);
      if (!obstacle.empty() && options.device == RunsOn::every) return {};
      if (!obstacle.empty()) return without(Verdict::unsupported, obstacle);
    }
    if (!task.form->has_gradients) problem.cotangents.clear();
    Oracle oracle = oracle_of(*task.room, problem);
    row.shape = text_of(spec.shape), row.command = command_of(task, options, spec.shape);
    KernelUnderTest kernel{task.measure, task.precision, 0, threads};
    if (task.device != nullptr) kernel.tile = task.device->tile(task.room->name, *task.form, problem, task.precision);
    row.tile = task.form->tiles[static_cast<std::size_t>(kernel.tile)];
    std::optional<Answer> got;
    if (task.device != nullptr)
      got = task.device->run(task.room->name, *task.form, problem, task.precision);
    else if (task.measure != task.form)
      got = task.form->run(problem, KernelUnderTest{task.form, task.precision, 0, threads}.policy(), kernel.tile);
    const int draws = default_draws(task.precision);
    std::vector<ReportRow> rows = judged(row, oracle, kernel, problem, draws, got);
    const auto any = [&rows](Verdict verdict) {
      return std::any_of(rows.begin(), rows.end(), [=](const ReportRow& r) { return r.judgement.verdict == verdict; });
    };
    if (any(Verdict::undecided)) {
      oracle = oracle_of(*task.room, problem, 4);
      rows = judged(row, oracle, kernel, problem, draws, got);
    }
    if (any(Verdict::vacuous)) rows = judged(row, oracle, kernel, problem, 4 * draws, got);
    return rows;
  } catch (const InputError& error) {
    return without(Verdict::unsupported, error.what());
  } catch (const std::exception& error) {
    return without(Verdict::error, error.what());
  }
}

// ---- printing
// --------------------------------------------------------------------------------------------------------

std::string short_number(double x) { return x == 0 ? "0" : fmt::format("{:.2e}", x); }

std::string short_ratio(double x) {
  if (!std::isfinite(x)) return fmt::format("{}", x);
  if (x >= 1e5) return fmt::format("{:.1e}", x);
  return x >= 100 ? fmt::format("{:.0f}", x) : fmt::format("{:.{}f}", x, x >= 10 ? 1 : 2);
}

/// g as a percentage.
std::string percent(double g) {
  if (!std::isfinite(g)) return "none";
  return (g < 1e-4 ? fmt::format("{:.1e}", 100 * g) : short_ratio(100 * g)) + '%';
}

std::string location(const ReportRow& row, std::size_t flat) { return row.tensor + place(row.extents, flat); }

std::string listed(const std::vector<std::string_view>& names) {
  return names_in(names, [](std::string_view name) { return name; });
}

bool same_kernel(const ReportRow& a, const ReportRow& b) {
  return a.device == b.device && a.mechanism == b.mechanism && a.form == b.form && a.shape == b.shape;
}

/// "deltanet chunkwise", and the device if it is not the CPU executor.
std::string kernel_of(const ReportRow& row) {
  return row.mechanism + ' ' + row.form + (row.device == cpu_executor ? "" : " on " + row.device);
}

std::vector<std::string> header_of(const Report& report) {
  std::vector<std::string> devices;
  for (const ReportRow& row : report.rows)
    if (std::find(devices.begin(), devices.end(), row.device) == devices.end()) devices.push_back(row.device);
  const std::string places = names_in(devices, [&versions = report.device_versions](const std::string& device) {
    return device == cpu_executor ? "the CPU executor" : device + " (" + versions + ")";
  });
  return {
      fmt::format("assay report: kernels, run on {}, against the oracle", places),
      fmt::format("inputs    style {}, seed {}, rounded once to the precision", name_of(report.options.style),
                  report.options.seed),
      "contract  operands and outputs in the precision (tf32: outputs fp32; e4m3, e5m2: outputs bf16),",
      "          accumulators and gates in fp32; fp64: all in fp64",
      "columns   rel.error: Frobenius norms; max error: absolute; ulp: worst, in the output's format,",
      "          at the value or the tensor's root mean square if that is larger;",
      "          rms, worst: error in multiples of sigma, what a correct kernel spreads by;",
      "          gain: the smallest that this tensor would have revealed",
  };
}

std::vector<std::string> details_of(const ReportRow& row) {
  const Judgement& j = row.judgement;
  if (!row.judged()) return {"-", "-", "-", "-", "-", "-", "-"};
  return {short_number(j.relative_error), short_number(j.max_error), location(row, j.max_error_at),
          short_ratio(j.worst_ulps),      short_ratio(j.rms_z),      short_ratio(j.worst_z),
          percent(j.smallest_gain)};
}

const std::vector<Table::Column> detail_columns = {{"rel.error", true}, {"max error", true}, {"at"},
                                                   {"ulp", true},       {"rms", true},       {"worst", true},
                                                   {"gain", true},      {"verdict"}};

/// One line per kernel, one column per precision: the worst relative error of a tensor and the rms of error / sigma
/// over the elements of all, or what is not a pass.
Table summary_of(const Report& report) {
  Table table{{{"rel.error, rms"}}, {}};
  std::vector<std::string> precisions;
  for (const ReportRow& row : report.rows)
    if (std::find(precisions.begin(), precisions.end(), row.precision) == precisions.end()) {
      precisions.push_back(row.precision);
      table.columns.push_back({row.precision, true});
    }
  const ReportRow* previous = nullptr;
  for (const ReportRow& first : report.rows) {
    if (previous != nullptr && same_kernel(*previous, first)) continue;
    previous = &first;
    std::vector<std::string> cells{kernel_of(first)};
    for (const std::string& precision : precisions) {
      double error = 0, squares = 0, elements = 0;
      Verdict verdict = Verdict::pass;
      bool any = false;
      for (const ReportRow& row : report.rows) {
        if (!same_kernel(row, first) || row.precision != precision) continue;
        any = true;
        const double n = std::accumulate(row.extents.begin(), row.extents.end(), 1.0, std::multiplies<>());
        error = std::max(error, row.judgement.relative_error);
        squares += n * row.judgement.rms_z * row.judgement.rms_z, elements += n;
        if (verdict == Verdict::pass) verdict = row.judgement.verdict;
      }
      cells.push_back(!any                       ? ""
                      : verdict == Verdict::pass ? fmt::format("{:.1e} {:.2f}", error, std::sqrt(squares / elements))
                                                 : std::string(name_of(verdict)));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

/// "212 tensors: 210 PASS, 2 FAIL"
std::string count_of(const Report& report) {
  std::string counts;
  for (const Verdict verdict :
       {Verdict::pass, Verdict::fail, Verdict::vacuous, Verdict::undecided, Verdict::unsupported, Verdict::error}) {
    const auto n = std::count_if(report.rows.begin(), report.rows.end(),
                                 [verdict](const ReportRow& row) { return row.judgement.verdict == verdict; });
    if (n > 0) counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", n, name_of(verdict));
  }
  return fmt::format("{} tensors: {}", report.rows.size(), counts);
}

/// What did not pass, why, and how to see it again; what passed but could not have shown everything.
std::vector<std::string> complaints_of(const Report& report) {
  std::vector<std::string> lines;
  for (const ReportRow& row : report.rows) {
    if (row.judgement.verdict == Verdict::pass) {
      if (!row.judgement.blind_spots.empty())
        lines.push_back(fmt::format("note  {} {} {}: would not have revealed {}", kernel_of(row), row.precision,
                                    row.tensor, listed(row.judgement.blind_spots)));
      continue;
    }
    lines.push_back(fmt::format("{}  {} {} {}: {}", name_of(row.judgement.verdict), kernel_of(row), row.precision,
                                row.tensor.empty() ? "all tensors" : row.tensor, row.judgement.reason));
    lines.push_back("      " + row.command);
  }
  return lines;
}

/// The rows of one kernel as a table, the precision named where it changes.
Table kernel_table(const std::vector<const ReportRow*>& rows, bool repeat_precision) {
  Table table{{{"precision"}, {"tensor"}}, {}};
  table.columns.insert(table.columns.end(), detail_columns.begin(), detail_columns.end());
  const ReportRow* previous = nullptr;
  for (const ReportRow* row : rows) {
    const bool again = !repeat_precision && previous != nullptr && previous->precision == row->precision;
    std::vector<std::string> cells{again ? "" : row->precision, row->tensor.empty() ? "-" : row->tensor};
    for (std::string& cell : details_of(*row)) cells.push_back(std::move(cell));
    cells.emplace_back(name_of(row->judgement.verdict));
    table.rows.push_back(std::move(cells));
    previous = row;
  }
  return table;
}

std::vector<std::vector<const ReportRow*>> by_kernel(const Report& report) {
  std::vector<std::vector<const ReportRow*>> kernels;
  for (const ReportRow& row : report.rows) {
    if (kernels.empty() || !same_kernel(*kernels.back().front(), row)) kernels.emplace_back();
    kernels.back().push_back(&row);
  }
  return kernels;
}

std::string title_of(const ReportRow& row) {
  return fmt::format("{}, tile {}, shape B,T,H,K,V = {}{}", kernel_of(row), row.tile, row.shape,
                     row.judged_by.empty() ? "" : ", judged by the spread of " + row.judged_by);
}

std::string as_text(const Report& report) {
  std::string out;
  for (const std::string& line : header_of(report)) out += line + '\n';
  for (const auto& rows : by_kernel(report))
    out += '\n' + title_of(*rows.front()) + '\n' + kernel_table(rows, false).text(2);
  out += '\n' + summary_of(report).text() + '\n';
  for (const std::string& line : complaints_of(report)) out += line + '\n';
  return out + count_of(report) + "\nreproduce: " + report.options.command() + '\n';
}

std::string as_markdown(const Report& report) {
  std::string out;
  const std::vector<std::string> header = header_of(report);
  out += "# " + header.front() + "\n\n```\n";
  for (std::size_t i = 1; i < header.size(); ++i) out += header[i] + '\n';
  out += "```\n\n" + summary_of(report).markdown();
  for (const auto& rows : by_kernel(report))
    out += "\n## " + title_of(*rows.front()) + "\n\n" + kernel_table(rows, true).markdown();
  out += '\n' + count_of(report) + '\n';
  if (const std::vector<std::string> lines = complaints_of(report); !lines.empty()) {
    out += "\n```\n";
    for (const std::string& line : lines) out += line + '\n';
    out += "```\n";
  }
  return out + "\nReproduce: `" + report.options.command() + "`\n";
}

/// Everything that is known of a row, in the order of the columns of CSV and the keys of JSON.
nlohmann::ordered_json record_of(const ReportRow& row) {
  const Judgement& j = row.judgement;
  nlohmann::ordered_json record = {{"device", row.device}, {"mechanism", row.mechanism},    {"form", row.form},
                                   {"tile", row.tile},     {"precision", row.precision},    {"shape", row.shape},
                                   {"tensor", row.tensor}, {"verdict", name_of(j.verdict)}, {"reason", j.reason}};
  const auto set = [&](const char* key, auto value) {
    if (row.judged())
      record[key] = value;
    else
      record[key] = nullptr;
  };
  set("ulp_format", row.ulp_format);
  set("relative_error", j.relative_error), set("max_error", j.max_error);
  set("max_error_at", location(row, j.max_error_at));
  set("worst_ulps", j.worst_ulps), set("worst_ulps_at", location(row, j.worst_ulps_at));
  set("rms_z", j.rms_z), set("rms_limit", j.rms_limit);
  set("worst_z", j.worst_z), set("worst_z_at", location(row, j.worst_z_at));
  set("draws", row.draws), set("judged_by", row.judged_by), set("smallest_gain", j.smallest_gain),
      set("bound_over_sigma", j.bound_over_sigma);
  set("blind_spots", listed(j.blind_spots));
  record["command"] = row.command;
  return record;
}

std::string as_json(const Report& report) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const ReportRow& row : report.rows) rows.push_back(record_of(row));
  const nlohmann::ordered_json all = {{"format", "assay-report"},
                                      {"version", 1},
                                      {"style", name_of(report.options.style)},
                                      {"seed", report.options.seed},
                                      {"passed", report.passed()},
                                      {"command", report.options.command()},
                                      {"rows", std::move(rows)}};
  return all.dump(2) + '\n';
}

std::string as_csv(const Report& report) {
  Table table;
  for (const ReportRow& row : report.rows) {
    const nlohmann::ordered_json record = record_of(row);
    std::vector<std::string> cells;
    for (const auto& [key, value] : record.items()) {
      if (table.rows.empty()) table.columns.push_back({key, false});
      cells.push_back(value.is_null()     ? ""
                      : value.is_number() ? round_trip(value.get<double>())
                                          : value.get<std::string>());
    }
    table.rows.push_back(std::move(cells));
  }
  return table.csv();
}

// ---- the verb
// --------------------------------------------------------------------------------------------------------

struct Flags {
  ReportOptions options;
  CaseFlags inputs;
  std::vector<std::string> precisions;
  std::string device{name_of(RunsOn::every)}, format{name_of(TableFormat::table)}, output = "-";
};

int run_report(const Flags& flags, Console& console) {
  ReportOptions options = flags.options;
  for (const std::string& name : flags.precisions) options.precisions.push_back(*format_from(name));
  for (const RunsOn where : all_runs_on)
    if (name_of(where) == flags.device) options.device = where;
  options.style = *style_from(flags.inputs.style), options.seed = flags.inputs.seed;
  options.params = params_of(flags.inputs);
  if (!options.shape.empty()) shape_from(options.shape);  // refused before any work
  OutputFile file(flags.output, console.out);
  const Report report = [&] {
    Progress progress(console);
    return make_report(options, [&](std::size_t total, std::string_view what) { progress.step(total, what); });
  }();
  file.commit(print(report, *table_format_from(flags.format)));
  return report.passed() ? exit_passed : exit_failed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  ReportOptions& options = flags->options;
  app.add_option("--mechanism", options.mechanisms, "only this one; may be given several times")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--form", options.form, "only kernels of this form (tiled, chunkwise, split_decode, ...)");
  app.add_option("--precision", flags->precisions, "only this one; may be given several times")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(name_list(case_precisions)));
  app.add_option("--device", flags->device, "where kernels run; auto is the CPU executor and, if there is one, the GPU")
      ->check(CLI::IsMember(name_list(all_runs_on)))
      ->capture_default_str();
  app.add_option("--shape", options.shape, "B,T,H,K,V; 1,4/128,8/2,64,64 has 4 queries and 2 key/value heads");
  add_case_flags(app, flags->inputs);
  app.add_option("--threads", options.threads, "0 is all cores; the results do not depend on it")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--format", flags->format, "table, markdown, json or csv")
      ->check(CLI::IsMember(table_format_names()))
      ->capture_default_str();
  app.add_option("-o,--output", flags->output, "where the report goes; - is standard output")->capture_default_str();
  return [flags](Console& console) { return run_report(*flags, console); };
}

}  // namespace

std::string_view name_of(RunsOn where) {
  switch (where) {
    case RunsOn::every:
      return "auto";
    case RunsOn::cpu:
      return "cpu";
    case RunsOn::gpu:
      break;
  }
  return "gpu";
}

std::string ReportOptions::command() const {
  std::string command = "build/assay report";
  for (const std::string& mechanism : mechanisms) command += " --mechanism " + mechanism;
  if (!form.empty()) command += " --form " + form;
  for (const Format precision : precisions) command += text(" --precision ", name_of(precision));
  if (device != RunsOn::every) command += text(" --device ", name_of(device));
  if (!shape.empty()) command += " --shape " + shape;
  return command + text(" --style ", name_of(style), " --seed ", seed) + flags_of(params);
}

bool ReportRow::judged() const {
  return judgement.verdict != Verdict::unsupported && judgement.verdict != Verdict::error;
}

bool Report::passed() const {
  return !rows.empty() && std::all_of(rows.begin(), rows.end(),
                                      [](const ReportRow& row) { return row.judgement.verdict == Verdict::pass; });
}

Report make_report(const ReportOptions& options, const std::function<void(std::size_t, std::string_view)>& done,
                   const Device* device) {
  const std::vector<Task> tasks = tasks_of(options, device);
  // The slow ones first: fp64 is emulated in wider numbers, and precisions are listed from there.
  std::vector<std::size_t> order(tasks.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tasks[a].precision < tasks[b].precision; });

  const int cores =
      std::max(1, options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency()));
  const int workers = std::min(cores, static_cast<int>(tasks.size())), each = std::max(1, cores / workers);
  std::vector<std::vector<ReportRow>> results(tasks.size());
  std::atomic<std::size_t> next = 0;
  std::mutex telling;
  const auto work = [&] {
    for (std::size_t i = next++; i < order.size(); i = next++) {
      const Task& task = tasks[order[i]];
      results[order[i]] = rows_of(task, options, each);
      const std::lock_guard lock(telling);
      done(tasks.size(), text(task.room->name, " ", task.form->name, " ", name_of(task.precision),
                              task.device == nullptr ? "" : " on ", task.device == nullptr ? "" : task.device->name));
    }
  };
  {
    std::vector<std::jthread> pool;
    for (int t = 1; t < workers; ++t)
      pool.emplace_back([&work] {
        const FlintCaches caches;
        work();
      });
    work();
  }
  Report report{options, device == nullptr ? "" : device->versions, {}};
  for (std::vector<ReportRow>& rows : results)
    report.rows.insert(report.rows.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
  return report;
}

std::string print(const Report& report, TableFormat format) {
  switch (format) {
    case TableFormat::table:
      return as_text(report);
    case TableFormat::markdown:
      return as_markdown(report);
    case TableFormat::json:
      return as_json(report);
    case TableFormat::csv:
      break;
  }
  return as_csv(report);
}

namespace commands {
extern const Command report = {"report", "judge every mechanism x form x precision on seeded inputs", add};
}

}  // namespace assay
