// assay check CASE OUT: judges the answer of a user's kernel to a case, or runs the kernel first.
#include <CLI/CLI.hpp>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/plots/error_plots.hpp"
#include "tools/print/colours.hpp"
#include "tools/print/escape.hpp"
#include "tools/print/rows_page.hpp"
#include "tools/print/why.hpp"
#include "tools/run/checked.hpp"
#include "tools/run/device.hpp"
#include "tools/verbs/plot_file.hpp"
#include "tools/verbs/shrink.hpp"

namespace assay {
namespace check_verb {
namespace {

int run_check(const CheckOptions& options, Console& console) {
  judge_on(options.judge);
  std::vector<std::string> inputs = {options.problem, options.answer, options.plugin, options.standard.contract};
  OutputFile output(options.output, console.out, inputs);
  PlotFile plot(options.plot, console);
  std::optional<OutputFile> smallest;
  require(options.shrink_output.empty() || options.shrinks, "--shrink-output: expected with --shrink");
  require(!options.shrinks || (options.sample == 0 && options.sample_rows == 0),
          "--shrink: looks for a smaller case that fails as a whole; leave out --sample");
  if (options.output != "-") inputs.push_back(options.output);
  if (!options.shrink_output.empty()) smallest.emplace(options.shrink_output, console.out, inputs);
  std::optional<SeededCase> seeded;
  if (options.shrinks) seeded = case_to_shrink(options);
  CheckOptions told = options.told(options.why);
  told.standard.detects_of_wrong = options.rows || options.format != "table";  // where it is printed
  Checked checked = check_case(told, console);
  {
    Progress progress(console);
    progress.phase("causes");
    tell_why(checked, options.why ? std::optional(options.why_limit) : std::nullopt);
  }
  if (options.mutants) add_formula(checked.page, try_formula_errors(*checked.trial, checked.rows));
  if (seeded) shrink_check(options, *seeded, checked, smallest ? &*smallest : nullptr, console);
  const RowsFormat format = *rows_format_from(options.format);
  std::vector<std::string>& lines = prints_notes(format) ? checked.page.header : checked.page.notes;
  if (format != RowsFormat::json) lines.insert(lines.end(), checked.remarks.begin(), checked.remarks.end());
  checked.page.colours = shows_colours(console, options.output);
  checked.page.terminal = console.shows_output && options.output == "-";
  output.commit(print(checked.page, checked.rows, format));
  plot.commit(plots_of(checked.rows));
  if (!prints_notes(format) && format != RowsFormat::json)
    for (const std::string& line : checked.page.findings) console.err << plain_text(line) << '\n';
  if (!prints_notes(format))
    for (const std::string& line : checked.page.notes) console.err << plain_text(line) << '\n';
  return all_pass(checked.rows) ? exit_passed : exit_failed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto options = std::make_shared<CheckOptions>();
  app.add_option("case", options->problem, "the problem, as `assay case` writes it")->required();
  app.add_option("out", options->answer, "a safetensors file with the answer: o, final_state, d_q, ...");
  add_kernel_flags(app, *options);
  add_mechanism_flag(app, options->standard.mechanism);
  app.add_flag("--rows", options->rows,
               "print more columns, and for every tensor that fails its place and its command");
  app.add_flag("--quick", options->quick, "leave out the lines `detects` and `cannot see`");
  app.add_flag("--legend", options->legend, "print the meaning of the columns");
  app.add_option("--form", options->standard.form,
                 "the kernel form that sets the allowed roundings: `assay list` names them; for a program FORM.json or "
                 "FORM.py, its algorithm with `round` marks; without, the first form that takes the problem");
  app.add_option("--precision", options->standard.precision, "the contract's precision; without, the case's")
      ->check(one_of(name_list(case_precisions)));
  add_contract_flag(app, options->standard.contract, "the contract that decides");
  app.add_option(
      "--tile", options->standard.tile,
      "the tile shape that sets the spread (64x64, 16, ...); without, each tensor may fit any of the form's");
  add_list_flag(app, "--tensor", options->tensors,
                "judge only this one, may be given several times; others may be missing");
  app.add_option(
         "--sample", options->sample,
         "judge this many parts of the case; a part is the heads of one sequence that share a key/value head; the "
         "last part is judged, and others are chosen after the answer is read")
      ->check(whole_in(1, std::numeric_limits<int>::max()));
  app.add_option("--sample-rows", options->sample_rows,
                 "judge this many query rows of each part of attention, in a block chosen after the answer is read")
      ->check(whole_in(1, std::numeric_limits<int>::max()));
  app.add_option("--sample-seed", options->sample_seed,
                 "judge the parts of an earlier report again: the seed of its --sample or --sample-rows")
      ->check(any_seed());
  app.add_flag("--strict", options->standard.strict, "fail a tensor that shows nothing: UNSEEN becomes VACUOUS");
  app.add_flag("--strict-dtypes", options->standard.strict_dtypes,
               "fail a tensor stored in fewer bits than the contract's; without, one rounding to its dtype is allowed");
  app.add_flag("--same-bits", options->same_bits,
               "demand the same bits when --kernel or --plugin runs again, and when a sequence of the batch is alone; "
               "--plugin also with other memory around the inputs");
  app.add_flag(
      "--why", options->why,
      "look further for the cause of a failure: named contracts, sites that round more coarsely, known faults");
  app.add_option("--why-limit", options->why_limit, "seconds that --why may take")
      ->check(number_in(shortest_effort, longest_limit))
      ->capture_default_str();
  app.add_flag("--mutants", options->mutants,
               "list the errors in the mechanism's formula that this case would have failed");
  app.add_flag("--shrink", options->shrinks, "look for a smaller case that fails, if `assay case` made this one");
  app.add_option("--shrink-runs", options->shrink_runs, "runs of the kernel that --shrink may take")
      ->check(whole_in(1, 1000000))
      ->capture_default_str();
  app.add_option("--shrink-output", options->shrink_output, "the smaller case's file");
  add_false_alarms_flag(app, options->standard.false_alarms);
  app.add_flag("--no-cache", options->no_cache,
               text("compute truth and sigma again; without, they are kept for the next check of the case, in "
                    "$XDG_CACHE_HOME/assay or ~/.cache/assay, up to ",
                    cache_bound >> 20, " MiB"));
  add_threads_flag(app, options->standard.threads);
  add_judge_flag(app, options->judge);
  add_choice_flag(app, "--format", options->format, std::string(rows_formats_help), name_list(all_rows_formats));
  app.add_option("-o,--output", options->output, "where the verdicts go; - is standard output")->capture_default_str();
  add_plot_flag(app, options->plot);
  return [options](Console& console) { return run_check(*options, console); };
}

}  // namespace
}  // namespace check_verb

const Command commands::check = {"check", "judge a kernel's output on a case", check_verb::add};

}  // namespace assay
