// assay suite MECHANISM: the eight cases that together show most, one verdict.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "files/in_words.hpp"
#include "files/shown.hpp"
#include "judge/court/why.hpp"
#include "kernels/core/kernel_room.hpp"
#include "language/room.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/cases/program_suite.hpp"
#include "tools/cases/suite_cases.hpp"
#include "tools/cases/suite_measure.hpp"
#include "tools/print/colours.hpp"
#include "tools/print/escape.hpp"
#include "tools/print/rows_page.hpp"
#include "tools/run/checked.hpp"

namespace assay {
namespace suite_verb {
namespace {

struct SuiteFlags {
  std::string mechanism;
  CheckOptions check;  ///< of each case
  std::string write_cases, answers, precision{name_of(Format::bf16)};
  std::vector<std::string> params, with;
  std::string layout = "bthd";
  std::vector<int> only;  ///< of the eight, from 1; none: all
  std::uint64_t seed = 0;
  int head_dim = 64;
  double false_alarms = false_alarm_rate;  ///< of all cases together
  bool without_cotangents = false, without_groups = false, plain_shapes = false, settings = false;
  bool measures = false;
};

/// "slow_writes, beta=0.998"
std::string words_of(Style style, const Fill& fill) {
  std::string words(name_of(style));
  for (const auto& [name, value] : fill) words += ", " + name + '=' + value;
  return words;
}

/// One of the eight, ready to be asked.
struct Posed {
  int number = 0;
  SeededCase seeded;

  std::string file(const std::string& kind) const { return fmt::format("{}{}.safetensors", kind, number); }
  /// "slow_writes, beta=0.998, window=8"
  std::string inputs() const {
    std::string params = flags_of(seeded.spec.params);
    for (std::size_t at = 0; (at = params.find(" --param ")) != std::string::npos;) params.replace(at, 9, ", ");
    for (const auto& [name, value] : seeded.spec.with) params += ", " + name + (value.empty() ? "" : "=" + value);
    return words_of(seeded.spec.style, seeded.fill) + params;
  }
};

/// The suite of a program, whose choice people hear of.
const ProgramSuite& chosen_suite(const Room& room, const SuiteFlags& flags, Console& console) {
  Progress progress(console);
  return program_suite(room, flags.check.standard.threads,
                       [&](std::size_t total) { progress.step(total, "choosing cases"); });
}

/// The eight of a room as they were measured; of a program, and of a room without kernels, as they are chosen here.
std::vector<SuiteCandidate> cases_of(const Room& room, const SuiteFlags& flags, Console& console) {
  const Suite* suite = find_suite(room.name);
  require(!flags.settings || (suite != nullptr && !suite->with_settings.empty()), "--settings: ", room.name,
          " has none");
  if (suite == nullptr) return chosen_suite(room, flags, console).cases;
  std::vector<SuiteCandidate> list;
  for (const SuiteCase& written : flags.settings ? suite->with_settings : suite->cases) list.push_back(written.inputs);
  return list;
}

/// Packed sequences are a batch of one, and what an argument stands for is not filled. Throws InputError if the case
/// takes no such arguments.
void fit_arguments(SeededCase& seeded) {
  const auto is_packed = [](const auto& argument) { return argument.first.starts_with("cu_seqlens"); };
  if (seeded.spec.layout == "thd" || std::ranges::any_of(seeded.spec.with, is_packed)) seeded.spec.shape.batch = 1;
  const Fill fill = std::exchange(seeded.fill, {});
  const Safetensors made = seeded.make();
  for (const auto& filled : fill)
    if (made.tensors.contains(filled.first)) seeded.fill.insert(filled);
}

std::vector<Posed> posed_by(const SuiteFlags& flags, Console& console) {
  const auto found = room_named(flags.mechanism, "mechanism");
  const Room& room = *found;
  const std::vector<SuiteCandidate> cases = cases_of(room, flags, console);
  std::vector<Posed> all;
  for (std::size_t c = 0; c < cases.size(); ++c) {
    const int number = static_cast<int>(c) + 1;
    if (!asks_for(flags.only, number)) continue;
    Shape shape = cases[c].extents(flags.head_dim);
    if (flags.without_groups) shape.shared_heads = 0;
    if (flags.plain_shapes) shape.query_len = 0, shape.key_dim = shape.value_dim = flags.head_dim;
    Posed posed{number,
                {found,
                 {.mechanism = std::string(room.name),
                  .shape = shape,
                  .precision = *format_from(flags.precision),
                  .style = cases[c].style,
                  .seed = flags.seed,
                  .params = cases[c].params,
                  .cotangents = !flags.without_cotangents},
                 cases[c].fill}};
    for (const std::string& word : flags.params) {
      auto [name, value] = param_from(word);
      posed.seeded.spec.params.insert_or_assign(std::move(name), std::move(value));
    }
    for (const std::string& word : flags.with) posed.seeded.spec.with.push_back(with_from(word));
    posed.seeded.spec.layout = flags.layout;
    if (posed.seeded.has_arguments())
      fit_arguments(posed.seeded);
    else
      refuse_params(room, posed.seeded.spec.params, shape);
    all.push_back(std::move(posed));
  }
  require(!all.empty(), "--case: expected numbers from 1 to ", cases.size());
  return all;
}

/// The cases in a folder, which `--write-cases` has written, perhaps of another seed or precision.
void take_written(const std::string& folder, std::vector<Posed>& cases) {
  for (Posed& posed : cases) {
    const std::string path = (std::filesystem::path(folder) / posed.file("case")).string();
    require(std::filesystem::exists(path), path, ": missing; `assay suite ", posed.seeded.room->name, " --write-cases ",
            shown_word(folder), "` writes it");
    SeededCase written = read_seeded_case(path, "--answers");
    const CaseSpec &is = written.spec, &was = posed.seeded.spec;
    require(language::pinned_name(*written.room) == language::pinned_name(*posed.seeded.room) &&
                is.style == was.style && is.shape.seq_len == was.shape.seq_len && written.fill == posed.seeded.fill &&
                written.spec.with == posed.seeded.spec.with && written.spec.layout == posed.seeded.spec.layout,
            path, ": is not case ", posed.number, " of the suite of ", was.mechanism,
            "; --write-cases writes the cases anew");
    posed.seeded = std::move(written);
  }
}

/// The arguments with which all cases are made.
std::string arguments_of(const SuiteFlags& flags) {
  std::string words;
  for (const std::string& param : flags.params) words += " --param " + shown_word(param);
  for (const std::string& argument : flags.with) words += " --with " + shown_word(argument);
  if (flags.layout != SuiteFlags{}.layout) words += " --layout " + flags.layout;
  return words;
}

int write_cases(const SuiteFlags& flags, const std::vector<Posed>& cases, Console& console) {
  const std::filesystem::path folder = flags.write_cases;
  std::filesystem::create_directories(folder);
  for (const Posed& posed : cases) {
    const std::filesystem::path path = folder / posed.file("case");
    if (!std::filesystem::exists(path)) continue;
    try {
      read_seeded_case(path.string(), "--write-cases");  // what can be made again is not lost
    } catch (const InputError&) {
      throw InputError(text("--write-cases: ", path.string(),
                            " is no case that `assay case` makes and would be lost; name another folder or remove it"));
    }
  }
  for (const Posed& posed : cases) {
    const std::string path = (folder / posed.file("case")).string();
    OutputFile(path, console.out).commit([&](std::ostream& out) { write_safetensors(out, posed.seeded.make()); });
    console.out << path << "  " << text_of(posed.seeded.spec.shape) << "  " << posed.inputs() << '\n';
  }
  console.out << "write each answer to out1.safetensors, ... in the same folder, then: " << typed_here("build/assay ")
              << "suite " << flags.mechanism << " --answers " << shown_word(flags.write_cases) << arguments_of(flags)
              << '\n';
  return exit_passed;
}

/// The flags that pose the same cases to the same kernel; without --case.
std::string command_of(const SuiteFlags& flags) {
  const CheckOptions& check = flags.check;
  std::string command = "build/assay suite " + flags.mechanism;
  if (!flags.answers.empty()) command += " --answers " + shown_word(flags.answers);
  if (!check.kernel.empty())
    command += std::string(check.loop ? " --kernel-loop " : " --kernel ") + shown_word(check.kernel);
  if (!check.plugin.empty()) command += " --plugin " + shown_word(check.plugin);
  if (check.timeout != CheckOptions{}.timeout) command += " --timeout " + round_trip(check.timeout);
  if (flags.head_dim != SuiteFlags{}.head_dim) command += fmt::format(" --head-dim {}", flags.head_dim);
  if (flags.precision != SuiteFlags{}.precision) command += " --precision " + flags.precision;
  if (flags.seed != 0) command += fmt::format(" --seed {}", flags.seed);
  if (flags.settings) command += " --settings";
  command += arguments_of(flags);
  if (flags.without_groups) command += " --no-groups";
  if (flags.plain_shapes) command += " --plain-shapes";
  if (flags.without_cotangents) command += " --no-cotangents";
  for (const std::string& tensor : check.tensors) command += " --tensor " + tensor;
  if (!check.standard.contract.empty()) command += " --contract " + shown_word(check.standard.contract);
  if (!check.standard.form.empty()) command += " --form " + check.standard.form;
  if (flags.false_alarms != false_alarm_rate) command += " --false-alarms " + round_trip(flags.false_alarms);
  return command;
}

/// The results of the eight cases.
struct Outcome {
  std::vector<ReportRow> rows;
  Table table = Table()
                    .numbers({"case"})
                    .words({"shape B,T,H,K,V", "inputs", "tensors"})
                    .numbers({"model", "contract"})
                    .words({"verdict"});
  std::vector<std::string> lines;     ///< what failed, and notes
  std::vector<std::string> refusals;  ///< sentences of cases without a verdict
  std::set<std::string> remarks;
  Json findings = Json::array();
  int passed = 0;
};

std::string verdict_of(const std::vector<ReportRow>& rows) {
  for (const Verdict verdict :
       {Verdict::error, Verdict::fail, Verdict::undecided, Verdict::vacuous, Verdict::unsupported})
    if (std::any_of(rows.begin(), rows.end(), [&](const ReportRow& r) { return r.judgement.verdict == verdict; }))
      return std::string(name_of(verdict));
  return std::string(name_of(Verdict::pass));
}

std::string worst_of(const std::vector<ReportRow>& rows, std::optional<Weighed> ReportRow::*evidence) {
  double worst = -1;
  for (const ReportRow& row : rows)
    if (row.*evidence) worst = std::max(worst, (row.*evidence)->excess);
  return worst < 0 ? "-" : fmt::format("{:.3g}", worst);
}

/// The first tensor that does not pass, in full, and the names of the others.
void tell_failures(const Posed& posed, const std::vector<ReportRow>& rows, const std::vector<std::string>& findings,
                   Outcome& all) {
  const ReportRow* first = nullptr;
  std::vector<std::string> others;
  for (const ReportRow& row : rows) {
    if (passes(row.judgement.verdict)) continue;
    if (first != nullptr) others.push_back(row.tensor);
    if (first == nullptr) first = &row;
  }
  if (first == nullptr) return;
  for (const std::string& line : complaints_of({*first})) all.lines.push_back(line);
  if (!others.empty())
    all.lines.push_back(
        fmt::format("      {} {} not pass, either", names_in(others), others.size() == 1 ? "does" : "do"));
  for (const std::string& line : findings) {
    all.lines.push_back("      " + line);
    all.findings.push_back({{"case", posed.number}, {"finding", line}});
  }
}

/// Notes on tensors that pass: the evidence, where that is a named contract, and the contract that they do not keep.
void tell_notes(const Posed& posed, const std::vector<ReportRow>& rows, Outcome& all) {
  std::vector<std::string> loose;
  double worst = 0;
  for (const ReportRow& row : rows) {
    if (row.judgement.verdict != Verdict::pass) continue;
    if (is_loose(row)) loose.push_back(row.tensor), worst = std::max(worst, row.by_contract->excess);
    if (row.evidence.starts_with("contract ") && row.by_model && row.by_model->verdict != Verdict::pass)
      all.lines.push_back(
          fmt::format("note  {} {} {}: passes under {}", kernel_of(row), contract_of(row), row.tensor, row.evidence));
  }
  if (loose.empty()) return;
  const std::string& contract = contract_of(rows.front());
  all.lines.push_back(
      fmt::format("note  case {}: {} rounds more than {} allows, up to {:.3g} times its limit; --contract "
                  "{} fails",
                  posed.number, names_in(loose), contract, worst, contract));
}

void run_case(const SuiteFlags& flags, const Posed& posed, const std::filesystem::path& folder,
              const std::shared_ptr<UserKernel>& kernel, Console& console, Outcome& all) {
  CheckOptions options = flags.check;
  const std::filesystem::path files = flags.answers.empty() ? folder : std::filesystem::path(flags.answers);
  options.problem = (files / posed.file("case")).string();
  if (!flags.answers.empty()) options.answer = (files / posed.file("out")).string();
  if (flags.answers.empty()) write_safetensors(options.problem, posed.seeded.make());
  const std::string command = command_of(flags) + fmt::format(" --case {}", posed.number);
  std::vector<ReportRow> rows;
  std::vector<std::string> findings;
  try {
    Checked checked = check_case(options, console, kernel);
    tell_why(checked);
    rows = std::move(checked.rows), findings = checked.page.findings;
    all.remarks.insert(checked.remarks.begin(), checked.remarks.end());
  } catch (const InputError& error) {
    ReportRow row;
    row.device.clear(), row.mechanism = flags.mechanism, row.form = "any", row.shape = text_of(posed.seeded.spec.shape);
    row.precision = flags.precision, row.contract = flags.precision;
    row.judgement.verdict = Verdict::error, row.judgement.reason = error.what();
    all.refusals.push_back(row.judgement.reason);
    rows.push_back(std::move(row));
  }
  for (ReportRow& row : rows) row.of_case = fmt::format("case {}", posed.number), row.command = command;
  const auto passing = std::ranges::count_if(rows, [](const ReportRow& row) { return passes(row.judgement.verdict); });
  const std::string verdict = verdict_of(rows);
  all.passed += verdict == name_of(Verdict::pass) ? 1 : 0;
  all.table.add(posed.number, text_of(posed.seeded.spec.shape), posed.inputs(),
                fmt::format("{} of {}", passing, rows.size()), worst_of(rows, &ReportRow::by_model),
                worst_of(rows, &ReportRow::by_contract), verdict);
  tell_failures(posed, rows, findings, all);
  tell_notes(posed, rows, all);
  all.rows.insert(all.rows.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
}

/// The first few errors that no case shows.
std::string hidden_in(const ProgramSuite& suite) {
  constexpr std::size_t named = 3;
  std::string words;
  for (std::size_t i = 0; i < std::min(named, suite.hidden.size()); ++i) words += (i > 0 ? "; " : "") + suite.hidden[i];
  return words + (suite.hidden.size() > named ? "; ..." : "");
}

/// The errors that the eight cases show, as JSON has them.
Json json_of_choice(const SuiteFlags& flags) {
  const ProgramSuite suite = program_suite(*room_named(flags.mechanism, "mechanism"), flags.check.standard.threads, {});
  Json cases = Json::array();
  for (std::size_t c = 0; c < suite.cases.size(); ++c)
    cases.push_back({{"shape", suite.cases[c].shape},
                     {"inputs", words_of(suite.cases[c].style, suite.cases[c].fill)},
                     {"shows_more", suite.shows[c]}});
  return {{"errors", suite.errors},
          {"shown", suite.shown},
          {"hidden", suite.hidden},
          {"no_change", suite.no_change},
          {"cases", std::move(cases)}};
}

/// "chosen by what they show: 84 of 86 errors in the formula", and in a second line some of those that no case shows.
std::vector<std::string> words_of_choice(const SuiteFlags& flags) {
  if (const Suite* suite = find_suite(flags.mechanism)) {
    const bool by_contract = !flags.check.standard.contract.empty();
    std::vector<std::string> unseen;
    for (const SuiteBlindSpot& spot : suite->blind_spots)
      if (!flags.settings && (by_contract ? spot.by_contract : spot.shown) == 0)
        unseen.push_back(spot.name + (spot.by_contract > 0 ? " (--contract sees it)" : ""));
    std::vector<std::string> lines = {
        fmt::format("cases     chosen by what they show: {} of {} faults, {} with --contract (records/suite.md)",
                    flags.settings ? suite->shown_with_settings : suite->shown, suite->faults, suite->by_contract)};
    if (!unseen.empty()) lines.push_back(fmt::format("          cannot see: {}", fmt::join(unseen, ", ")));
    return lines;
  }
  const ProgramSuite suite = program_suite(*room_named(flags.mechanism, "mechanism"), flags.check.standard.threads, {});
  std::vector<std::string> lines = {
      fmt::format("cases     chosen by what they show: {} of {} errors in the formula and its gradient", suite.shown,
                  suite.errors)};
  if (!suite.hidden.empty()) lines.push_back("          not: " + hidden_in(suite));
  return lines;
}

Page page_of(const SuiteFlags& flags, const std::vector<Posed>& cases, Outcome& all) {
  const CheckOptions& check = flags.check;
  const std::string subject = check.kernel + check.plugin + flags.answers;  // one is not empty
  Page page;
  page.verb = "suite";
  page.header = {fmt::format("assay suite: {} against the oracle's answers to {} of {}", subject,
                             counted(cases.size(), "case"), flags.mechanism)};
  const bool has_arguments = cases.front().seeded.has_arguments();
  if (has_arguments)
    page.header.emplace_back(
        "cases     those of the mechanism, with these arguments; `assay check --mutants` says of each which errors in "
        "the joined formula it shows");
  else
    for (std::string& line : words_of_choice(flags)) page.header.push_back(std::move(line));
  page.header.emplace_back("columns   model, contract: the worst tensor's error, in units of what roundings do in the");
  page.header.emplace_back(
      "          recurrence itself (up to 2 is right, in fp32 and fp64 3) and of what the contract allows");
  page.header.emplace_back("          (up to 1 keeps it)");
  page.header.push_back(
      fmt::format("limits    correct kernels fail, in any of these cases, with a probability of {} at most",
                  check.standard.false_alarms));
  page.header.insert(page.header.end(), all.remarks.begin(), all.remarks.end());
  const std::string count = counted(cases.size(), "case");
  const auto failed = static_cast<int>(cases.size()) - all.passed;
  page.findings = all.lines;
  page.findings.push_back(failed == 0 ? count + ": all PASS" : fmt::format("{} of {} pass", all.passed, count));
  page.summary = false, page.artifact = annotated_file(check), page.command = command_of(flags);
  if (page.artifact.empty()) page.artifact = subject;
  for (const int n : flags.only) page.command += fmt::format(" --case {}", n);
  Json list = Json::array();
  for (std::size_t c = 0; c < cases.size(); ++c)
    list.push_back({{"case", cases[c].number},
                    {"shape", text_of(cases[c].seeded.spec.shape)},
                    {"inputs", cases[c].inputs()},
                    {"verdict", all.table.rows[c].back()},
                    {"command", cases[c].seeded.command(cases[c].file("case"))}});
  page.facts = {{"mechanism", flags.mechanism},
                {"false_alarm_rate", flags.false_alarms},
                {"cases", std::move(list)},
                {"findings", all.findings}};
  if (find_suite(flags.mechanism) == nullptr) page.facts.emplace_back("formula", json_of_choice(flags));
  page.overview = std::move(all.table);
  return page;
}

/// Which cases a program's suite has, and what each adds.
int measure_program(const Room& room, const SuiteFlags& flags, OutputFile& file, Console& console) {
  const ProgramSuite& suite = chosen_suite(room, flags, console);
  if (flags.check.format == name_of(RowsFormat::json)) {
    file.commit(json_of_choice(flags).dump(2) + '\n');
    return exit_passed;
  }
  Table table = Table().numbers({"case"}).words({"shape B,T,H", "inputs"}).numbers({"shows more"});
  for (std::size_t c = 0; c < suite.cases.size(); ++c)
    table.add(c + 1, suite.cases[c].shape, words_of(suite.cases[c].style, suite.cases[c].fill), suite.shows[c]);
  std::string text = table.text() + '\n' + text_of_lines(wrapped(words_of_choice(flags), 10));
  if (suite.no_change > 0) text += fmt::format("          {} more change no number of any case\n", suite.no_change);
  file.commit(text);
  return exit_passed;
}

int measure(const SuiteFlags& flags, Console& console) {
  OutputFile file(flags.check.output, console.out);
  if (!flags.mechanism.empty()) {
    const auto found = room_named(flags.mechanism, "mechanism");
    const Room& room = *found;
    if (find_kernels(kernel_rooms(), room.name) == nullptr) return measure_program(room, flags, file, console);
  }
  std::vector<Suite> all;
  for (const Room* room : rooms()) {
    if (find_kernels(kernel_rooms(), room->name) == nullptr) continue;
    if (!flags.mechanism.empty() && flags.mechanism != room->name) continue;
    Progress progress(console);
    all.push_back(
        suite_of(*room, measure_suite(*room, suite_candidates(*room), {.threads = flags.check.standard.threads},
                                      [&](std::size_t total) { progress.step(total, room->name); })));
  }
  file.commit(json_of(all));
  return exit_passed;
}

int run_suite(SuiteFlags flags, Console& console) {
  if (flags.measures) return measure(flags, console);
  require(!flags.mechanism.empty(), "suite: expected a mechanism; `assay list` names them");
  CheckOptions& check = flags.check;
  const int sources = static_cast<int>(!check.kernel.empty()) + static_cast<int>(!check.plugin.empty()) +
                      static_cast<int>(!flags.answers.empty()) + static_cast<int>(!flags.write_cases.empty());
  require(sources == 1, "suite: expected one of --kernel, --kernel-loop, --plugin, --answers and --write-cases");
  std::vector<Posed> cases = posed_by(flags, console);
  if (!flags.write_cases.empty()) return write_cases(flags, cases, console);
  require_command(check);
  OutputFile output(check.output, console.out, {check.plugin, check.standard.contract});
  if (!flags.answers.empty()) take_written(flags.answers, cases);
  std::shared_ptr<UserKernel> kernel;
  if (flags.answers.empty()) kernel = std::make_shared<UserKernel>(check.kernel, check.plugin, check.loop);
  check.standard.false_alarms = flags.false_alarms / static_cast<double>(cases.size());
  Outcome all;
  for (const Posed& posed : cases)
    run_case(flags, posed, kernel == nullptr ? std::filesystem::path() : kernel->folder(), kernel, console, all);
  require(all.refusals.size() < cases.size(), all.refusals.empty() ? "" : all.refusals.front());
  Page page = page_of(flags, cases, all);
  page.colours = shows_colours(console, check.output);
  output.commit(print(page, all.rows, *rows_format_from(check.format)));
  return all_pass(all.rows) ? exit_passed : exit_failed;
}

void add_flags_of_cases(CLI::App& app, SuiteFlags& flags) {
  app.add_option("mechanism", flags.mechanism, "the mechanism; `assay list` names them");
  app.add_option("--case", flags.only, "only this case, from 1; may be given several times")->allow_extra_args(false);
  app.add_option("--head-dim", flags.head_dim, "dimensions of keys and values")
      ->check(whole_in(1, 256))
      ->capture_default_str();
  add_choice_flag(app, "--precision", flags.precision, "the precision of queries, keys, values and cotangents",
                  name_list(case_precisions));
  app.add_option("--seed", flags.seed, "the inputs' seed")->check(any_seed())->capture_default_str();
  app.add_flag("--settings", flags.settings,
               "take the eight cases that show most of a kernel that has the mechanism's settings, too");
  app.add_option("--param", flags.params, "a setting of all cases, NAME=VALUE; may be given several times")
      ->allow_extra_args(false);
  app.add_option("--with", flags.with,
                 "an argument of all cases that is a tensor, NAME or NAME=NUMBERS (docs/arguments.md); may be given "
                 "several times")
      ->allow_extra_args(false);
  add_choice_flag(app, "--layout", flags.layout, "how rows lie: [B, T, H, d], [B, H, T, d], or packed [T, H, d]",
                  {"bthd", "bhtd", "thd"});
  app.add_flag("--no-groups", flags.without_groups, "as many key/value heads as heads");
  app.add_flag(
      "--plain-shapes", flags.plain_shapes,
      "give all cases keys and values of --head-dim dimensions and a query for every key, for a kernel that takes "
      "no others");
  app.add_flag("--no-cotangents", flags.without_cotangents,
               "leave out the cotangents d_o, ...: the answers then have no gradients");
  app.add_option("--write-cases", flags.write_cases, "only write the cases, case1.safetensors, ..., into this folder");
  app.add_option("--answers", flags.answers,
                 "in place of --kernel: that folder, with the answers out1.safetensors, ... beside the cases");
  app.add_flag("--measure", flags.measures, "choose the cases anew, of one mechanism or of all, and print their table");
}

std::function<int(Console&)> add(CLI::App& app) {
  auto flags = std::make_shared<SuiteFlags>();
  CheckOptions& check = flags->check;
  add_flags_of_cases(app, *flags);
  add_kernel_flags(app, check);
  app.add_option("--form", check.standard.form,
                 "the kernel form that sets the allowed roundings; without, the first that fits");
  app.add_option("--contract", check.standard.contract,
                 "the contract that decides in place of the model: a name or a JSON file");
  add_list_flag(app, "--tensor", check.tensors,
                "judge only this one, may be given several times; others may be missing");
  add_false_alarms_flag(app, flags->false_alarms);
  add_threads_flag(app, check.standard.threads);
  add_choice_flag(app, "--format", check.format, std::string(rows_formats_help), name_list(all_rows_formats));
  app.add_option("-o,--output", check.output, "where the verdicts go; - is standard output")->capture_default_str();
  return [flags](Console& console) { return run_suite(*flags, console); };
}

}  // namespace
}  // namespace suite_verb

const Command commands::suite = {"suite", "run a kernel on the eight cases that together show most", suite_verb::add};

}  // namespace assay
