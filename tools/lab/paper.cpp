// assay-lab paper: tables of the papers that need no training, ours beside theirs.
#include "tools/papers/paper.hpp"

#include <CLI/CLI.hpp>
#include <memory>

#include "files/did_you_mean.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/lab/lab.hpp"
#include "tools/print/html_page.hpp"
#include "tools/verbs/plot_file.hpp"

namespace assay {
namespace paper_verb {
namespace {

struct Flags {
  std::string name, format{name_of(TableFormat::table)}, output = "-", plot;
  PaperOptions options;
};

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Paper& paper : papers()) all.emplace_back(paper.name);
  return all;
}

const Paper& paper_named(const std::string& name) {
  for (const Paper& paper : papers())
    if (paper.name == name) return paper;
  throw InputError(text("there is no table ", name, did_you_mean(name, names()), "; there are ", names_in(names())));
}

std::string list() {
  Table table = Table().words({"table", "what", "of"});
  for (const Paper& paper : papers()) table.add(paper.name, paper.title, paper.source);
  return table.text();
}

std::string as_json(const Paper& paper, const PaperResult& result) {
  Json tables = Json::array();
  for (const auto& [heading, table] : result.tables) {
    Json columns = Json::array();
    for (const Table::Column& column : table.columns) columns.push_back(column.name);
    tables.push_back({{"heading", heading}, {"columns", std::move(columns)}, {"rows", table.rows}});
  }
  return Json{{"format", "assay-paper"}, {"version", 1},
              {"table", paper.name},     {"of", paper.source},
              {"chosen", result.chosen}, {"tables", std::move(tables)},
              {"says", result.says}}
             .dump(2) +
         '\n';
}

std::string print(const Paper& paper, const PaperResult& result, const std::string& format) {
  std::vector<std::string> header = {text("of        ", paper.source)};
  for (const std::string& line : result.chosen)
    header.push_back((header.size() == 1 ? "chosen    " : "          ") + line);
  const std::string title = text("assay-lab paper ", paper.name, ": ", paper.title);
  if (format == "json") return as_json(paper, result);
  if (format == "html") return as_html(title, header, result.plots, result.tables, result.says);
  std::string out;
  if (format != "csv") {
    out = title + '\n';
    for (const std::string& line : header) out += line + '\n';
  }
  for (const auto& [heading, table] : result.tables)
    out += format == "csv"        ? table.csv()
           : format == "markdown" ? text("\n**", heading, "**\n\n", table.markdown())
                                  : text('\n', heading, '\n', table.text(2));
  if (format != "csv" && !result.says.empty()) {
    out += '\n';
    for (const std::string& line : result.says) out += line + '\n';
  }
  return out;
}

int run_paper(const Flags& flags, Console& console) {
  OutputFile file(flags.output, console.out, {flags.options.record, flags.options.flash_attention});
  if (flags.name.empty()) {
    file.commit(list());
    return exit_passed;
  }
  const Paper& paper = paper_named(flags.name);
  PlotFile plot(flags.plot, console);
  const PaperResult result = [&] {
    Progress progress(console);
    return paper.measure(flags.options, [&](std::string_view what) { progress.step(what); });
  }();
  file.commit(print(paper, result, flags.format));
  plot.commit(result.plots);
  return exit_passed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("table", flags->name, "which; without one, all are listed");
  app.add_option("--sequences", flags->options.sequences, "of lla-regression, that errors are averaged over")
      ->check(whole_in(1, 100000))
      ->capture_default_str();
  app.add_option("--record", flags->options.record, "of parallax-ratios: a file of records/gpu");
  app.add_option("--flash-attention", flags->options.flash_attention,
                 "of parallax-ratios: what tools/gpu/attention_times.py wrote on that GPU");
  app.add_option("--seed", flags->options.seed, "of what is drawn")->check(any_seed())->capture_default_str();
  add_threads_flag(app, flags->options.threads);
  add_drawn_format_flag(app, flags->format);
  app.add_option("-o,--output", flags->output, "where the tables go; - is standard output")->capture_default_str();
  add_plot_flag(app, flags->plot);
  return [flags](Console& console) { return run_paper(*flags, console); };
}

}  // namespace
}  // namespace paper_verb

const Command commands::paper = {"paper", "tables of the papers that need no training, ours beside theirs",
                                 paper_verb::add};

}  // namespace assay
