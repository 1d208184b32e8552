// assay baseline save, compare: the errors of a kernel across commits.
#include "tools/verbs/baseline.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <utility>

#include "files/input_file.hpp"
#include "judge/contract/contract.hpp"
#include "judge/court/seeded_case.hpp"
#include "kernels/core/kernel_room.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/print/escape.hpp"
#include "tools/verbs/check.hpp"
#include "tools/verbs/report.hpp"

namespace assay {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr int fewest_seeds = 3, most_seeds = 1000;

// ---- the statistic ----

/// Of logarithms. What is exact on some seeds only counts there as the smallest error that is not.
struct Logs {
  double mean = 0, variance_of_mean = 0;
  double count = 0;
};

Logs logs_of(const std::vector<double>& errors, double smallest) {
  Logs logs;
  logs.count = static_cast<double>(errors.size());
  for (const double x : errors) logs.mean += std::log(std::max(x, smallest)) / logs.count;
  for (const double x : errors) {
    const double off = std::log(std::max(x, smallest)) - logs.mean;
    logs.variance_of_mean += off * off / (logs.count - 1) / logs.count;
  }
  return logs;
}

/// The t that is exceeded as rarely, of a difference of two means.
double welch_limit(const Logs& a, const Logs& b, double rate) {
  const double x = a.variance_of_mean, y = b.variance_of_mean;
  if (x + y == 0) return 0;
  const double freedom = (x + y) * (x + y) / (x * x / (a.count - 1) + y * y / (b.count - 1));
  return quantile(complement(boost::math::students_t_distribution<double>(freedom), rate));
}

std::string verdict_that_fails(const BaselineRow& before, const BaselineRow& after) {
  const std::string fail(name_of(Verdict::fail));
  const auto fails = [&](const BaselineRow& row) {
    return std::find(row.verdicts.begin(), row.verdicts.end(), fail) != row.verdicts.end();
  };
  return fails(after) && !fails(before) ? "was never " + fail + ", and is" : "";
}

/// Whether errors and verdicts are those of before. In units of sigma they may be other ones: of an answer that is far
/// within its limits sigma is known from fewer draws.
bool has_moved(const BaselineRow& before, BaselineRow after) {
  after.rms_z = before.rms_z, after.worst_z = before.worst_z;
  return before != after;
}

Comparison compared(const BaselineRow& before, const BaselineRow& after, double rate) {
  Comparison c{.row = after};
  if (!has_moved(before, after)) {
    c.before = c.after = std::exp(logs_of(after.relative_error, std::numeric_limits<double>::min()).mean);
    if (std::all_of(after.relative_error.begin(), after.relative_error.end(), [](double x) { return x == 0; }))
      c.before = c.after = 0;
    return c;
  }
  const auto set = [&c](Change change, std::string why) { c.change = change, c.why = std::move(why); };
  double smallest = std::numeric_limits<double>::infinity();
  for (const auto* row : {&before, &after})
    for (const double x : row->relative_error)
      if (x > 0) smallest = std::min(smallest, x);
  const auto finite = [](const BaselineRow& row) {
    return std::all_of(row.relative_error.begin(), row.relative_error.end(), [](double x) { return std::isfinite(x); });
  };
  const auto exact = [](const BaselineRow& row) {
    return std::all_of(row.relative_error.begin(), row.relative_error.end(), [](double x) { return x == 0; });
  };
  if (!finite(after)) {
    c.after = c.growth = not_a_number;
    set(Change::worse, "its error is not finite");
    return c;
  }
  if (!finite(before)) {  // no noise to compare with
    c.before = c.growth = c.noise = not_a_number;
    c.after = exact(after) ? 0 : std::exp(logs_of(after.relative_error, smallest).mean);
    const std::string why = verdict_that_fails(before, after);
    set(why.empty() ? Change::better : Change::worse, why);
    return c;
  }
  if (std::isinf(smallest)) {  // exact before and after
    c.growth = 1;
    const std::string why = verdict_that_fails(before, after);
    set(why.empty() ? Change::noise : Change::worse, why);
    return c;
  }
  const Logs was = logs_of(before.relative_error, smallest), is = logs_of(after.relative_error, smallest);
  const double limit = welch_limit(was, is, rate) * std::sqrt(was.variance_of_mean + is.variance_of_mean),
               growth = is.mean - was.mean;
  c.before = exact(before) ? 0 : std::exp(was.mean), c.after = exact(after) ? 0 : std::exp(is.mean);
  c.growth = c.after / c.before, c.noise = std::exp(limit);
  if (exact(before))
    set(Change::worse, "was exact");
  else if (exact(after))
    set(Change::better, "");
  else
    set(growth > limit ? Change::worse : growth < -limit ? Change::better : Change::noise, "");
  if (c.change != Change::worse)
    if (const std::string why = verdict_that_fails(before, after); !why.empty()) set(Change::worse, why);
  return c;
}

bool same_place(const BaselineRow& a, const BaselineRow& b) {
  return a.device == b.device && a.mechanism == b.mechanism && a.form == b.form && a.precision == b.precision &&
         a.inputs == b.inputs && a.tensor == b.tensor;
}

// ---- what is measured ----

/// Our kernels on the report's cases, or somebody's on cases that `assay case` has made.
struct Subject {
  ReportOptions report;
  CheckOptions check;
  std::vector<SeededCase> cases;
  int seeds = 8;
  Json contract = nullptr;  ///< of all, in place of a precision's: its name, or what its file says

  bool is_user() const { return !check.kernel.empty() || !check.plugin.empty(); }
};

void add_rows(std::vector<BaselineRow>& rows, const std::vector<ReportRow>& judged, const std::string& inputs,
              int seed) {
  for (const ReportRow& r : judged) {
    if (!r.judged()) continue;
    BaselineRow row{.device = r.device,
                    .mechanism = r.mechanism,
                    .form = r.form,
                    .precision = r.precision,
                    .inputs = "--shape " + r.shape + inputs,
                    .tensor = r.tensor};
    auto known = std::find_if(rows.begin(), rows.end(), [&](const BaselineRow& x) { return same_place(x, row); });
    if (known == rows.end()) known = rows.insert(rows.end(), row);
    // From one seed two rows of the same place: the same case was given twice.
    require(known->verdicts.size() <= static_cast<std::size_t>(seed), known->name(), ": given twice");
    const Judgement& j = r.judgement;
    known->relative_error.push_back(j.relative_error), known->rms_z.push_back(j.rms_z);
    known->worst_z.push_back(j.worst_z), known->verdicts.emplace_back(name_of(j.verdict));
  }
}

std::vector<BaselineRow> measured(const Subject& subject, Console& console) {
  std::vector<BaselineRow> rows;
  const std::string contract =
      subject.report.contract ? " --contract " + shown_word(subject.report.contract->name) : "";
  const auto flags = [&contract](Style style, const Params& params) {
    return text(" --style ", name_of(style), flags_of(params), contract);
  };
  std::shared_ptr<UserKernel> kernel;  // started before the first answer is known
  if (subject.is_user()) kernel = std::make_shared<UserKernel>(subject.check.kernel, subject.check.plugin);
  for (int seed = 0; seed < subject.seeds; ++seed) {
    if (!subject.is_user()) {
      ReportOptions options = subject.report;
      options.seed += static_cast<std::uint64_t>(seed);
      Progress progress(console);
      const Report report = make_report(options, [&](std::size_t total, std::string_view what) {
        progress.step(total, text("seed ", options.seed, ": ", what));
      });
      add_rows(rows, report.rows, flags(options.style, options.params), seed);
      continue;
    }
    for (SeededCase one : subject.cases) {
      one.spec.seed += static_cast<std::uint64_t>(seed);
      CheckOptions options = subject.check;
      options.problem = (kernel->folder() / "baseline.safetensors").string();
      write_safetensors(options.problem, one.make());
      if (subject.contract.is_object()) {
        options.standard.contract = (kernel->folder() / "contract.json").string();
        std::ofstream(options.standard.contract) << subject.contract;
      }
      add_rows(rows, check_case(options, console, kernel).rows,
               flags(one.spec.style, one.spec.params) + flags_of(one.fill), seed);
    }
  }
  require(!rows.empty(), "baseline: no kernel answers any of these cases");
  // What a kernel answers on some seeds only has no noise to compare with.
  std::erase_if(rows,
                [&](const BaselineRow& row) { return row.verdicts.size() != static_cast<std::size_t>(subject.seeds); });
  return rows;
}

// ---- the file ----

Json json_of_case(const SeededCase& one) {
  return {{"mechanism", one.spec.mechanism},
          {"shape", text_of(one.spec.shape)},
          {"precision", name_of(one.spec.precision)},
          {"style", name_of(one.spec.style)},
          {"seed", one.spec.seed},
          {"params", json_of(one.spec.params)},
          {"fill", one.fill},
          {"cotangents", one.cotangents}};
}

Json json_of_subject(const Subject& subject) {
  Json json = {{"seeds", subject.seeds}};
  if (!subject.contract.is_null()) json["contract"] = subject.contract;
  if (subject.is_user()) {
    json[subject.check.kernel.empty() ? "plugin" : "kernel"] = subject.check.kernel + subject.check.plugin;
    json["form"] = subject.check.standard.form;
    json["cases"] = Json::array();
    for (const SeededCase& one : subject.cases) json["cases"].push_back(json_of_case(one));
    return json;
  }
  const ReportOptions& options = subject.report;
  json["mechanisms"] = options.mechanisms, json["form"] = options.form;
  json["precisions"] = Json::array();
  for (const Format precision : options.precisions) json["precisions"].push_back(name_of(precision));
  json["device"] = name_of(options.device), json["shape"] = options.shape, json["style"] = name_of(options.style);
  json["seed"] = options.seed, json["params"] = json_of(options.params);
  return json;
}

std::string dumped(const Subject& subject, const std::vector<BaselineRow>& rows) {
  Json records = Json::array();
  for (const BaselineRow& row : rows)
    records.push_back({{"device", row.device},
                       {"mechanism", row.mechanism},
                       {"form", row.form},
                       {"precision", row.precision},
                       {"inputs", row.inputs},
                       {"tensor", row.tensor},
                       {"relative_error", row.relative_error},
                       {"rms_z", row.rms_z},
                       {"worst_z", row.worst_z},
                       {"verdicts", row.verdicts}});
  return Json{{"format", "assay-baseline"},
              {"version", 1},
              {"tool_version", ASSAY_VERSION},
              {"subject", json_of_subject(subject)},
              {"rows", std::move(records)}}
             .dump(1, ' ', false, Json::error_handler_t::replace) +
         '\n';
}

template <class T>
T known(const std::optional<T>& value, const char* what) {
  require(value.has_value(), "unknown ", what);
  return *value;
}

/// An integer: the library would make one of any number.
template <class T>
T whole(const Json& json, const char* key) {
  const Json& value = json.at(key);
  require(value.is_number_integer(), key, ": expected an integer");
  const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<std::uint64_t>())
                                               : std::in_range<T>(value.get<std::int64_t>());
  require(fits, key, ": ", value.dump(), " is out of range");
  return value.get<T>();
}

SeededCase case_of(const Json& json) {
  SeededCase one;
  one.spec.mechanism = json.at("mechanism").get<std::string>();
  one.room = &room_named(one.spec.mechanism, "mechanism");
  one.spec.shape = shape_from(json.at("shape").get<std::string>());
  one.spec.precision = known(format_from(json.at("precision").get<std::string>()), "precision");
  one.spec.style = known(style_from(json.at("style").get<std::string>()), "style");
  one.spec.seed = whole<std::uint64_t>(json, "seed");
  one.spec.params = params_from(json);
  if (json.contains("fill")) one.fill = json.at("fill").get<std::map<std::string, std::string>>();
  one.cotangents = json.at("cotangents").get<bool>();
  return one;
}

/// All that is asked keeps `contract` and is judged by it; `source` is its file, or the baseline that holds it.
void set_contract(Subject& subject, Json contract, const std::string& source) {
  if (contract.is_null()) return;
  subject.report.contract =
      contract.is_string() ? contract_from(contract.get<std::string>()) : parse_contract(contract.dump(), source);
  subject.check.standard.contract = subject.report.contract->name;
  subject.contract = std::move(contract);
}

Subject subject_of(const Json& json) {
  Subject subject;
  subject.seeds = whole<int>(json, "seeds");
  require(subject.seeds >= fewest_seeds && subject.seeds <= most_seeds, "seeds: expected ", fewest_seeds, " to ",
          most_seeds);
  set_contract(subject, json.value("contract", Json()), "contract");
  if (json.contains("cases")) {
    if (json.contains("kernel")) subject.check.kernel = json.at("kernel").get<std::string>();
    if (json.contains("plugin")) subject.check.plugin = json.at("plugin").get<std::string>();
    require(subject.check.kernel.empty() != subject.check.plugin.empty(), "expected a kernel or a plugin");
    subject.check.standard.form = json.at("form").get<std::string>();
    for (const Json& one : json.at("cases")) subject.cases.push_back(case_of(one));
    return subject;
  }
  ReportOptions& options = subject.report;
  options.mechanisms = json.at("mechanisms").get<std::vector<std::string>>();
  options.form = json.at("form").get<std::string>();
  for (const Json& name : json.at("precisions"))
    options.precisions.push_back(known(format_from(name.get<std::string>()), "precision"));
  for (const RunsOn where : all_runs_on)
    if (name_of(where) == json.at("device").get<std::string>()) options.device = where;
  options.shape = json.at("shape").get<std::string>();
  if (!options.shape.empty()) shape_from(options.shape);  // refused with the file's name
  options.style = known(style_from(json.at("style").get<std::string>()), "style");
  options.seed = whole<std::uint64_t>(json, "seed");
  options.params = params_from(json);
  return subject;
}

/// Numbers that are none are null in JSON.
std::vector<double> numbers_of(const Json& list, int seeds) {
  std::vector<double> numbers;
  for (const Json& x : list) numbers.push_back(x.is_null() ? not_a_number : x.get<double>());
  require(numbers.size() == static_cast<std::size_t>(seeds), "expected a number for each seed");
  return numbers;
}

std::pair<Subject, std::vector<BaselineRow>> parsed(const std::string& text, const std::string& path) {
  const Json json = parse_json(text, path);
  const auto says = [&](const char* key, const Json& value) { return json.contains(key) && json[key] == value; };
  require(json.is_object() && says("format", "assay-baseline") && says("version", 1), path,
          ": no baseline of this version; `assay baseline save` writes them");
  try {
    Subject subject = subject_of(json.at("subject"));
    std::vector<BaselineRow> rows;
    for (const Json& row : json.at("rows")) {
      const auto word = [&](const char* key) { return row.at(key).get<std::string>(); };
      rows.push_back({word("device"), word("mechanism"), word("form"), word("precision"), word("inputs"),
                      word("tensor"), numbers_of(row.at("relative_error"), subject.seeds),
                      numbers_of(row.at("rms_z"), subject.seeds), numbers_of(row.at("worst_z"), subject.seeds),
                      row.at("verdicts").get<std::vector<std::string>>()});
      require(rows.back().verdicts.size() == static_cast<std::size_t>(subject.seeds),
              "expected a verdict for each seed");
    }
    return {std::move(subject), std::move(rows)};
  } catch (const Json::exception& e) {
    throw InputError(path + ": " + excerpt(e.what()));
  } catch (const InputError& e) {
    throw InputError(path + ": " + excerpt(e.what(), 1000));
  }
}

// ---- the page ----

std::string ratio_text(const Comparison& c) {
  if (c.before == 0) return c.after == 0 ? "1" : "from 0";
  return std::isfinite(c.growth) ? fmt::format("{:.3g}", c.growth) : "nan";
}

Table table_of(const std::vector<Comparison>& list, bool all) {
  Table table{{{"kernel"},
               {"precision"},
               {"tensor"},
               {"before", true},
               {"after", true},
               {"ratio", true},
               {"noise", true},
               {"change"}},
              {}};
  for (const Comparison& c : list) {
    if (!all && c.change == Change::same) continue;
    const bool both = c.change != Change::missing && c.change != Change::added;
    table.rows.push_back({c.row.mechanism + ' ' + c.row.form +
                              (c.row.device == cpu_executor || c.row.device.empty() ? "" : " on " + c.row.device),
                          c.row.precision, c.row.tensor, both ? fmt::format("{:.2e}", c.before) : "-",
                          both ? fmt::format("{:.2e}", c.after) : "-", both ? ratio_text(c) : "-",
                          both ? fmt::format("{:.3g}", c.noise) : "-", std::string(name_of(c.change))});
  }
  return table;
}

std::string count_of(const std::vector<Comparison>& list) {
  std::string counts;
  for (const Change change : all_changes) {
    const auto n = std::count_if(list.begin(), list.end(), [&](const Comparison& c) { return c.change == change; });
    if (n > 0) counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", n, name_of(change));
  }
  return fmt::format("{} tensors: {}", list.size(), counts);
}

bool passes(const std::vector<Comparison>& list) {
  return std::none_of(list.begin(), list.end(),
                      [](const Comparison& c) { return c.change == Change::worse || c.change == Change::missing; });
}

std::vector<std::string> sentences_of(const std::vector<Comparison>& list, int seeds) {
  std::vector<std::string> lines;
  for (const Comparison& c : list) {
    if (c.change == Change::worse)
      lines.push_back("WORSE  " + c.row.name() + ": " +
                      (c.why.empty() ? fmt::format("error x {:.3g}, and {} seeds do not hide more than x {:.3g}",
                                                   c.growth, seeds, c.noise)
                                     : c.why));
    if (c.change == Change::missing) lines.push_back("MISSING  " + c.row.name() + ": no longer answered");
  }
  return lines;
}

std::string page_of(const std::vector<Comparison>& list, const std::string& path, int seeds, TableFormat format) {
  const std::string counts = count_of(list);
  switch (format) {
    case TableFormat::csv:
      return table_of(list, true).csv();
    case TableFormat::json: {
      Json records = Json::array();
      for (const Comparison& c : list)
        records.push_back({{"device", c.row.device},
                           {"mechanism", c.row.mechanism},
                           {"form", c.row.form},
                           {"precision", c.row.precision},
                           {"inputs", c.row.inputs},
                           {"tensor", c.row.tensor},
                           {"change", name_of(c.change)},
                           {"before", c.before},
                           {"after", c.after},
                           {"ratio", c.growth},
                           {"noise", c.noise},
                           {"why", c.why}});
      return Json{{"format", "assay-baseline-comparison"},
                  {"version", 1},
                  {"baseline", path},
                  {"passed", passes(list)},
                  {"false_alarm_rate", baseline_false_alarm_rate},
                  {"rows", std::move(records)}}
                 .dump(2, ' ', true, Json::error_handler_t::replace) +
             '\n';
    }
    case TableFormat::table:
    case TableFormat::markdown:
      break;
  }
  const bool markdown = format == TableFormat::markdown;
  const Table table = table_of(list, false);
  const auto shown = [markdown](const std::string& line) { return markdown ? markdown_text(line) : plain_text(line); };
  std::string out =
      fmt::format("{}assay baseline: {} seeds against those of {}\n", markdown ? "# " : "", seeds, shown(path));
  if (!table.rows.empty()) out += '\n' + (markdown ? table.markdown() : table.text(2));
  out += '\n';
  for (const std::string& line : sentences_of(list, seeds)) out += (markdown ? "- " : "") + shown(line) + '\n';
  return out + (markdown ? "\n" : "") + counts + '\n';
}

// ---- the verb ----

struct Flags {
  std::string file;
  ReportOptions report;
  CaseFlags inputs;
  CheckOptions check;
  std::vector<std::string> precisions, cases;
  std::string device{name_of(RunsOn::every)}, format{name_of(TableFormat::table)}, output = "-";
  std::string contract;
  int seeds = 8, threads = 0;
};

/// A contract's name, or what is in its file, so that a baseline does not depend on that.
Json contract_json(const std::string& name_or_file) {
  if (name_or_file.empty()) return nullptr;
  const Contract contract = contract_from(name_or_file);
  if (contract.file.empty()) return contract.name;
  return parse_json(contract.json, name_or_file);
}

int save(const Flags& flags, Console& console) {
  Subject subject{flags.report, flags.check, {}, flags.seeds};
  require(flags.check.kernel.empty() || flags.check.plugin.empty(), "expected one of --kernel and --plugin");
  require(subject.is_user() == !flags.cases.empty(), "--case: expected with --kernel or --plugin, which answer it");
  for (const std::string& path : flags.cases) subject.cases.push_back(read_seeded_case(path, "--case"));
  for (const std::string& name : flags.precisions) subject.report.precisions.push_back(*format_from(name));
  for (const RunsOn where : all_runs_on)
    if (name_of(where) == flags.device) subject.report.device = where;
  subject.report.style = *style_from(flags.inputs.style), subject.report.seed = flags.inputs.seed;
  subject.report.params = params_of(flags.inputs);
  subject.report.threads = subject.check.standard.threads = flags.threads;
  subject.check.standard.form = flags.report.form;
  set_contract(subject, contract_json(flags.contract), flags.contract);
  std::vector<std::string> inputs = flags.cases;
  inputs.insert(inputs.end(), {flags.contract, flags.check.plugin});
  OutputFile file(flags.file, console.out, inputs);
  const std::vector<BaselineRow> rows = measured(subject, console);
  file.commit(dumped(subject, rows));
  if (flags.file != "-")
    console.out << fmt::format("{}: {} tensors, {} seeds\n", plain_text(flags.file), rows.size(), subject.seeds);
  return exit_passed;
}

int compare(const Flags& flags, Console& console) {
  auto [subject, before] = parsed(read_text(flags.file), flags.file);
  subject.report.threads = subject.check.standard.threads = flags.threads;
  subject.check.timeout = flags.check.timeout;
  if (!flags.check.kernel.empty() || !flags.check.plugin.empty()) {
    require(subject.is_user(), flags.file, ": is about assay's own kernels, not about --kernel or --plugin");
    require(flags.check.kernel.empty() || flags.check.plugin.empty(), "expected one of --kernel and --plugin");
    subject.check.kernel = flags.check.kernel, subject.check.plugin = flags.check.plugin;
  }
  OutputFile output(flags.output, console.out, {flags.file, flags.check.plugin});
  const std::vector<Comparison> list = compare_rows(before, measured(subject, console));
  output.commit(page_of(list, flags.file, subject.seeds, *table_format_from(flags.format)));
  return passes(list) ? exit_passed : exit_failed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  auto wanted = std::make_shared<int (*)(const Flags&, Console&)>(nullptr);
  app.require_subcommand(1);
  const auto verb = [&](const char* name, const char* summary, int (*function)(const Flags&, Console&)) {
    CLI::App* sub = app.add_subcommand(name, summary);
    sub->add_option("file", flags->file, "the baseline, JSON")->required();
    sub->add_option("--kernel", flags->check.kernel,
                    "a command that answers cases: 'python my_kernel.py {case} {out}'");
    sub->add_option("--plugin", flags->check.plugin, "a shared library that does (tools/plugin/assay_plugin.h)");
    sub->add_option("--timeout", flags->check.timeout, "seconds after which a command or plugin is killed")
        ->check(number_in(shortest_limit, longest_limit))
        ->capture_default_str();
    sub->add_option("--threads", flags->threads, "0 is all cores; the results do not depend on it")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    sub->callback([wanted, function] { *wanted = function; });
    return sub;
  };
  CLI::App* saves = verb("save", "measure, and keep what was measured", save);
  saves->add_option("--seeds", flags->seeds, "how many, from --seed or the case's own on; their spread is the noise")
      ->check(CLI::Range(fewest_seeds, most_seeds))
      ->capture_default_str();
  saves
      ->add_option("--case", flags->cases,
                   "a file that `assay case` has made, for --kernel or --plugin; may be given several times")
      ->allow_extra_args(false);
  saves->add_option("--mechanism", flags->report.mechanisms, "only this one; may be given several times")
      ->delimiter(',')
      ->allow_extra_args(false);
  saves->add_option("--form", flags->report.form, "only kernels of this form");
  saves->add_option("--precision", flags->precisions, "only this one; may be given several times")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of(name_list(case_precisions)));
  add_contract_flag(*saves, flags->contract, "what counts in place of a precision's");
  saves->add_option("--device", flags->device, "where kernels run, as for `assay report`")
      ->check(one_of(name_list(all_runs_on)))
      ->capture_default_str();
  saves->add_option("--shape", flags->report.shape, "B,T,H,K,V");
  add_case_flags(*saves, flags->inputs);
  CLI::App* compares = verb("compare", "measure again, and fail if something has become worse", compare);
  compares->add_option("--format", flags->format, "table or markdown for people, json or csv for programs")
      ->check(one_of(table_format_names()))
      ->capture_default_str();
  compares->add_option("-o,--output", flags->output, "where the comparison goes; - is standard output")
      ->capture_default_str();
  return [flags, wanted](Console& console) { return (*wanted)(*flags, console); };
}

}  // namespace

std::string BaselineRow::name() const {
  return mechanism + ' ' + form + ' ' + precision + ' ' + tensor + " (" + inputs + ')';
}

std::string_view name_of(Change change) {
  constexpr std::string_view names[] = {"same", "noise", "better", "WORSE", "MISSING", "new"};
  return names[static_cast<int>(change)];
}

std::vector<BaselineRow> parse_baseline(const std::string& text, const std::string& where) {
  return parsed(text, where).second;
}

std::vector<Comparison> compare_rows(const std::vector<BaselineRow>& before, const std::vector<BaselineRow>& after,
                                     double rate) {
  std::vector<Comparison> list;
  const double each = rate / static_cast<double>(std::max<std::size_t>(1, before.size()));
  for (const BaselineRow& was : before) {
    const auto is = std::find_if(after.begin(), after.end(), [&](const BaselineRow& x) { return same_place(x, was); });
    if (is == after.end())
      list.push_back({.row = was, .change = Change::missing});
    else
      list.push_back(compared(was, *is, each));
  }
  for (const BaselineRow& is : after)
    if (std::none_of(before.begin(), before.end(), [&](const BaselineRow& x) { return same_place(x, is); }))
      list.push_back({.row = is, .change = Change::added});
  return list;
}

namespace commands {
extern const Command baseline = {"baseline", "keep a kernel's errors, and fail where they have grown", add};
}

}  // namespace assay
