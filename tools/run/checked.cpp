#include "tools/run/checked.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>
#include <sstream>
#include <system_error>
#include <utility>

#include "files/in_words.hpp"
#include "judge/court/blind_spots.hpp"
#include "judge/court/growing_steps.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/cases/check_costs.hpp"
#include "tools/print/escape.hpp"
#include "tools/print/sample.hpp"
#include "tools/print/why.hpp"
#include "tools/run/long_check.hpp"
#include "tools/run/plugin.hpp"
#include "tools/run/same_bits.hpp"

namespace assay {
namespace {

/// The tensors of a file, which must not be of another kind.
Safetensors answer_in(const std::string& path) {
  std::error_code unknown;
  const bool has_header = std::filesystem::is_regular_file(path, unknown) && std::filesystem::file_size(path) >= 8;
  require(!has_header || is_safetensors(path), path, ": not a safetensors file");
  return read_safetensors(path);
}

using Shapes = std::vector<std::pair<std::string, std::vector<int>>>;

/// The tensors that the case has an answer of, as a file has them: all that the oracle knows, or, of a case of which
/// some parts will be judged, what the room answers to one.
Shapes shapes_of_answer(const CaseTrial& trial) {
  const ProblemFile& file = trial.file();
  Shapes shapes;
  if (!file.parts) {
    for (const auto& [name, truth] : trial.oracle().tensors)
      if (!truth.value.empty()) shapes.emplace_back(name, file.shape_in_file(name, truth.shape));
    return shapes;
  }
  const auto add = [&](auto answer) {
    for (const auto& [name, array] : named(std::move(answer))) {
      const FileLayout layout = FileLayout::of_problem(answer_field(*file.room, name), array.shape, file.batch);
      if (std::ranges::find(array.shape, 0) == array.shape.end())
        shapes.emplace_back(name, file.parts->whole_shape(layout));
    }
  };
  if (std::optional<Answer> known = file.room->shapes(file.problem))
    add(*std::move(known));
  else
    add(file.room->values(file.problem, Tier::fp64));
  return shapes;
}

/// The call of the plugin: of the answer's tensors those wanted.
PluginCall plugin_call(const CaseTrial& trial, std::map<std::string, StoredTensor> inputs,
                       const std::function<bool(const std::string&)>& wanted) {
  const ProblemFile& file = trial.file();
  PluginCall call{.mechanism = file.problem.mechanism, .params = file.problem.params, .inputs = std::move(inputs)};
  if (trial.kernel().form != nullptr && !trial.kernel().form->has_gradients)
    std::erase_if(call.inputs, [](const auto& x) { return x.first.starts_with("d_"); });
  if (trial.kernel().precision == Format::fp64) call.dtype = "F64";
  for (auto& [name, shape] : shapes_of_answer(trial))
    if (wanted(name)) call.outputs.emplace_back(name, std::move(shape));
  return call;
}

/// The kernel's answer to other tensors than those of the case, of fewer sequences.
Safetensors answer_to(UserKernel& kernel, const CheckOptions& options, const PluginCall& call,
                      const Safetensors& problem, int sequences) {
  const std::chrono::duration<double> limit(options.timeout);
  if (options.plugin.empty()) return kernel.answer(problem, limit);
  PluginCall other = call;
  for (auto& [name, tensor] : other.inputs) tensor = problem.tensors.at(name);
  for (auto& [name, shape] : other.outputs)
    if (!shape.empty()) shape.front() = sequences;
  return kernel.answer(other, limit);
}

/// Fails rows whose tensors do not keep their bits, unless they fail already.
void require_same_bits(Checked& checked, const std::map<std::string, std::string>& changed) {
  for (ReportRow& row : checked.rows) {
    const auto found = changed.find(row.tensor);
    if (found == changed.end() || row.judgement.verdict == Verdict::fail) continue;
    row.judgement.verdict = Verdict::fail, row.judgement.reason = found->second;
  }
}

void require_one_source(const CheckOptions& options) {
  const int sources = static_cast<int>(!options.answer.empty()) + static_cast<int>(!options.kernel.empty()) +
                      static_cast<int>(!options.plugin.empty());
  require(sources == 1, "expected one of OUT, --kernel, --kernel-loop and --plugin");
  require_command(options);
  require(!options.same_bits || options.answer.empty(), "--same-bits: expected --kernel or --plugin, to run it again");
}

Page page_of(const CheckOptions& options, const CaseTrial& trial) {
  Page page;
  page.verb = "check", page.verdict_last = true, page.long_rows = options.rows, page.shows_legend = options.legend;
  // At most one is not empty.
  const std::string subject = options.answer + options.kernel + options.plugin;
  const std::string kind = !options.kernel.empty()   ? options.flag().substr(2)
                           : !options.plugin.empty() ? "plugin"
                                                     : "answer";
  page.header = {"assay check: " + subject + " against the oracle's answer to " + options.problem};
  page.legend = legend(trial.kernel().contract, options.standard.false_alarms);
  const std::vector<std::string> evidence =
      evidence_legend(trial.kernel().precision, trial.kernel().contract->name, trial.decides(),
                      trial.is_by_program() ? std::string(trial.kernel().form->name) : std::string());
  page.legend.insert(page.legend.end(), evidence.begin(), evidence.end());
  if (trial.tiles().size() > 1)
    page.legend.push_back(
        "tiles     each tensor is judged by the one of " +
        names_in(trial.tiles(), [&](int t) { return trial.kernel().form->tiles[static_cast<std::size_t>(t)]; }) +
        " that it fits; --tile asks for one");
  if (const auto& parts = trial.file().parts)
    tell_sample(*parts, trial.file().heads, page), page.is_drawn = parts->was_secret;
  page.facts = {{"case", options.problem},
                {kind, subject},
                {"contract", trial.kernel().contract->name},
                {"false_alarm_rate", options.standard.false_alarms}};
  page.summary = false, page.artifact = annotated_file(options);
  if (page.artifact.empty()) page.artifact = options.kernel.empty() ? subject : options.problem;
  page.command = "build/assay check " + shown_word(options.problem) + ' ' +
                 (kind == "answer" ? "" : "--" + kind + ' ') + shown_word(subject);
  if (options.timeout != CheckOptions{}.timeout) page.command += " --timeout " + round_trip(options.timeout);
  if (options.same_bits) page.command += " --same-bits";
  if (trial.file().parts)
    page.command += text(options.sample > 0 ? text(" --sample ", options.sample) : "",
                         options.sample_rows > 0 ? text(" --sample-rows ", options.sample_rows) : "", " --sample-seed ",
                         trial.file().parts->seed);
  if (options.standard.strict) page.command += " --strict";
  if (options.standard.strict_dtypes) page.command += " --strict-dtypes";
  if (options.standard.false_alarms != false_alarm_rate)
    page.command += " --false-alarms " + round_trip(options.standard.false_alarms);
  page.command += ' ' + trial.flags();
  return page;
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
    checked.remarks.push_back(names_in(tensors) + ": stored " + how + "; " + outcome);
  std::map<std::string, std::vector<std::string>> unseen;
  for (const NotJudged& one : got.not_judged)
    unseen[one.why].push_back(one.tensor), checked.page.not_judged.push_back(one.tensor);
  for (const auto& [why, tensors] : unseen)
    checked.remarks.push_back("not judged: " + names_in(tensors) + " (" + why + ")");
  const std::string& guess = checked.trial->precision_guess();
  if (!guess.empty()) checked.remarks.push_back("precision: " + guess + "; the case names none");
  if (!all_pass(checked.rows))
    if (std::string grows = growing_steps_of(checked.trial->file().problem); !grows.empty())
      checked.remarks.push_back("inputs: " + std::move(grows));
  Json stored = Json::object();
  for (const auto& [name, dtype] : got.stored) stored[name] = name_of(dtype);
  auto& facts = checked.page.facts;
  facts.emplace_back("stored", std::move(stored));
  facts.emplace_back("not_judged", checked.page.not_judged);
  if (const auto& parts = checked.trial->file().parts) facts.emplace_back("sample", facts_of(*parts));
}

/// Says so if files had to go from the cache for what was learnt.
void tell_cache(const Checked& checked, Progress& progress) {
  if (checked.cache == nullptr || checked.cache->dropped() == 0) return;
  progress.say(text("assay: the cache is full (", spoken_size(static_cast<double>(checked.cache->bound())),
                    "): ", counted(checked.cache->dropped(), "file"),
                    " used longest ago had to go; ASSAY_CACHE_MB sets its size"));
}

/// Asks the oracle.
void prepare(Checked& checked, const CheckOptions& options, Progress& progress) {
  progress.phase("truth");
  checked.trial->prepare([&](std::size_t total, std::string_view what) { progress.step(total, text("truth: ", what)); },
                         checked.cache.get());
  checked.trial->require_tensors(options.tensors);
}

/// Judges what was answered once the oracle was asked.
void judge_given(Checked& checked, const CheckOptions& options, Safetensors given, const ClockCost& expected,
                 Progress& progress) {
  const CaseTrial& trial = *checked.trial;
  checked.page = page_of(options, trial);
  checked.got = trial.read(std::move(given), options.tensors, options.source());
  MoreDraws more(expected.draws, progress);
  checked.rows = trial.judge(
      checked.got, [&](const std::string& name) { return asks_for(options.tensors, name); }, checked.page.command,
      &checked.others,
      [&](std::string_view what, std::size_t done, std::size_t total) {
        more.hear(what, done, total);
        progress.phase(what, done, total);
      });
  if (options.standard.detects && trial.file().has_arguments() && all_pass(checked.rows)) {
    progress.phase("what the case hides");
    const auto told = std::find_if(checked.rows.rbegin(), checked.rows.rend(),
                                   [](const auto& row) { return row.detects.has_value(); });
    ReportRow& row = told == checked.rows.rend() ? checked.rows.back() : *told;  // pages tell of the last one
    if (!row.detects) row.detects.emplace();
    std::vector<std::string>& unseen = row.detects->unseen;  // a form's own are there already
    for (std::string& what : blind_spots_of(trial, checked.rows))
      if (std::find(unseen.begin(), unseen.end(), what) == unseen.end()) unseen.push_back(std::move(what));
  }
  tell_what_was_read(checked);
  for (const std::string& name : options.tensors) checked.page.command += " --tensor " + name;
}

/// The trial of some parts of the case, or of all where none is sampled.
std::unique_ptr<CaseTrial> trial_of(const CheckOptions& options, Safetensors problem,
                                    const std::optional<SampledParts>& parts) {
  if (parts) problem = cut(problem, *parts);
  return std::make_unique<CaseTrial>(std::move(problem), options.standard, options.problem, parts);
}

/// The parts of the case, where some are to be judged; for now the last one is as good as any.
std::optional<SampledParts> parts_to_judge(const CheckOptions& options, Safetensors& problem) {
  require(options.sample > 0 || options.sample_rows > 0 || !options.sample_seed,
          "--sample-seed: expected with --sample or --sample-rows");
  if (options.sample == 0 && options.sample_rows == 0) return std::nullopt;
  problem = with_mechanism(std::move(problem), options.standard.mechanism);
  SampledParts parts = parts_of(problem, options.problem);
  parts.choose(options.sample > 0 ? options.sample : parts.all(), 0);
  if (options.sample_rows > 0) parts.choose_rows(options.sample_rows);
  parts.chosen.assign(1, {parts.sequences - 1, parts.groups - 1});
  return parts;
}

/// The answer is known: now, and no earlier, it is decided where to look.
void choose_parts(const CheckOptions& options, SampledParts& parts) {
  parts.was_secret = !options.sample_seed.has_value();
  std::random_device system;
  const std::uint64_t drawn = std::uint64_t{system()} << 32 | system();
  parts.choose(options.sample > 0 ? options.sample : parts.all(), options.sample_seed.value_or(drawn));
  if (options.sample_rows > 0) parts.choose_rows(options.sample_rows);
}

constexpr int most_of_it = 8;  // the part that is judged first is at most an eighth of the case

/// The options that judge one part of a case, and of attention some of its query rows; nothing where no part is small.
std::optional<CheckOptions> for_a_part(const CheckOptions& options, const Safetensors& problem) {
  const SampledParts parts = parts_of(with_mechanism(problem, options.standard.mechanism), options.problem);
  CheckOptions some = options;
  some.sample = 1, some.keeps = false, some.standard.detects = false, some.standard.limits_alone = true,
  some.standard.large = 0;
  if (parts.all() >= most_of_it) return some;
  some.sample_rows = parts.tokens * parts.all() / most_of_it;
  return some.sample_rows > 0 ? std::optional(some) : std::nullopt;
}

/// What was found in a part, with the flags that judge it again.
std::string sentence_of(const Checked& checked, const CheckOptions& options,
                        std::chrono::steady_clock::time_point begun) {
  std::vector<std::string> failing;
  for (const ReportRow& row : checked.rows)
    if (row.by_model && row.by_model->verdict == Verdict::fail) failing.push_back(row.tensor);
  const SampledParts& parts = *checked.trial->file().parts;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
  std::string where = name_of(parts.chosen.front(), checked.trial->file().heads), again;
  if (parts.rows > 0) where += fmt::format(", query rows {} to {}", parts.first_row, parts.first_row + parts.rows - 1);
  if (parts.rows > 0) again = fmt::format(" --sample-rows {}", options.sample_rows);
  return fmt::format(
      "assay: after {}: {} beyond the model's limits in {}, 1 of {} parts (--sample 1{} --sample-seed {} judges it "
      "alone); the rest follows",
      spoken_time(passed.count()),
      failing.empty() ? "no tensor is" : names_in(failing) + (failing.size() == 1 ? " is" : " are"), where, parts.all(),
      again, parts.seed);
}

/// Judges one part of a case first, where all of it takes options.long_check seconds, and says what it found: one head,
/// or the heads that share a key/value head; of attention some query rows of it. That is at most an eighth of the work.
/// Not where a contract decides, of which the model's limits say nothing.
void tell_first_part(const CheckOptions& options, const Safetensors& problem, const Safetensors& answer,
                     const ClockCost& expected, Console& console) {
  if (expected.all < options.long_check || options.sample > 0 || options.sample_rows > 0) return;
  const auto begun = std::chrono::steady_clock::now();
  try {
    const std::optional<CheckOptions> some = for_a_part(options, problem);
    if (!some) return;
    console.err << sentence_of(check_answer(*some, problem, answer, console), *some, begun) << '\n';
  } catch (const InputError&) {
    // A case of which no part stands alone; what is wrong with the answer is said of all of it.
  }
}

}  // namespace

void add_kernel_flags(CLI::App& app, CheckOptions& options) {
  app.add_option("--kernel", options.kernel,
                 "a command that answers a case: 'python my_kernel.py {case} {out}'; both paths are put in as words of "
                 "the shell, so leave quotes around them out");
  app.add_option_function<std::string>(
         "--kernel-loop", [&options](const std::string& command) { options.kernel = command, options.loop = true; },
         "a command that stays and answers case after case: it reads lines `CASE OUT` and says `done` or `error "
         "MESSAGE` (docs/check.md)")
      ->excludes("--kernel");
  app.add_option("--plugin", options.plugin, "a shared library that computes the answer (tools/plugin/assay_plugin.h)");
  app.add_option("--timeout", options.timeout,
                 "seconds after which a command or plugin, and all it has started, is killed")
      ->check(number_in(shortest_limit, longest_limit))
      ->capture_default_str();
  app.add_option("--annotate", options.annotate,
                 "the file that JUnit, SARIF and annotations point at; without, the first one of the command, or OUT");
}

std::string annotated_file(const CheckOptions& options) {
  if (!options.annotate.empty()) return options.annotate;
  std::istringstream words(options.kernel);
  std::error_code unknown;
  // A file elsewhere, such as an interpreter, is not the user's own.
  for (std::string word; words >> word;)
    if (!word.starts_with('/') && std::filesystem::is_regular_file(word, unknown)) return word;
  return "";
}

void require_command(const CheckOptions& options) {
  for (const char* file : {"{case}", "{out}"}) {
    const bool named = options.kernel.find(file) != std::string::npos;
    require(options.kernel.empty() || options.loop || named, "--kernel: expected {case} and {out} in the command");
    require(!options.loop || !named, "--kernel-loop: the program reads the paths from its standard input; leave ", file,
            " out of the command");
  }
}

Checked check_case(const CheckOptions& options, Console& console, std::shared_ptr<UserKernel> kernel) {
  require_one_source(options);
  const std::chrono::duration<double> limit(options.timeout);
  Safetensors problem = read_case(options.problem);
  const bool runs = options.answer.empty();
  Checked checked;
  checked.kernel = std::move(kernel);
  // Before a kernel runs: what is written from here on is not read.
  if (options.keeps) checked.cache = std::make_unique<Cache>();
  std::optional<SampledParts> parts = parts_to_judge(options, problem);
  checked.trial = trial_of(options, problem, parts);
  Safetensors given;
  if (!runs) given = answer_in(options.answer);
  const ClockCost expected = tell_cost(options.sample, *checked.trial, checked.cache.get(), console);
  // Before anything is known of the answer; a search, or other seeds, go on with it.
  if (runs && checked.kernel == nullptr)
    checked.kernel = std::make_shared<UserKernel>(options.kernel, options.plugin, options.loop);
  // The oracle is asked after a command, which may be wrong at once, unless it may refuse the case.
  const bool at_once = !options.kernel.empty() && (checked.trial->is_admitted(options.tensors) || parts);
  if (at_once) given = checked.kernel->answer(problem, limit);
  if (!runs || at_once) {
    checked.trial->admit(given, options.tensors, options.source());
    if (checked.trial->decides() == Decides::model) tell_first_part(options, problem, given, expected, console);
    if (!options.same_bits && !parts) problem = {};
  }

  Progress progress(console);
  if (!parts) prepare(checked, options, progress);
  const auto wanted = [&](const std::string& name) { return asks_for(options.tensors, name); };
  PluginCall call;
  if (!options.kernel.empty() && !at_once) given = checked.kernel->answer(problem, limit);
  if (!options.plugin.empty()) {
    call = plugin_call(*checked.trial, problem.tensors, wanted);
    given = checked.kernel->answer(call, limit);
  }
  if (parts) {
    choose_parts(options, *parts);
    checked.trial = trial_of(options, options.same_bits ? problem : std::exchange(problem, {}), parts);
    prepare(checked, options, progress);
  }
  std::map<std::string, std::string> changed;
  if (options.same_bits) {
    std::function<Safetensors()> with_zeros;
    if (!options.plugin.empty())
      with_zeros = [&] {
        PluginCall other = call;
        other.around = 0;
        return checked.kernel->answer(other, limit);
      };
    changed = changed_bits(
        problem, given,
        [&](const Safetensors& other, int sequences) {
          return answer_to(*checked.kernel, options, call, other, sequences);
        },
        with_zeros);
  }
  judge_given(checked, options, std::move(given), expected, progress);
  remember(expected, *checked.trial, checked.cache.get());
  tell_cache(checked, progress);
  require_same_bits(checked, changed);
  return checked;
}

CheckOptions CheckOptions::told(bool asks_why) const {
  CheckOptions all = *this;
  all.standard.detects = !quick, all.standard.both = asks_why, all.keeps = !no_cache;
  return all;
}

void tell_why(Checked& checked, std::optional<double> seconds) {
  const Why why = why_it_fails(*checked.trial, checked.got, checked.rows, checked.others, seconds);
  add_why(checked.page, why, seconds.has_value());
  name_roundings(checked.rows, why);
  if (!why.first) return;
  for (ReportRow& row : checked.rows) {
    if (row.tensor != why.first->tensor) continue;
    row.begins = why.first->sentence;
    for (const LooksLike& cause : why.causes.list) row.begins += '\n' + cause.sentence(why.failing);
  }
}

Checked check_answer(const CheckOptions& options, Safetensors problem, Safetensors answer, Console& console) {
  Checked checked;
  if (options.keeps) checked.cache = std::make_unique<Cache>();
  std::optional<SampledParts> parts = parts_to_judge(options, problem);
  if (parts) choose_parts(options, *parts);
  checked.trial = trial_of(options, problem, parts);
  checked.trial->admit(answer, options.tensors, options.source());
  Progress progress(console);
  prepare(checked, options, progress);
  judge_given(checked, options, std::move(answer), {}, progress);
  tell_cache(checked, progress);
  return checked;
}

}  // namespace assay
