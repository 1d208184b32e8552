// assay-lab calibrate: is sigma as large as the errors of kernels that are right?
#include <CLI/CLI.hpp>
#include <memory>
#include <tuple>

#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/lab/lab.hpp"
#include "tools/pages/calibration.hpp"
#include "tools/run/device.hpp"
#include "tools/verbs/merge.hpp"

namespace assay {
namespace calibrate_verb {
namespace {

struct Flags {
  CalibrateOptions options;
  std::vector<std::string> precisions, styles, parts;
  std::string format{name_of(TableFormat::table)}, output = "-", shard, judge = "auto";
  bool docs = false, model = false;
};

int run_model(const Flags& flags, const CalibrateOptions& options, OutputFile& file, Console& console) {
  Progress progress(console);
  const ModelCalibration c = calibrate_model(options, progress.steps());
  file.commit(flags.docs                   ? model_page(c)
              : flags.format == "markdown" ? table_of(c).markdown()
              : flags.format == "csv"      ? table_of(c).csv()
                                           : table_of(c).text());
  if (!flags.docs && !c.alarms.empty()) console.err << alarms_of(c).text();
  return flags.docs || c.passed() ? exit_passed : exit_failed;
}

void take_share(const Flags& flags, CalibrateOptions& options) {
  if (flags.shard.empty()) return;
  require(flags.format == "json", "--shard: needs --format json, of which assay-lab merge makes the whole");
  require(!flags.model && !flags.docs && options.cases == 0 && options.seconds == 0,
          "--shard: shares the kernels of contracts; --model, --docs, --cases and --seconds are of the whole");
  std::tie(options.part, options.parts) = shard_from(flags.shard);
}

int run_calibrate(const Flags& flags, Console& console) {
  judge_on(flags.judge);
  CalibrateOptions options = flags.options;
  take_share(flags, options);
  for (const std::string& name : flags.precisions) options.precisions.push_back(*format_from(name));
  for (const std::string& name : flags.styles) options.styles.push_back(*style_from(name));
  if (!options.shape.empty()) shape_from(options.shape);  // refused before any work
  OutputFile file(flags.output, console.out);
  if (flags.model) return run_model(flags, options, file, console);
  const Calibration calibration =
      flags.parts.empty() ? calibrate(options, Progress(console).steps()) : merged(flags.parts);
  file.commit(flags.docs ? calibration_page(calibration)
                         : print(calibration, *entry_named(all_table_formats, flags.format)));
  return flags.docs || calibration.passed() ? exit_passed : exit_failed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CalibrateOptions& options = flags->options;
  add_list_flag(app, "--mechanism", options.mechanisms, "only this one; may be given several times");
  add_list_flag(app, "--form", options.forms, "only kernels of this form; may be given several times");
  app.add_option("--variant", options.variants, "only this one, as the table calls it; may be given several times")
      ->allow_extra_args(false);
  add_list_flag(app, "--precision", flags->precisions, "only this one; may be given several times")
      ->check(one_of(name_list(case_precisions)));
  add_list_flag(app, "--style", flags->styles,
                "how the inputs are distributed; several if not given, see records/calibration.md")
      ->check(one_of(name_list(all_styles)));
  app.add_option("--shape", options.shape, "B,T,H,K,V");
  app.add_option("--seeds", options.seeds, "cases of every kernel, precision and style")
      ->check(whole_in(1, 1000000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the first")->check(any_seed())->capture_default_str();
  app.add_option("--cases", options.cases, "the first so many of all those; 0 is all")->capture_default_str();
  app.add_option("--seconds", options.seconds, "begin no more cases after so many, and tell of those that are done")
      ->check(number_in(shortest_effort, longest_limit));
  add_threads_flag(app, options.threads);
  add_judge_flag(app, flags->judge);
  add_shard_flag(app, flags->shard);
  const std::vector<CLI::Option*> measuring = app.get_options();
  CLI::Option* merge = app.add_option("--merge", flags->parts,
                                      "measure nothing, but take what a run of other seeds has written as JSON; given "
                                      "once for each of them")
                           ->allow_extra_args(false);
  for (CLI::Option* option : measuring) merge->excludes(option);
  add_choice_flag(app, "--format", flags->format, "table, markdown, json or csv", name_list(all_table_formats));
  CLI::Option* model = app.add_flag("--model", flags->model,
                                    "of evidence `model` in place of contracts: its errors by room and precision");
  model->excludes(merge);
  app.add_flag("--docs", flags->docs, "print the page records/calibration.md instead, or records/model.md");
  app.add_option("-o,--output", flags->output, "where the table goes; - is standard output")->capture_default_str();
  return [flags](Console& console) { return run_calibrate(*flags, console); };
}

}  // namespace
}  // namespace calibrate_verb

const Command commands::calibrate = {"calibrate", "sigma against the errors of healthy kernels of every room",
                                     calibrate_verb::add};

}  // namespace assay
