// assay limits: the identities and limits of the specifications, with measured rates and coefficients.
#include "oracles/identities/limits.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/print/table.hpp"
#include "tools/verbs/command.hpp"

namespace assay {
namespace {

using identities::Limit;
using identities::LimitResult;

struct LimitsOptions {
  std::vector<std::string> mechanisms;
  std::string format{name_of(TableFormat::table)}, output = "-";
};

struct Row {
  const Limit* limit;
  LimitResult result;
};

std::string digits(double x, const char* none) { return std::isnan(x) ? none : fmt::format("{:.3g}", x); }

Table table_of(const std::vector<Row>& rows) {
  Table table{{{"mechanism"},
               {"limit"},
               {"statement"},
               {"order", true},
               {"measured", true},
               {"coefficient", true},
               {"predicted", true},
               {"error", true},
               {"verdict"}},
              {}};
  for (const auto& [limit, r] : rows) {
    const bool identity = limit->order == 0;
    table.rows.push_back(
        {std::string(limit->mechanism), std::string(limit->name), std::string(limit->statement),
         identity ? "exact" : std::to_string(limit->order), identity ? "" : fmt::format("{:.10g}", r.measured_order),
         identity ? "" : digits(r.coefficient, ""), identity ? "" : digits(r.predicted_coefficient, "-"),
         digits(r.error, "-"), r.passed ? "PASS" : "FAIL"});
  }
  return table;
}

std::string as_json(const std::vector<Row>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [limit, r] : rows)
    list.push_back({{"mechanism", limit->mechanism},
                    {"limit", limit->name},
                    {"statement", limit->statement},
                    {"source", limit->source},
                    {"order", limit->order},
                    {"measured_order", r.measured_order},
                    {"coefficient", r.coefficient},
                    {"predicted_coefficient", r.predicted_coefficient},
                    {"error", r.error},
                    {"allowed", r.allowed},
                    {"verdict", r.passed ? "PASS" : "FAIL"}});
  return nlohmann::ordered_json{{"format", "assay-limits"}, {"version", 1}, {"rows", std::move(list)}}.dump(2) + '\n';
}

std::string print(const std::vector<Row>& rows, TableFormat format) {
  const auto failed = std::count_if(rows.begin(), rows.end(), [](const Row& row) { return !row.result.passed; });
  switch (format) {
    case TableFormat::json:
      return as_json(rows);
    case TableFormat::csv:
      return table_of(rows).csv();
    case TableFormat::markdown:
      return table_of(rows).markdown();
    case TableFormat::table:
      break;
  }
  return fmt::format(
      "assay limits: differences that vanish, in 200 digits at eps = 2^-60 and 2^-61\n"
      "columns: order and coefficient at which the difference vanishes, predicted and measured;\n"
      "         error: of the coefficient, or what is left of an identity, relatively\n\n{}\n{} limits: {} PASS, {} "
      "FAIL\n",
      table_of(rows).text(), rows.size(), rows.size() - static_cast<std::size_t>(failed), failed);
}

int run_limits(const LimitsOptions& options, Console& console) {
  std::vector<const Limit*> chosen;
  for (const Limit& limit : identities::limits())
    if (options.mechanisms.empty() ||
        std::find(options.mechanisms.begin(), options.mechanisms.end(), limit.mechanism) != options.mechanisms.end())
      chosen.push_back(&limit);
  for (const std::string& name : options.mechanisms)
    require(std::any_of(chosen.begin(), chosen.end(), [&](const Limit* l) { return l->mechanism == name; }),
            "--mechanism: no limit of '", name, "' is listed");
  OutputFile file(options.output, console.out);
  std::vector<Row> rows;
  {
    Progress progress(console, chosen.size());
    for (const Limit* limit : chosen) {
      rows.push_back({limit, measure(*limit)});
      progress.step(limit->name);
    }
  }
  file.commit(print(rows, *table_format_from(options.format)));
  return std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.result.passed; }) ? exit_passed
                                                                                                 : exit_failed;
}

std::function<int(Console&)> add(CLI::App& app) {
  auto options = std::make_shared<LimitsOptions>();
  app.add_option("--mechanism", options->mechanisms, "only this one; may be given several times")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--format", options->format, "table, markdown, json or csv")
      ->check(CLI::IsMember(table_format_names()))
      ->capture_default_str();
  app.add_option("-o,--output", options->output, "where the table goes; - is standard output")->capture_default_str();
  return [options](Console& console) { return run_limits(*options, console); };
}

}  // namespace

namespace commands {
extern const Command limits = {"limits", "measure the identities and limits of every mechanism", add};
}

}  // namespace assay
