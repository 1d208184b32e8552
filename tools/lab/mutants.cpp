// assay-lab mutants: planted faults against the judge and against the rules that others use.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <tuple>

#include "judge/trial/kill_table.hpp"
#include "judge/trial/published.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/lab/kill_plot.hpp"
#include "tools/lab/lab.hpp"
#include "tools/pages/detection_page.hpp"
#include "tools/print/table.hpp"
#include "tools/run/device.hpp"
#include "tools/verbs/merge.hpp"
#include "tools/verbs/plot_file.hpp"

namespace assay {
namespace mutants_verb {
namespace {

struct Flags {
  MutantOptions options;
  std::vector<std::string> precisions;
  std::string held_out{name_of(HeldOut::too)};
  std::string format{name_of(TableFormat::table)}, output = "-", plot, shard, judge = "auto";
  std::vector<std::string> published;  ///< threads
  const CLI::Option* asks_published = nullptr;
  bool docs = false;
};

/// The errors of public threads, a row each; of those that were named, their cases and what fails, too.
int run_published(const Flags& flags, Console& console) {
  require(flags.format != "html", "--published: it has no page; --format is table, markdown, json or csv");
  std::vector<std::string> named = flags.published;
  std::erase(named, "");  // all are asked for
  OutputFile file(flags.output, console.out);
  const std::vector<PublishedTrial> trials =
      try_published(named, words::threads_or_all(flags.options.threads), Progress(console).steps());
  Table table = Table().words({"thread", "error", "planted", "mechanism", "case", "fault", "healthy", "with it"});
  std::string more;
  int planted = 0, found = 0;
  for (const PublishedTrial& trial : trials) {
    const PublishedThread& thread = *trial.thread;
    const bool is_planted = !thread.mutant.empty();
    const auto word = [&](std::string_view said) { return is_planted ? said : "-"; };
    table.add(thread.thread, thread.error, word(thread.is_its_own ? "itself" : "its kind"), word(thread.mechanism),
              word(thread.case_name), word(thread.mutant), word(name_of(trial.healthy)), word(name_of(trial.planted)));
    planted += is_planted ? 1 : 0, found += is_planted && trial.passed() ? 1 : 0;
    if (!named.empty() && is_planted)
      more += text(thread.thread, "  build/", trial.command, "\n  ", trial.reason, '\n');
  }
  std::string out = flags.format == "markdown" ? table.markdown() : flags.format == "csv" ? table.csv() : "";
  if (flags.format == "json") {
    Json rows = Json::array();
    for (const std::vector<std::string>& cells : table.rows) {
      Json& row = rows.emplace_back(Json::object());
      for (std::size_t c = 0; c < cells.size(); ++c) row[table.columns[c].name] = cells[c];
    }
    out = rows.dump(2) + '\n';
  }
  if (out.empty())
    out = table.text() + text('\n', more, planted, " planted: ", found, " found, and the healthy kernels pass\n");
  file.commit(out);
  return found == planted ? exit_passed : exit_failed;
}

int run_mutants(const Flags& flags, Console& console) {
  judge_on(flags.judge);
  if (flags.asks_published != nullptr && flags.asks_published->count() > 0) return run_published(flags, console);
  MutantOptions options = flags.options;
  require(!options.healthy_only || (options.healthy > 0 && options.power.empty() && !options.shrinks && !flags.docs),
          "--healthy-only: it needs --healthy, and leaves out what --power, --shrink and --docs are about");
  require(!options.arguments || (options.healthy == 0 && options.power.empty() && !options.shrinks && !flags.docs),
          "--arguments: it goes with none of --healthy, --power, --shrink and --docs");
  require(options.seconds == 0 || options.healthy > 0, "--seconds: it limits the runs of --healthy");
  if (!flags.shard.empty()) {
    require(flags.format == "json", "--shard: needs --format json, of which assay-lab merge makes the whole");
    require(options.healthy == 0 && options.power.empty() && !options.shrinks && !flags.docs,
            "--shard: shares the kernels of the kill table; --healthy, --power, --shrink and --docs are of the whole");
    std::tie(options.part, options.parts) = shard_from(flags.shard);
  }
  for (const std::string& name : flags.precisions) options.precisions.push_back(*format_from(name));
  options.held_out = *entry_named(all_held_out, flags.held_out);
  OutputFile file(flags.output, console.out);
  PlotFile plot(flags.plot, console);
  Detection detection;
  if (!options.power.empty()) detection.power = measure_power(options, Progress(console).steps());
  const auto all = [] { return true; };
  if (options.shrinks) detection.smallest = measure_shrinking(options, all, Progress(console).steps());
  if (!options.healthy_only) detection.kills = make_kill_table(options, Progress(console).steps());
  detection.kills.options = options;
  if (options.healthy > 0) detection.healthy = run_healthy(options, Progress(console).steps());
  if (detection.healthy) detection.kills.options.healthy = detection.healthy->drawn;
  file.commit(flags.docs               ? detection_page(detection)
              : flags.format == "html" ? html_of(detection)
                                       : print(detection, *entry_named(all_table_formats, flags.format)));
  plot.commit({kill_plot(detection.kills)});
  return flags.docs || detection.passed() ? exit_passed : exit_failed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  MutantOptions& options = flags->options;
  add_list_flag(app, "--mechanism", options.mechanisms, "only this one; may be given several times");
  add_list_flag(app, "--precision", flags->precisions,
                "of the cases, fp32 and bf16 if not given (and e4m3 where operands have units); exact ones are in fp64")
      ->check(one_of(name_list(case_precisions)));
  app.add_option("--trials", options.trials, "cases of a kernel at most; 0 is all")
      ->check(whole_in(0, 1000000))
      ->capture_default_str();
  app.add_option("--healthy", options.healthy, "run so many healthy kernels on fresh cases, and count the alarms")
      ->check(whole_in(0, 100000000))
      ->capture_default_str();
  app.add_flag("--healthy-only", options.healthy_only, "run those alone, judged by no other rule: no mutants");
  app.add_option("--seconds", options.seconds,
                 "begin no more healthy runs after so many, and tell of those that are done")
      ->check(number_in(shortest_effort, longest_limit));
  app.add_flag("--shrink", options.shrinks, "look for the smallest case on which each mutant fails, as well");
  app.add_option("--power", options.power, "find this mutant in bf16, over seeds and lengths, as well");
  app.add_option("--power-tokens", options.power_tokens, "the longest sequences that it is looked for in")
      ->check(whole_in(64, 4096))
      ->capture_default_str();
  add_choice_flag(app, "--held-out", flags->held_out,
                  "the mutants that the judge was not written against: too, only or no", name_list(all_held_out));
  app.add_flag("--arguments", options.arguments, "of tile programs with arguments (docs/arguments.md) instead");
  flags->asks_published =
      app.add_option("--published", flags->published,
                     "plant the errors of public threads (docs/published-bugs.md) and judge them: these, or all")
          ->expected(0, CLI::detail::expected_max_vector_size);
  app.add_option("--seed", options.seed, "of the cases")->check(any_seed())->capture_default_str();
  add_threads_flag(app, options.threads);
  add_judge_flag(app, flags->judge);
  add_drawn_format_flag(app, flags->format);
  app.add_flag("--docs", flags->docs, "print the page records/detection.md instead");
  app.add_option("-o,--output", flags->output, "where the tables go; - is standard output")->capture_default_str();
  add_plot_flag(app, flags->plot);
  add_shard_flag(app, flags->shard);
  return [flags](Console& console) { return run_mutants(*flags, console); };
}

}  // namespace
}  // namespace mutants_verb

const Command commands::mutants = {"mutants", "kill table: planted faults against the judge and the rules others use",
                                   mutants_verb::add};

}  // namespace assay
