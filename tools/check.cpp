// assay check CASE OUT: judges what somebody else's kernel answered to a case, or runs it first.
#include "tools/check.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>

#include "fixtures/layout.hpp"
#include "reference/core/error.hpp"
#include "tools/case_flags.hpp"
#include "tools/child.hpp"
#include "tools/plugin.hpp"
#include "tools/same_bits.hpp"
#include "tools/shrink.hpp"
#include "tools/why.hpp"

namespace assay {
namespace {

/// The command with the paths of both files in place of {case} and {out}, each as one word.
std::string with_paths(std::string command, const std::string& problem, const std::string& answer) {
  for (const auto& [name, path] : {std::pair{"{case}", problem}, {"{out}", answer}}) {
    const std::string word = shell_word(path);
    for (std::size_t at = command.find(name); at != std::string::npos; at = command.find(name, at + word.size()))
      command.replace(at, std::string_view(name).size(), word);
  }
  return command;
}

/// What the command writes to {out}, given the case at `problem`.
Safetensors answer_of_command(const CheckOptions& options, const std::string& problem) {
  ChildEnd end;
  {
    const PrivateFolder folder;
    const std::string out = (folder.path() / "out.safetensors").string();
    end = run_command(with_paths(options.kernel, std::filesystem::absolute(problem).string(), out),
                      std::chrono::duration<double>(options.timeout));
    if (end.passed()) {
      require(std::filesystem::exists(out), "--kernel: the command has not written {out}",
              end.last_words.empty() ? "" : ": " + end.last_words);
      try {
        return read_safetensors(out);
      } catch (const InputError& error) {  // the folder will be gone
        throw InputError("--kernel: {out}" + std::string(error.what()).substr(out.size()));
      }
    }
  }
  if (end.interrupted != 0) std::raise(end.interrupted);
  throw InputError("--kernel: the command " + end.sentence());
}

/// What a file holds, if it is not one of another kind.
Safetensors answer_in(const std::string& path) {
  std::error_code unknown;
  const bool has_header = std::filesystem::is_regular_file(path, unknown) && std::filesystem::file_size(path) >= 8;
  require(!has_header || is_safetensors(path), path, ": not a safetensors file");
  return read_safetensors(path);
}

/// What the plugin is asked: of the oracle's tensors those wanted.
PluginCall plugin_call(const CaseTrial& trial, std::map<std::string, StoredTensor> inputs,
                       const std::function<bool(const std::string&)>& wanted) {
  const ProblemFile& file = trial.file();
  PluginCall call{.mechanism = file.problem.mechanism, .params = file.problem.params, .inputs = std::move(inputs)};
  if (!trial.kernel().form->has_gradients)
    std::erase_if(call.inputs, [](const auto& x) { return x.first.starts_with("d_"); });
  if (trial.kernel().precision == Format::fp64) call.dtype = "F64";
  for (const auto& [name, truth] : trial.oracle().tensors)
    if (!truth.value.empty() && wanted(name))
      call.outputs.emplace_back(
          name, FileLayout::of_problem(answer_field(*file.room, name), truth.shape, file.batch).file_shape());
  return call;
}

/// The kernel's answer to other tensors than those of the case, of fewer sequences.
Safetensors answer_to(const CheckOptions& options, const PluginCall& call, const Safetensors& problem, int sequences) {
  if (options.plugin.empty()) {
    const PrivateFolder folder;
    const std::string path = (folder.path() / "case.safetensors").string();
    write_safetensors(path, problem);
    return answer_of_command(options, path);
  }
  PluginCall other = call;
  for (auto& [name, tensor] : other.inputs) tensor = problem.tensors.at(name);
  for (auto& [name, shape] : other.outputs)
    if (!shape.empty()) shape.front() = sequences;
  return run_plugin(options.plugin, other, std::chrono::duration<double>(options.timeout));
}

/// What does not keep its bits fails, unless it fails already.
void require_same_bits(Checked& checked, const std::map<std::string, std::string>& changed) {
  for (ReportRow& row : checked.rows) {
    const auto found = changed.find(row.tensor);
    if (found == changed.end() || row.judgement.verdict == Verdict::fail) continue;
    row.judgement.verdict = Verdict::fail, row.judgement.reason = found->second;
  }
}

Page page_of(const CheckOptions& options, const CaseTrial& trial) {
  Page page;
  page.verb = "check";
  // At most one is not empty.
  const std::string subject = options.answer + options.kernel + options.plugin;
  const std::string kind = !options.kernel.empty() ? "kernel" : !options.plugin.empty() ? "plugin" : "answer";
  page.header = {"assay check: " + subject + " against the oracle's answer to " + options.problem};
  const std::vector<std::string> lines = legend(trial.kernel().contract, options.standard.false_alarms);
  page.header.insert(page.header.end(), lines.begin(), lines.end());
  if (trial.tiles().size() > 1)
    page.header.push_back(
        "tiles     each tensor is judged by the one of " +
        names_in(trial.tiles(), [&](int t) { return trial.kernel().form->tiles[static_cast<std::size_t>(t)]; }) +
        " that it fits; --tile asks for one");
  page.facts = {{"case", options.problem},
                {kind, subject},
                {"contract", trial.kernel().contract->name},
                {"false_alarm_rate", options.standard.false_alarms}};
  page.summary = false, page.artifact = kind == "kernel" ? options.problem : subject;
  page.command = "build/assay check " + shell_word(options.problem) + ' ' +
                 (kind == "answer" ? "" : "--" + kind + ' ') + shell_word(subject);
  if (options.timeout != CheckOptions{}.timeout) page.command += " --timeout " + round_trip(options.timeout);
  if (options.same_bits) page.command += " --same-bits";
  if (options.standard.strict_dtypes) page.command += " --strict-dtypes";
  if (options.standard.false_alarms != false_alarm_rate)
    page.command += " --false-alarms " + round_trip(options.standard.false_alarms);
  page.command += ' ' + trial.flags();
  return page;
}

std::string listed(const std::vector<std::string>& names) {
  return names_in(names, [](const std::string& name) { return name; });
}

/// Says what was read off the answer and what was not: in lines, and as facts of JSON.
void tell_what_was_read(Checked& checked) {
  const GivenAnswer& got = checked.got;
  std::map<std::string, std::vector<std::string>> narrow;
  for (const ReportRow& row : checked.rows)
    if (!row.stored.empty())
      narrow["in " + row.stored + ", the contract's in " + row.stored_by_contract].push_back(row.tensor);
  const std::string outcome =
      checked.trial->strict_dtypes() ? "--strict-dtypes refuses that" : "one rounding to that is allowed";
  for (const auto& [how, tensors] : narrow)
    checked.remarks.push_back(listed(tensors) + ": stored " + how + "; " + outcome);
  if (!got.not_judged.empty())
    checked.remarks.push_back("not judged: " + listed(got.not_judged) + " (the answer has none)");
  if (!got.ignored.empty()) checked.remarks.push_back("ignored: " + listed(got.ignored));
  const std::string& guess = checked.trial->precision_guess();
  if (!guess.empty()) checked.remarks.push_back("precision: " + guess + "; the case names none");
  Json stored = Json::object();
  for (const auto& [name, dtype] : got.stored) stored[name] = name_of(dtype);
  auto& facts = checked.page.facts;
  facts.emplace_back("stored", std::move(stored));
  facts.emplace_back("not_judged", got.not_judged), facts.emplace_back("ignored", got.ignored);
}

int run_check(const CheckOptions& options, Console& console) {
  OutputFile output(options.output, console.out);
  std::optional<SeededCase> seeded;
  if (options.shrinks) seeded = case_to_shrink(options);
  CheckOptions whole = options;
  whole.standard.detects = true;
  Checked checked = check_case(whole, console);
  if (options.why) explain_check(checked);
  if (seeded) shrink_check(options, *seeded, checked, console);
  const RowsFormat format = *rows_format_from(options.format);
  std::vector<std::string>& lines = prints_notes(format) ? checked.page.header : checked.page.notes;
  if (format != RowsFormat::json) lines.insert(lines.end(), checked.remarks.begin(), checked.remarks.end());
  output.commit(print(checked.page, checked.rows, format));
  if (!prints_notes(format))
    for (const std::string& line : checked.page.notes) console.err << line << '\n';
  return all_pass(checked.rows) ? exit_passed : exit_failed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto options = std::make_shared<CheckOptions>();
  app.add_option("case", options->problem, "the problem, as `assay case` writes it")->required();
  app.add_option("out", options->answer, "a safetensors file with the answer: o, final_state, d_q, ...");
  app.add_option("--kernel", options->kernel,
                 "in place of OUT, the command that writes it: 'python my_kernel.py {case} {out}'; both paths are "
                 "put in as words of the shell, so leave quotes around them out");
  app.add_option("--plugin", options->plugin,
                 "in place of OUT, a shared library that computes it (tools/plugin/assay_plugin.h)");
  app.add_option("--timeout", options->timeout,
                 "seconds after which a command or plugin, and all it has started, is killed")
      ->check(number_in(shortest_limit, longest_limit))
      ->capture_default_str();
  app.add_option("--form", options->standard.form,
                 "the kernel whose roundings are allowed: `assay list` names them; without, the first one that takes "
                 "the problem");
  app.add_option("--precision", options->standard.precision, "whose contract counts; without, the case's")
      ->check(one_of(name_list(case_precisions)));
  add_contract_flag(app, options->standard.contract, "what counts in its place");
  app.add_option("--tile", options->standard.tile,
                 "the tile shape whose spread counts (64x64, 16, ...); without, any of the form's, for "
                 "each tensor");
  app.add_option("--tensor", options->tensors, "judge only this one, may be given several times; others may be missing")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--strict-dtypes", options->standard.strict_dtypes,
               "fail a tensor that is stored in fewer bits than the contract stores it in; without, one rounding to "
               "its dtype is allowed");
  app.add_flag("--same-bits", options->same_bits,
               "of --kernel and --plugin: demand the same bits when it is run again, and for a sequence of the batch "
               "alone; of --plugin, whatever lies around the inputs, too");
  app.add_flag(
      "--why", options->why,
      "say which roundings make the error, and of what fails, which coarser one or which known fault explains it");
  app.add_flag("--shrink", options->shrinks,
               "of a case that `assay case` has made and that fails: look for a smaller one");
  app.add_option("--shrink-limit", options->shrink_limit, "seconds that this may take")
      ->check(number_in(shortest_limit, longest_limit))
      ->capture_default_str();
  app.add_option("--shrink-output", options->shrink_output, "where the smaller case goes");
  add_false_alarms_flag(app, options->standard.false_alarms);
  app.add_option("--threads", options->standard.threads, "0 is all cores; the results do not depend on it")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--format", options->format, std::string(rows_formats_help))
      ->check(one_of(name_list(all_rows_formats)))
      ->capture_default_str();
  app.add_option("-o,--output", options->output, "where the verdicts go; - is standard output")->capture_default_str();
  return [options](Console& console) { return run_check(*options, console); };
}

}  // namespace

Checked check_case(const CheckOptions& options, Console& console) {
  const int sources = static_cast<int>(!options.answer.empty()) + static_cast<int>(!options.kernel.empty()) +
                      static_cast<int>(!options.plugin.empty());
  require(sources == 1, "expected one of OUT, --kernel and --plugin");
  for (const char* file : {"{case}", "{out}"})
    require(options.kernel.empty() || options.kernel.find(file) != std::string::npos,
            "--kernel: expected {case} and {out} in the command");
  require(is_safetensors(options.problem), options.problem,
          ": not a safetensors file; `assay case` writes the cases that can be checked");
  require(!options.same_bits || options.answer.empty(), "--same-bits: expected --kernel or --plugin, to run it again");
  Safetensors stored = read_safetensors(options.problem), problem;
  if (!options.plugin.empty() || options.same_bits) problem = stored;
  Checked checked;
  checked.trial = std::make_unique<CaseTrial>(std::move(stored), options.standard, options.problem);
  CaseTrial& trial = *checked.trial;
  Safetensors given;
  if (!options.answer.empty()) given = answer_in(options.answer);
  if (!options.kernel.empty()) given = answer_of_command(options, options.problem);

  Progress progress(console);
  trial.prepare([&](std::size_t total, std::string_view what) { progress.step(total, what); });
  trial.require_tensors(options.tensors);
  const auto wanted = [&](const std::string& name) { return asks_for(options.tensors, name); };
  PluginCall call;
  if (!options.plugin.empty()) {
    call = plugin_call(trial, problem.tensors, wanted);
    given = run_plugin(options.plugin, call, std::chrono::duration<double>(options.timeout));
  }
  std::map<std::string, std::string> changed;
  if (options.same_bits) {
    std::function<Safetensors()> with_zeros;
    if (!options.plugin.empty())
      with_zeros = [&] {
        PluginCall other = call;
        other.around = 0;
        return run_plugin(options.plugin, other, std::chrono::duration<double>(options.timeout));
      };
    changed = changed_bits(
        problem, given,
        [&](const Safetensors& other, int sequences) { return answer_to(options, call, other, sequences); },
        with_zeros);
  }
  checked.page = page_of(options, trial);
  checked.got = trial.read(std::move(given), options.tensors, options.source());
  checked.rows = trial.judge(checked.got, wanted, checked.page.command);
  require_same_bits(checked, changed);
  tell_what_was_read(checked);
  for (const std::string& name : options.tensors) checked.page.command += " --tensor " + name;
  return checked;
}

namespace commands {
extern const Command check = {"check", "judge what somebody else's kernel answered to a case", add};
}

}  // namespace assay
