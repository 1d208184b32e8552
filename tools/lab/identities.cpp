// assay-lab identities: the identities and limits of the specifications, with measured rates and coefficients.
#include "oracles/identities/identities.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>

#include "files/in_words.hpp"
#include "language/laws.hpp"
#include "language/room.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/lab/lab.hpp"
#include "tools/print/table.hpp"

namespace assay {
namespace identities_verb {
namespace {

using identities::Identity;
using identities::IdentityResult;

struct IdentitiesOptions {
  std::vector<std::string> mechanisms;
  std::string format{name_of(TableFormat::table)}, output = "-";
};

struct Row {
  std::string mechanism, name, statement, source;
  int order;
  IdentityResult result;
  bool is_promised = true;  ///< a law of a program that it need not obey is no failure

  std::string verdict() const { return result.passed ? "PASS" : is_promised ? "FAIL" : "no"; }
};

std::string digits(double x, const char* none) { return std::isnan(x) ? none : fmt::format("{:.3g}", x); }

Table table_of(const std::vector<Row>& rows) {
  Table table = Table()
                    .words({"mechanism", "limit", "statement"})
                    .numbers({"order", "measured", "coefficient", "predicted", "error"})
                    .words({"verdict"});
  for (const Row& row : rows) {
    const IdentityResult& r = row.result;
    const bool identity = row.order == 0;
    table.add(row.mechanism, row.name, row.statement, identity ? "exact" : std::to_string(row.order),
              identity ? "" : fmt::format("{:.10g}", r.measured_order), identity ? "" : digits(r.coefficient, ""),
              identity ? "" : digits(r.predicted_coefficient, "-"), digits(r.error, "-"), row.verdict());
  }
  return table;
}

std::string as_json(const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const Row& row : rows) {
    const IdentityResult& r = row.result;
    list.push_back({{"mechanism", row.mechanism},
                    {"limit", row.name},
                    {"statement", row.statement},
                    {"source", row.source},
                    {"order", row.order},
                    {"measured_order", r.measured_order},
                    {"coefficient", r.coefficient},
                    {"predicted_coefficient", r.predicted_coefficient},
                    {"error", r.error},
                    {"allowed", r.allowed},
                    {"verdict", row.verdict()}});
  }
  return Json{{"format", "assay-limits"}, {"version", 1}, {"rows", std::move(list)}}.dump(2) + '\n';
}

std::string print(const std::vector<Row>& rows, TableFormat format) {
  const auto count = [&](std::string_view verdict) {
    return std::count_if(rows.begin(), rows.end(), [&](const Row& row) { return row.verdict() == verdict; });
  };
  const auto open = count("no");
  if (format == TableFormat::json) return as_json(rows);
  if (format == TableFormat::csv) return table_of(rows).csv();
  if (format == TableFormat::markdown) return table_of(rows).markdown();
  return fmt::format(
      "assay-lab identities: differences that vanish, in 200 digits at eps = 2^-60 and 2^-61, or proven by enclosures\n"
      "columns: order and coefficient at which the difference vanishes, predicted and measured;\n"
      "         error: of the coefficient, or what is left of an identity at most, relatively\n\n"
      "{}\n{}: {} PASS, {} FAIL{}\n",
      table_of(rows).text(), counted(rows.size(), "identity", "identities"), count("PASS"), count("FAIL"),
      open > 0 ? fmt::format(", {} not obeyed, and not promised", open) : "");
}

/// Laws of a program, of the same form. It must obey the promises of its names: states that are carried, heads apart.
std::vector<Row> rows_of_program(const std::string& program) {
  std::vector<Row> rows;
  for (language::Law& law : language::laws_of(*room_named(program, "mechanism"))) {
    const bool is_promised = law.name == "continuation" || law.name == "heads";
    IdentityResult result;
    result.error = law.error, result.allowed = language::law_tolerance, result.passed = law.holds;
    rows.push_back(
        {program, std::move(law.name), std::move(law.sentence), "docs/own-mechanism.md", 0, result, is_promised});
  }
  return rows;
}

bool is_program(const std::string& name) { return language::find_mechanism(name) != nullptr; }

int run_identities(const IdentitiesOptions& options, Console& console) {
  std::vector<const Identity*> chosen;
  std::vector<std::string> programs;
  for (const Identity& limit : identities::identities())
    if (options.mechanisms.empty() ||
        std::find(options.mechanisms.begin(), options.mechanisms.end(), limit.mechanism) != options.mechanisms.end())
      chosen.push_back(&limit);
  for (const std::string& name : options.mechanisms) {
    if (is_program(name)) programs.push_back(name);
    require(is_program(name) || std::ranges::any_of(chosen, [&](const Identity* l) { return l->mechanism == name; }),
            "--mechanism: no identity of '", name, "' is listed");
  }
  OutputFile file(options.output, console.out);
  std::vector<Row> rows;
  {
    Progress progress(console, chosen.size() + programs.size());
    for (const Identity* limit : chosen) {
      rows.push_back({std::string(limit->mechanism), std::string(limit->name), std::string(limit->statement),
                      std::string(limit->source), limit->order, measure(*limit)});
      progress.step(limit->name);
    }
    for (const std::string& program : programs) {
      for (Row& row : rows_of_program(program)) rows.push_back(std::move(row));
      progress.step(program);
    }
  }
  file.commit(print(rows, *entry_named(all_table_formats, options.format)));
  return std::ranges::all_of(rows, [](const Row& row) { return row.verdict() != "FAIL"; }) ? exit_passed : exit_failed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto options = std::make_shared<IdentitiesOptions>();
  add_list_flag(app, "--mechanism", options->mechanisms,
                "only this one, or the file of a program, whose laws follow from its axes; may be given several times");
  app.add_option("--format", options->format, "table, markdown, json or csv")
      ->check(CLI::IsMember(name_list(all_table_formats)))
      ->capture_default_str();
  app.add_option("-o,--output", options->output, "where the table goes; - is standard output")->capture_default_str();
  return [options](Console& console) { return run_identities(*options, console); };
}

}  // namespace
}  // namespace identities_verb

const Command commands::identities = {"identities", "measure the identities and limits of every mechanism",
                                      identities_verb::add};

}  // namespace assay
