// assay check CASE OUT: judges what somebody else's kernel answered to a case, or runs it first.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <thread>

#include "fixtures/layout.hpp"
#include "fixtures/problem_file.hpp"
#include "kernels/core/kernel_room.hpp"
#include "oracles/core/expected.hpp"
#include "reference/core/error.hpp"
#include "tools/case_flags.hpp"
#include "tools/child.hpp"
#include "tools/command.hpp"
#include "tools/plugin.hpp"
#include "tools/rows.hpp"

namespace assay {
namespace {

struct CheckOptions {
  std::string problem, answer, kernel, plugin;
  std::string form, precision;
  std::vector<std::string> tensors;
  std::string format{name_of(RowsFormat::table)}, output = "-";
  int threads = 0;
  double timeout = 600;

  /// What messages and pages call the answer.
  std::string source() const { return !kernel.empty() ? "--kernel: {out}" : !plugin.empty() ? plugin : answer; }
};

/// The command with the paths of both files in place of {case} and {out}, each as one word.
std::string with_paths(std::string command, const std::string& problem, const std::string& answer) {
  for (const auto& [name, path] : {std::pair{"{case}", problem}, {"{out}", answer}}) {
    const std::string word = shell_word(path);
    for (std::size_t at = command.find(name); at != std::string::npos; at = command.find(name, at + word.size()))
      command.replace(at, std::string_view(name).size(), word);
  }
  return command;
}

/// What the command writes to {out}.
Safetensors answer_of_command(const CheckOptions& options) {
  ChildEnd end;
  {
    const PrivateFolder folder;
    const std::string out = (folder.path() / "out.safetensors").string();
    end = run_command(with_paths(options.kernel, std::filesystem::absolute(options.problem).string(), out),
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

/// The room's kernels. Throws InputError if it has none.
const KernelRoom& kernels_of(const ProblemFile& file, const std::string& where) {
  const std::string& mechanism = file.problem.mechanism;
  const KernelRoom* kernels = find_kernels(kernel_rooms(), mechanism);
  require(kernels != nullptr || file.room == nullptr, where, ": ", mechanism,
          " has no kernel and so no contract to judge by; `assay oracle` answers the case with proven bounds");
  if (kernels == nullptr) throw unknown_mechanism(mechanism);
  return *kernels;
}

/// The form asked for, or the first one that takes the problem.
const KernelForm& form_for(const KernelRoom& kernels, const Problem& problem, const std::string& asked,
                           const std::string& where) {
  std::string obstacles;
  for (const KernelForm& form : kernels.forms) {
    if (asked.empty() ? !form.unstable.empty() : form.name != asked) continue;
    const std::string obstacle = form.obstacle(problem);
    if (obstacle.empty()) return form;
    obstacles += text(obstacles.empty() ? "" : "; ", form.name, ": ", obstacle);
  }
  require(!obstacles.empty(), "--form: ", kernels.name, " has no ", asked, "; it has ",
          names_in(kernels.forms, [](const KernelForm& form) { return form.name; }));
  throw InputError(where + ": " + obstacles);
}

/// The precision asked for, or the one that `assay case` has written down.
Format precision_of(const CheckOptions& options, const ProblemFile& file) {
  const auto named = file.metadata.find("precision");
  if (options.precision.empty() && named != file.metadata.end())
    for (const Format format : case_precisions)
      if (named->second == name_of(format)) return format;
  require(!options.precision.empty(), options.problem, ": names no precision; --precision says whose contract counts");
  return *format_from(options.precision);
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

/// What the plugin answers, of the oracle's tensors those wanted.
Safetensors answer_of_plugin(const CheckOptions& options, const ProblemFile& file,
                             std::map<std::string, StoredTensor> inputs, const Oracle& oracle,
                             const KernelUnderTest& kernel, const std::function<bool(const std::string&)>& wanted) {
  PluginCall call{.mechanism = file.problem.mechanism, .params = file.problem.params, .inputs = std::move(inputs)};
  if (!kernel.form->has_gradients) std::erase_if(call.inputs, [](const auto& x) { return x.first.starts_with("d_"); });
  if (kernel.precision == Format::fp64) call.dtype = "F64";
  for (const auto& [name, truth] : oracle.tensors)
    if (!truth.value.empty() && wanted(name))
      call.outputs.emplace_back(
          name, FileLayout::of_problem(answer_field(*file.room, name), truth.shape, file.batch).file_shape());
  return run_plugin(options.plugin, call, std::chrono::duration<double>(options.timeout));
}

/// The oracle's answer. Throws InputError if the case has none.
Oracle answered(const CheckOptions& options, const ProblemFile& file, int threads, Progress& progress) {
  BasicAnswer<Enclosed> answer;
  const auto done = [&](std::size_t total, std::string_view what) { progress.step(total, what); };
  const CaseResult result = answer_problem(file, Tier::w2, threads, done, answer);
  require(result.status == Status::ok, options.problem, ": ", name_of(result.status), ": ", result.message);
  return oracle_of(file.problem, std::move(answer));
}

Page page_of(const CheckOptions& options, const KernelUnderTest& kernel) {
  Page page;
  page.verb = "check";
  // At most one is not empty.
  const std::string subject = options.answer + options.kernel + options.plugin;
  const std::string kind = !options.kernel.empty() ? "kernel" : !options.plugin.empty() ? "plugin" : "answer";
  page.header = {"assay check: " + subject + " against the oracle's answer to " + options.problem};
  const std::vector<std::string> lines = legend();
  page.header.insert(page.header.end(), lines.begin(), lines.end());
  page.facts = {{"case", options.problem}, {kind, subject}};
  page.summary = false, page.artifact = kind == "kernel" ? options.problem : subject;
  page.command = "build/assay check " + shell_word(options.problem) + ' ' +
                 (kind == "answer" ? "" : "--" + kind + ' ') + shell_word(subject);
  if (options.timeout != CheckOptions{}.timeout) page.command += " --timeout " + round_trip(options.timeout);
  page.command += text(" --form ", kernel.form->name, " --precision ", name_of(kernel.precision));
  return page;
}

int run_check(const CheckOptions& options, Console& console) {
  const int sources = static_cast<int>(!options.answer.empty()) + static_cast<int>(!options.kernel.empty()) +
                      static_cast<int>(!options.plugin.empty());
  require(sources == 1, "expected one of OUT, --kernel and --plugin");
  for (const char* file : {"{case}", "{out}"})
    require(options.kernel.empty() || options.kernel.find(file) != std::string::npos,
            "--kernel: expected {case} and {out} in the command");
  require(is_safetensors(options.problem), options.problem,
          ": not a safetensors file; `assay case` writes the cases that can be checked");
  Safetensors stored = read_safetensors(options.problem);
  std::map<std::string, StoredTensor> inputs;
  if (!options.plugin.empty()) inputs = stored.tensors;
  ProblemFile file = read_problem(std::move(stored), options.problem);
  const KernelRoom& kernels = kernels_of(file, options.problem);
  KernelUnderTest kernel;
  kernel.precision = precision_of(options, file);
  kernel.threads =
      options.threads > 0 ? options.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  OutputFile output(options.output, console.out);
  Safetensors given;
  if (!options.answer.empty()) given = read_safetensors(options.answer);
  if (!options.kernel.empty()) given = answer_of_command(options);

  std::vector<ReportRow> rows;
  Page page;
  {
    Progress progress(console);
    Oracle oracle = answered(options, file, kernel.threads, progress);
    kernel.form = &measure_of(kernels, form_for(kernels, file.problem, options.form, options.problem));
    if (!kernel.form->has_gradients) {
      file.problem.cotangents.clear();
      std::erase_if(oracle.tensors, [](const auto& tensor) { return tensor.first.starts_with("d_"); });
    }
    for (const std::string& name : options.tensors)
      require(std::any_of(oracle.tensors.begin(), oracle.tensors.end(), [&](const auto& t) { return t.first == name; }),
              "--tensor: there is no ", name, "; there are ",
              names_in(oracle.tensors, [](const auto& tensor) { return tensor.first; }));
    const auto wanted = [&](const std::string& name) {
      return options.tensors.empty() ||
             std::find(options.tensors.begin(), options.tensors.end(), name) != options.tensors.end();
    };
    if (!options.plugin.empty()) given = answer_of_plugin(options, file, std::move(inputs), oracle, kernel, wanted);
    const Answer got = read_outputs(std::move(given), file, oracle, wanted, options.source());
    page = page_of(options, kernel);
    ReportRow row;
    row.device.clear(), row.shape = text_of(shape_of(file)), row.command = page.command;
    for (const std::string& name : options.tensors) page.command += " --tensor " + name;
    rows = judge_rows({*file.room, kernel, file.problem, oracle, file.batch, true}, row, got, wanted);
    for (ReportRow& judged : rows) judged.command += " --tensor " + judged.tensor;
  }
  output.commit(print(page, rows, *rows_format_from(options.format)));
  return all_pass(rows) ? exit_passed : exit_failed;
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
      ->check(CLI::Range(0.001, 1e7))
      ->capture_default_str();
  app.add_option("--form", options->form,
                 "the kernel whose roundings are allowed: `assay list` names them; without, the first one that takes "
                 "the problem");
  app.add_option("--precision", options->precision, "whose contract counts; without, the case's")
      ->check(CLI::IsMember(name_list(case_precisions)));
  app.add_option("--tensor", options->tensors, "judge only this one, may be given several times; others may be missing")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--threads", options->threads, "0 is all cores; the results do not depend on it")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--format", options->format,
                 "table or markdown for people, json or csv for programs, junit, sarif or github for CI")
      ->check(CLI::IsMember(name_list(all_rows_formats)))
      ->capture_default_str();
  app.add_option("-o,--output", options->output, "where the verdicts go; - is standard output")->capture_default_str();
  return [options](Console& console) { return run_check(*options, console); };
}

}  // namespace

namespace commands {
extern const Command check = {"check", "judge what somebody else's kernel answered to a case", add};
}

}  // namespace assay
