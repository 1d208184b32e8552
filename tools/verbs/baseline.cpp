// `assay baseline`: a kernel's errors, kept, and compared.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <memory>
#include <utility>

#include "files/in_words.hpp"
#include "files/input_file.hpp"
#include "judge/contract/contract.hpp"
#include "kernels/core/kernel_room.hpp"
#include "language/room.hpp"
#include "reference/core/error.hpp"
#include "tools/baseline/baseline_change.hpp"
#include "tools/baseline/baseline_file.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/print/escape.hpp"

namespace assay {
namespace baseline_verb {
namespace {

using Subject = BaselineSubject;

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
      options.inputs.seed += static_cast<std::uint64_t>(seed);
      Progress progress(console);
      const Report report = make_report(options, [&](std::size_t total, std::string_view what) {
        progress.step(total, text("seed ", options.inputs.seed, ": ", what));
      });
      add_rows(rows, report.rows, flags(options.inputs.style, options.inputs.params), seed);
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
  // A kernel that answers on some seeds only has no noise to compare with.
  std::erase_if(rows,
                [&](const BaselineRow& row) { return row.verdicts.size() != static_cast<std::size_t>(subject.seeds); });
  return rows;
}

std::string ratio_text(const Comparison& c) {
  if (c.before == 0) return c.after == 0 ? "1" : "from 0";
  return std::isfinite(c.growth) ? fmt::format("{:.3g}", c.growth) : "nan";
}

Table table_of(const std::vector<Comparison>& list, bool all) {
  Table table =
      Table().words({"kernel", "precision", "tensor"}).numbers({"before", "after", "ratio", "noise"}).words({"change"});
  for (const Comparison& c : list) {
    if (!all && c.change == Change::same) continue;
    const bool both = c.change != Change::missing && c.change != Change::added;
    table.add(c.row.mechanism + ' ' + c.row.form +
                  (c.row.device == cpu_executor || c.row.device.empty() ? "" : " on " + c.row.device),
              c.row.precision, c.row.tensor, both ? fmt::format("{:.2e}", c.before) : "-",
              both ? fmt::format("{:.2e}", c.after) : "-", both ? ratio_text(c) : "-",
              both ? fmt::format("{:.3g}", c.noise) : "-", name_of(c.change));
  }
  return table;
}

std::string count_of(const std::vector<Comparison>& list) {
  std::string counts;
  for (const Change change : all_changes) {
    const auto n = std::count_if(list.begin(), list.end(), [&](const Comparison& c) { return c.change == change; });
    if (n > 0) counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", n, name_of(change));
  }
  return fmt::format("{}: {}", counted(list.size(), "tensor"), counts);
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
  if (format == TableFormat::csv) return table_of(list, true).csv();
  if (format == TableFormat::json) {
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
    return json_page({{"format", "assay-baseline-comparison"},
                      {"version", 1},
                      {"baseline", path},
                      {"passed", passes(list)},
                      {"false_alarm_rate", baseline_false_alarm_rate},
                      {"rows", std::move(records)}});
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

/// The file of a program with its digest, so that errors of another one are not compared with its.
void pin(std::string& name, std::string_view flag) {
  if (language::program_path(name) > 0) name = language::pinned_name(*room_named(name, flag));
}

int save(const Flags& flags, Console& console) {
  Subject subject{flags.report, flags.check, {}, flags.seeds};
  for (std::string& name : subject.report.mechanisms) pin(name, "--mechanism");
  pin(subject.report.form, "--form");
  require(flags.check.kernel.empty() || flags.check.plugin.empty(), "expected one of --kernel and --plugin");
  require(subject.is_user() == !flags.cases.empty(), "--case: expected with --kernel or --plugin, which answer it");
  for (const std::string& path : flags.cases) subject.cases.push_back(read_seeded_case(path, "--case"));
  for (const std::string& name : flags.precisions) subject.report.precisions.push_back(*format_from(name));
  subject.report.device = *entry_named(all_runs_on, flags.device);
  CaseSpec& drawn = subject.report.inputs;
  drawn.style = *style_from(flags.inputs.style), drawn.seed = flags.inputs.seed;
  drawn.params = params_of(flags.inputs);
  subject.report.threads = subject.check.standard.threads = flags.threads;
  subject.check.standard.form = flags.report.form;
  set_contract(subject, contract_json(flags.contract), flags.contract);
  std::vector<std::string> inputs = flags.cases;
  inputs.insert(inputs.end(), {flags.contract, flags.check.plugin});
  OutputFile file(flags.file, console.out, inputs);
  const std::vector<BaselineRow> rows = measured(subject, console);
  file.commit(dumped(subject, rows));
  if (flags.file != "-")
    console.out << fmt::format("{}: {}, {} seeds\n", plain_text(flags.file), counted(rows.size(), "tensor"),
                               subject.seeds);
  return exit_passed;
}

/// Files of Python that are named again must be those of the baseline.
void require_known(const Flags& flags, const std::vector<BaselineRow>& before) {
  for (const std::string& name : flags.report.mechanisms)
    require(std::ranges::any_of(before, [&](const BaselineRow& row) { return row.mechanism.starts_with(name); }),
            "--mechanism: ", flags.file, " is not about ", name);
}

int compare(const Flags& flags, Console& console) {
  auto [subject, before] = parse_baseline(read_text(flags.file), flags.file);
  subject.report.threads = subject.check.standard.threads = flags.threads;
  subject.check.timeout = flags.check.timeout;
  require_known(flags, before);
  if (!flags.check.kernel.empty() || !flags.check.plugin.empty()) {
    require(subject.is_user(), flags.file, ": is about assay's own kernels, not about --kernel or --plugin");
    require(flags.check.kernel.empty() || flags.check.plugin.empty(), "expected one of --kernel and --plugin");
    subject.check.kernel = flags.check.kernel, subject.check.plugin = flags.check.plugin;
  }
  OutputFile output(flags.output, console.out, {flags.file, flags.check.plugin});
  const std::vector<Comparison> list = compare_rows(before, measured(subject, console));
  output.commit(page_of(list, flags.file, subject.seeds, *entry_named(all_table_formats, flags.format)));
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
    sub->add_option("--plugin", flags->check.plugin,
                    "a shared library that answers cases (tools/plugin/assay_plugin.h)");
    sub->add_option("--timeout", flags->check.timeout, "seconds after which a command or plugin is killed")
        ->check(number_in(shortest_limit, longest_limit))
        ->capture_default_str();
    add_threads_flag(*sub, flags->threads);
    sub->callback([wanted, function] { *wanted = function; });
    return sub;
  };
  CLI::App* saves = verb("save", "measure errors and keep them", save);
  saves
      ->add_option("--seeds", flags->seeds,
                   "the number of seeds, from --seed or the case's own on; their spread is the noise")
      ->check(whole_in(fewest_baseline_seeds, most_baseline_seeds))
      ->capture_default_str();
  saves
      ->add_option("--case", flags->cases,
                   "a file that `assay case` has made, for --kernel or --plugin; may be given several times")
      ->allow_extra_args(false);
  add_list_flag(*saves, "--mechanism", flags->report.mechanisms, "only this mechanism; may be given several times");
  saves->add_option("--form", flags->report.form, "only kernels of this form");
  add_list_flag(*saves, "--precision", flags->precisions, "only this precision; may be given several times")
      ->check(one_of(name_list(case_precisions)));
  add_contract_flag(*saves, flags->contract, "the contract in place of a precision's");
  add_choice_flag(*saves, "--device", flags->device, "the device of the kernels, as for `assay report`",
                  name_list(all_runs_on));
  saves->add_option("--shape", flags->report.shape, "B,T,H,d or B,T,H,K,V");
  add_case_flags(*saves, flags->inputs);
  CLI::App* compares = verb("compare", "measure again, and fail if something has become worse", compare);
  add_list_flag(*compares, "--mechanism", flags->report.mechanisms,
                "FILE.py that the baseline is of: it is run once more");
  add_choice_flag(*compares, "--format", flags->format, "table or markdown for people, json or csv for programs",
                  name_list(all_table_formats));
  compares->add_option("-o,--output", flags->output, "where the comparison goes; - is standard output")
      ->capture_default_str();
  return [flags, wanted](Console& console) { return (*wanted)(*flags, console); };
}

}  // namespace
}  // namespace baseline_verb

const Command commands::baseline = {"baseline", "keep a kernel's errors, and fail where they have grown",
                                    baseline_verb::add};

}  // namespace assay
