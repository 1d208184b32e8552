// assay drift: the error of a recurrence along a sequence, how it grows, from which token on it is too large, and which
// rounding it comes from.
#include "judge/drift/drift.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "files/in_words.hpp"
#include "files/shown.hpp"
#include "judge/contract/site_meanings.hpp"
#include "judge/programs/program_form.hpp"
#include "judge/sigma/expected.hpp"
#include "oracles/core/room.hpp"
#include "oracles/multiword/parallel.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/plots/drift_plots.hpp"
#include "tools/print/escape.hpp"
#include "tools/print/html_page.hpp"
#include "tools/print/table.hpp"
#include "tools/run/device.hpp"
#include "tools/verbs/command.hpp"
#include "tools/verbs/plot_file.hpp"

namespace assay {
namespace drift_verb {
namespace {

struct DriftFlags {
  std::string mechanism, form, precision{name_of(Format::bf16)}, tile;
  std::vector<std::string> sites;
  CaseFlags inputs;
  long tokens = 1'000'000, predict_from = 16384;
  int segment = 256, heads = 1, dim = 16, sequences = 8, threads = 0;
  std::optional<int> draws;
  double budget = 0;
  bool without_sites = false;
  std::string format{name_of(TableFormat::table)}, output = "-", plot, judge = "auto";
};

std::vector<std::string> precision_names() {
  std::vector<std::string> names = name_list(case_precisions);
  names.emplace_back(name_of(Format::exact));
  return names;
}

void choose_form(const DriftFlags& flags, DriftSpec& spec) {
  if (spec.room->is_program()) {
    require(flags.form.empty() || is_program_form(flags.form), "--form: ", flags.mechanism,
            " is a program, and has no kernel of ours: FORM.json is its algorithm; without, it is run token by token");
    spec.of_program = flags.form.empty() ? own_form(flags.mechanism) : program_form(flags.form, flags.mechanism);
    spec.form = spec.of_program.get();
    return;
  }
  const KernelRoom* kernels = find_kernels(kernel_rooms(), flags.mechanism);
  require(kernels != nullptr, "--mechanism: ", flags.mechanism, " has no kernel");
  const auto it =
      flags.form.empty() ? kernels->forms.begin() : std::ranges::find(kernels->forms, flags.form, &KernelForm::name);
  require(it != kernels->forms.end(), "--form: ", flags.mechanism, " has no ", flags.form, "; it has ",
          names_in(kernels->forms, [](const KernelForm& form) { return form.name; }));
  spec.form = &*it;
}

std::pair<std::string, Format> site_from(const std::string& flag) {
  const std::size_t equals = flag.find('=');
  require(equals != std::string::npos && equals > 0, "--site: expected SITE=FORMAT, got '", flag, "'");
  const std::optional<Format> format = format_from(flag.substr(equals + 1));
  require(format.has_value(), "--site: there is no format ", flag.substr(equals + 1), "; there are ",
          names_in(all_formats, [](Format f) { return name_of(f); }));
  return {flag.substr(0, equals), *format};
}

DriftSpec spec_of(const DriftFlags& flags) {
  DriftSpec spec;
  spec.room = room_named(flags.mechanism, "--mechanism");
  const Params params = params_of(flags.inputs);
  const std::string obstacle = stream_obstacle(*spec.room, params);
  require(obstacle.empty(), "--mechanism: ", obstacle);
  choose_form(flags, spec);
  spec.output = output_of(*spec.room);
  spec.precision = *format_from(flags.precision);
  if (!flags.tile.empty()) {
    const auto& tiles = spec.form->tiles;
    const auto it = std::find(tiles.begin(), tiles.end(), flags.tile);
    require(it != tiles.end(), "--tile: there is no ", flags.tile, "; there are ", names_in(tiles));
    spec.tile = static_cast<int>(it - tiles.begin());
  }
  spec.inputs = {.mechanism = flags.mechanism,
                 .shape = {.heads = flags.heads, .key_dim = flags.dim, .value_dim = flags.dim},
                 .precision = spec.precision,
                 .style = *style_from(flags.inputs.style),
                 .seed = flags.inputs.seed,
                 .params = params};
  refuse_params(*spec.room, params, spec.inputs.shape);
  for (const std::string& flag : flags.sites) {
    spec.sites.push_back(site_from(flag));
    const std::string& site = spec.sites.back().first;
    require(spec.form->sites.find(site) >= 0, "--site: ", flags.mechanism, ' ', spec.form->name, " has no site ", site);
  }
  spec.draws = flags.draws.value_or(default_draws);
  require(spec.draws == 0 || spec.draws >= 3, "--draws: a spread takes three or more, or 0 for no budget");
  spec.tokens = flags.tokens, spec.segment = flags.segment, spec.prefix = flags.predict_from;
  spec.sequences = flags.sequences, spec.budget = flags.budget, spec.by_site = !flags.without_sites;
  spec.threads = words::threads_or_all(flags.threads);
  return spec;
}

std::string command_of(const DriftFlags& flags) {
  const DriftFlags usual;
  std::string command = text("build/assay drift --mechanism ", flags.mechanism);
  if (!flags.form.empty()) command += " --form " + flags.form;
  if (!flags.tile.empty()) command += " --tile " + flags.tile;
  command += " --precision " + flags.precision;
  for (const std::string& site : flags.sites) command += " --site " + site;
  command += text(" --tokens ", flags.tokens);
  if (flags.segment != usual.segment) command += text(" --segment ", flags.segment);
  if (flags.heads != usual.heads) command += text(" --heads ", flags.heads);
  if (flags.dim != usual.dim) command += text(" --dim ", flags.dim);
  command += text(" --style ", flags.inputs.style, " --seed ", flags.inputs.seed, flags_of(params_of(flags.inputs)));
  if (flags.predict_from != usual.predict_from) command += text(" --predict-from ", flags.predict_from);
  if (flags.sequences != usual.sequences) command += text(" --sequences ", flags.sequences);
  if (flags.budget > 0) command += text(" --budget ", round_trip(flags.budget));
  if (flags.draws) command += text(" --draws ", *flags.draws);
  if (flags.without_sites) command += " --no-sites";
  return command;
}

std::string number(double x) { return fmt::format("{:.3g}", x); }

/// "sqrt(t): sqrt(floor^2 + rise^2 t), floor 1.2e-3, rise 3.4e-6"
std::string words_of(const Growth& g) {
  std::string words = text(name_of(g.law), ": ", formula_of(g.law), ", floor ", number(g.floor));
  if (g.law != Law::bounded) words += ", rise " + number(g.rise);
  if (has_time(g.law)) words += ", time " + number(g.time) + " tokens";
  return words;
}

/// "0.93 (saturating 0.05, t 0.02)"
std::string confidence_of(const GrowthFit& fit) {
  std::string others;
  for (const Growth& g : fit.laws)
    if (&g != &fit.best() && g.probability >= 0.005)
      others += text(others.empty() ? "" : ", ", name_of(g.law), ' ', fmt::format("{:.2f}", g.probability));
  return fmt::format("{:.2f}{}", fit.best().probability, others.empty() ? "" : " (" + others + ")");
}

std::string verdict_of(const Drift& drift) {
  return std::string(drift.passed() ? "PASS" : drift.decided() && drift.failed() ? "FAIL" : "UNDECIDED");
}

std::string excess_of(const Drift& drift) {
  const DriftSpec& spec = drift.spec;
  if (drift.overflows_at) return text("numbers overflow in the segment of token ", *drift.overflows_at);
  if (spec.budget == 0 && spec.draws == 0) return "no budget was asked for";
  std::string words = "no token, no segment";
  if (spec.budget == 0) words += text("; the worst error is ", number(drift.worst_sigmas), " sigma");
  if (drift.first_past) {
    words = text("token ", drift.first_past->token);
    if (spec.budget == 0)
      words += text(", ", drift.first_past->place, " there, by ", number(drift.first_past->sigmas), " sigma");
  }
  if (drift.first_past_in_segment)
    words += text(drift.first_past ? "; " : "no token; ", "the segment from ", drift.first_past_in_segment->token,
                  " on as a whole, by ", number(drift.first_past_in_segment->sigmas), " sigma");
  return words;
}

std::vector<std::string> header_of(const Drift& drift) {
  const DriftSpec& spec = drift.spec;
  std::string sites;
  for (const auto& [site, format] : spec.sites) sites += text(", ", site, " in ", name_of(format));
  std::vector<std::string> lines = {
      fmt::format("assay drift: {} {}, tile {}, {}{}", spec.room->name, spec.form->name,
                  spec.form->tiles[static_cast<std::size_t>(spec.tile)], name_of(spec.precision), sites),
      fmt::format("inputs     style {}, seed {}, {}, K = V = {}; {} tokens in segments of {}, each a seeded case",
                  name_of(spec.inputs.style), spec.inputs.seed, counted(spec.inputs.shape.heads, "head"),
                  spec.inputs.shape.key_dim, drift.tokens, spec.segment),
      fmt::format(
          "reference  sequential, in sums of two doubles, states too; off by {} at most over {} tokens, proven;\n"
          "           by about {} in any segment, estimated from the same in double",
          number(drift.proven_off), drift.proven_tokens, number(drift.reference_off))};
  if (spec.budget > 0)
    lines.push_back(fmt::format("budget     {} of the segment's outputs, given", round_trip(spec.budget)));
  else if (spec.draws > 0)
    lines.push_back(fmt::format("budget     {:g} sigma of {} runs of the {} contract with randomised rounding",
                                element_sigmas, spec.draws,
                                name_of(spec.precision == Format::exact ? Format::fp64 : spec.precision)));
  lines.emplace_back("errors     root mean square of a window, relative to the exact values'");
  return lines;
}

Table errors_of(const Drift& drift, bool exact_numbers) {
  const auto print = [&](double x) { return exact_numbers ? round_trip(x) : fmt::format("{:.2e}", x); };
  Table table = Table().words({"tensor"}).numbers({"first", "last", "tokens", "error", "law"});
  for (const DriftSeries& series : drift.series)
    for (const DriftWindow& w : series.windows.all())
      table.add(series.tensor, w.first, std::min(w.last, drift.tokens) - 1,
                exact_numbers ? round_trip(w.position()) : fmt::format("{:.0f}", w.position()), print(w.error()),
                series.fit ? print(series.fit->best().at(w.position())) : "");
  return table;
}

/// "memory ...", or "" where nothing was to be predicted.
std::string memory_of(const Drift& drift) {
  if (!drift.memory) return "";
  if (std::isinf(*drift.memory)) return "memory     the exact recurrence forgets nothing\n";
  return fmt::format("memory     the exact recurrence {} of a perturbation's square in {} tokens\n",
                     *drift.memory > 0 ? "forgets all but 1/e" : "makes e times", number(std::fabs(*drift.memory)));
}

Table laws_of(const Drift& drift) {
  Table table = Table()
                    .words({"tensor", "law", "confidence", "from the prefix"})
                    .numbers({"predicted"})
                    .words({"between"})
                    .numbers({"observed", "predicted / observed"});
  for (const DriftSeries& s : drift.series) {
    std::vector<std::string> row = {s.tensor, s.fit ? words_of(s.fit->best()) : "too few errors to tell",
                                    s.fit ? confidence_of(*s.fit) : ""};
    if (s.has_prediction()) {
      row.insert(row.end(),
                 {std::string(name_of(s.early->best().law)) + " " + confidence_of(*s.early),
                  fmt::format("{:.2e}", s.predicted()),
                  fmt::format("{:.2e} {:.2e}{}", s.low(), s.high(), s.determined() ? "" : ": not determined"),
                  fmt::format("{:.2e}", s.ended), fmt::format("{:.2f}", s.predicted() / s.ended)});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table sites_of(const Drift& drift) {
  Table table = Table()
                    .words({"site", "format"})
                    .numbers({"error alone", "share"})
                    .words({"law"})
                    .numbers({"confidence"})
                    .words({"holds"});
  for (const DriftSite& site : drift.sites) {
    const SiteMeaning* meaning = find_meaning(drift.spec.room->name, drift.spec.form->name, site.site);
    table.add(site.site, name_of(site.format), fmt::format("{:.2e}", site.error),
              fmt::format("{:.1f}%", 100 * site.share), site.fit ? name_of(site.fit->best().law) : "",
              site.fit ? fmt::format("{:.2f}", site.fit->best().probability) : "",
              meaning == nullptr ? "" : meaning->words);
  }
  return table;
}

/// The share of the whole that the squares of the sites alone explain.
std::string balance_of(const Drift& drift) {
  double squares = 0;
  for (const DriftSite& site : drift.sites) squares += site.error * site.error;
  return fmt::format("all sites: {:.2e}; root of the sum of their squares: {:.2e}, {:.2f} of it; no site: {:.2e}",
                     drift.prefix_error, std::sqrt(squares), std::sqrt(squares) / drift.prefix_error,
                     drift.unrounded_error);
}

Json json_of(const std::optional<GrowthFit>& fit) {
  if (!fit) return nullptr;
  Json laws = Json::array();
  for (const Growth& g : fit->laws)
    laws.push_back({{"law", name_of(g.law)},
                    {"formula", formula_of(g.law)},
                    {"floor", g.floor},
                    {"rise", g.rise},
                    {"time", g.time},
                    {"scatter", g.scatter},
                    {"probability", g.probability}});
  return {{"laws", std::move(laws)}};
}

Json json_of(const std::optional<DriftExcess>& excess) {
  if (!excess) return nullptr;
  return {{"token", excess->token}, {"place", excess->place}, {"sigmas", excess->sigmas}};
}

std::string as_json(const Drift& drift, const std::string& command) {
  const DriftSpec& spec = drift.spec;
  Json series = Json::array(), sites = Json::array(), formats = Json::object();
  for (const auto& [site, format] : spec.sites) formats[site] = name_of(format);
  for (const DriftSeries& s : drift.series) {
    Json windows = Json::array(), prediction;
    for (const DriftWindow& w : s.windows.all())
      windows.push_back({{"first", w.first},
                         {"last", std::min(w.last, drift.tokens) - 1},
                         {"tokens", w.position()},
                         {"error", w.error()}});
    if (s.has_prediction())
      prediction = {{"from_tokens", spec.prefix},
                    {"fit", json_of(s.early)},
                    {"at_tokens", s.ended_at},
                    {"predicted", s.predicted()},
                    {"spread", s.spread},
                    {"low", s.low()},
                    {"high", s.high()},
                    {"determined", s.determined()},
                    {"observed", s.ended},
                    {"ratio", s.predicted() / s.ended},
                    {"within_factor_2", s.predicted_well()}};
    series.push_back({{"tensor", s.tensor},
                      {"windows", std::move(windows)},
                      {"fit", json_of(s.fit)},
                      {"prediction", std::move(prediction)}});
  }
  for (const DriftSite& site : drift.sites)
    sites.push_back({{"site", site.site},
                     {"format", name_of(site.format)},
                     {"error", site.error},
                     {"share", site.share},
                     {"fit", json_of(site.fit)}});
  Json overflow, memory;
  if (drift.memory && std::isfinite(*drift.memory)) memory = *drift.memory;
  if (drift.overflows_at) overflow = *drift.overflows_at;
  return Json{{"format", "assay-drift"},
              {"version", 1},
              {"mechanism", spec.room->name},
              {"form", spec.form->name},
              {"tile", spec.form->tiles[static_cast<std::size_t>(spec.tile)]},
              {"precision", name_of(spec.precision)},
              {"site_formats", std::move(formats)},
              {"style", name_of(spec.inputs.style)},
              {"seed", spec.inputs.seed},
              {"tokens", drift.tokens},
              {"segment", spec.segment},
              {"reference",
               {{"proven_off", drift.proven_off},
                {"proven_tokens", drift.proven_tokens},
                {"estimated_off", drift.reference_off}}},
              {"memory", std::move(memory)},
              {"sequences", drift.sequences},
              {"series", std::move(series)},
              {"first_past_budget", json_of(drift.first_past)},
              {"first_segment_past_budget", json_of(drift.first_past_in_segment)},
              {"worst_sigmas", drift.worst_sigmas},
              {"overflows_at", std::move(overflow)},
              {"prefix_error", drift.prefix_error},
              {"unrounded_error", drift.unrounded_error},
              {"sites", std::move(sites)},
              {"verdict", verdict_of(drift)},
              {"command", command}}
             .dump(2, ' ', true) +
         '\n';
}

std::string indented(const std::string& lines) { return "  " + lines + '\n'; }

std::string as_text(const Drift& drift, const std::string& command) {
  std::string page;
  for (const std::string& line : header_of(drift)) page += line + '\n';
  page += '\n' + errors_of(drift, false).text() + '\n' + memory_of(drift);
  for (const DriftSeries& s : drift.series) {
    page += s.tensor + '\n';
    if (!s.fit) {
      page += indented("growth     too few errors to tell");
      continue;
    }
    page += indented("growth     " + words_of(s.fit->best()));
    page += indented("confidence " + confidence_of(*s.fit));
    if (!s.has_prediction()) continue;
    page += indented(fmt::format("prediction from {} tokens of {}: {}, {}", drift.spec.prefix,
                                 counted(drift.sequences, "sequence"), name_of(s.early->best().law),
                                 confidence_of(*s.early)));
    page += indented(fmt::format("           {:.2e} at token {:.0f}, {:.2e} to {:.2e} not ruled out{}", s.predicted(),
                                 s.ended_at, s.low(), s.high(), s.determined() ? "" : ": NOT DETERMINED"));
    page += indented(fmt::format("           observed {:.2e}: ratio {:.2f}, {} a factor of 2", s.ended,
                                 s.predicted() / s.ended, s.predicted_well() ? "within" : "NOT within"));
  }
  page += "\npast the budget: " + excess_of(drift) + '\n';
  if (!drift.sites.empty())
    page += fmt::format("\nevery site alone, over {} tokens; shares of the sum of squares\n",
                        std::min(drift.spec.prefix, drift.spec.tokens)) +
            sites_of(drift).text(2) + indented(balance_of(drift));
  return page + "\nverdict   " + verdict_of(drift) + "\nreproduce: " + plain_text(typed_here(command)) + '\n';
}

std::string as_markdown(const Drift& drift, const std::string& command) {
  std::string page;
  for (const std::string& line : header_of(drift)) page += "    " + line + '\n';
  page += '\n' + errors_of(drift, false).markdown() + '\n' + laws_of(drift).markdown();
  page += "\nPast the budget: " + excess_of(drift) + ".\n";
  if (!drift.sites.empty()) page += '\n' + sites_of(drift).markdown() + '\n' + balance_of(drift) + ".\n";
  return page + "\nVerdict " + verdict_of(drift) + ": " + markdown_code(typed_here(command)) + '\n';
}

std::string print(const Drift& drift, TableFormat format, const std::string& command) {
  if (format == TableFormat::json) return as_json(drift, command);
  if (format == TableFormat::csv) return errors_of(drift, true).csv();
  return format == TableFormat::markdown ? as_markdown(drift, command) : as_text(drift, command);
}

std::string as_page(const Drift& drift, const std::string& command) {
  std::vector<std::string> header = header_of(drift);
  const std::string title = header.front();
  header.erase(header.begin());
  header.push_back("past the budget: " + excess_of(drift)), header.push_back("verdict   " + verdict_of(drift));
  std::vector<std::string> notes = {"reproduce: " + typed_here(command)};
  if (!drift.sites.empty()) notes.insert(notes.begin(), balance_of(drift));
  return as_html(title, header, drift_plots(drift),
                 {{"Laws", laws_of(drift)}, {"Every site alone", sites_of(drift)}, {"Errors", errors_of(drift, false)}},
                 notes);
}

int run_drift(const DriftFlags& flags, Console& console) {
  judge_on(flags.judge);
  const DriftSpec spec = spec_of(flags);
  OutputFile file(flags.output, console.out);
  PlotFile plot(flags.plot, console);
  const Drift drift = measure_drift(spec, Progress(console).steps());
  const std::string command = command_of(flags);
  file.commit(flags.format == "html" ? as_page(drift, command)
                                     : print(drift, *entry_named(all_table_formats, flags.format), command));
  plot.commit(drift_plots(drift));
  return drift.passed() ? exit_passed : exit_failed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto flags = std::make_shared<DriftFlags>();
  app.add_option("mechanism,--mechanism", flags->mechanism, "a recurrence; `assay list` names all mechanisms")
      ->required();
  app.add_option("--form", flags->form, "the kernel's form; without, the first");
  app.add_option("--tile", flags->tile, "the form's tile shape; without, the first");
  add_choice_flag(app, "--precision", flags->precision, "the precision of the kernel's contract; exact rounds nothing",
                  precision_names());
  app.add_option("--site", flags->sites,
                 "a site's format in place of the contract's, SITE=FORMAT; may be given several times")
      ->allow_extra_args(false);
  app.add_option("--tokens", flags->tokens, "the sequence's length, T")
      ->check(whole_in(1L, 1L << 40))
      ->capture_default_str();
  app.add_option("--segment", flags->segment, "tokens in memory at a time; states are stored between segments")
      ->check(whole_in(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--heads", flags->heads, "the number of heads, H")->check(whole_in(1, 1024))->capture_default_str();
  app.add_option("--dim", flags->dim, "dimensions of keys and values, K = V")
      ->check(whole_in(1, 512))
      ->capture_default_str();
  add_case_flags(app, flags->inputs);
  app.add_option("--predict-from", flags->predict_from,
                 "tokens of a sequence that the error at the end is predicted from")
      ->check(whole_in(64L, 1L << 40))
      ->capture_default_str();
  app.add_option("--sequences", flags->sequences,
                 "the sequences that these tokens are taken from: this one and others of its style")
      ->check(whole_in(1, 1024))
      ->capture_default_str();
  app.add_option("--budget", flags->budget, "error of a token, relative to its segment's outputs; derived if not given")
      ->check(number_in(1e-300, 1e300));
  app.add_option("--draws", flags->draws,
                 "runs of a correct kernel that the budget is derived from, 12 if not given (fp64: 8); 0: no budget")
      ->check(whole_in(0, 64));
  app.add_flag("--no-sites", flags->without_sites, "leave out the error of every site alone");
  add_threads_flag(app, flags->threads);
  add_judge_flag(app, flags->judge);
  add_drawn_format_flag(app, flags->format);
  app.add_option("-o,--output", flags->output, "where the result goes; - is standard output")->capture_default_str();
  add_plot_flag(app, flags->plot);
  return [flags](Console& console) { return run_drift(*flags, console); };
}

}  // namespace
}  // namespace drift_verb

const Command commands::drift = {
    "drift", "follow a recurrence's error along a long sequence and say where it comes from", drift_verb::add};

}  // namespace assay
