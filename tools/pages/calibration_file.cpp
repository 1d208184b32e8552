// Calibrations as JSON, and runs of different seeds as one.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>

#include "files/case_file.hpp"
#include "files/input_file.hpp"
#include "reference/core/error.hpp"
#include "tools/cases/case_flags.hpp"
#include "tools/pages/calibration.hpp"

namespace assay {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

Json json_of(const Gauge& g) {
  Json slack = Json::object();
  for (std::size_t b = 0; b < g.slack.size(); ++b)
    if (g.slack[b] > 0) slack[std::to_string(b)] = g.slack[b];
  return {{"tensors", g.tensors},
          {"widened_tensors", g.widened},
          {"elements", g.elements},
          {"exact_elements", g.exact_elements},
          {"rms", g.rms()},
          {"sum_of_squares", g.squares},
          {"largest", g.largest},
          {"beyond_seven", g.beyond_seven},
          {"beyond_limit", g.beyond_limit},
          {"worst_of_limit", g.of_limit},
          {"median_slack", g.median_slack()},
          {"slack", std::move(slack)},
          {"undecided_tensors", g.undecided}};
}

Json json_of(const CalibrateOptions& options) {
  return {{"mechanisms", options.mechanisms},
          {"forms", options.forms},
          {"variants", options.variants},
          {"precisions", name_list(options.precisions)},
          {"styles", name_list(options.styles)},
          {"shape", options.shape},
          {"seeds", options.seeds},
          {"seed", options.seed}};
}

/// An infinite one is null in JSON.
double number(const Json& x) { return x.is_null() ? infinite : x.get<double>(); }

Gauge gauge_of(const Json& json) {
  const auto count = [&](const char* key) { return json.at(key).get<std::uint64_t>(); };
  Gauge g{.tensors = count("tensors"),
          .elements = count("elements"),
          .exact_elements = count("exact_elements"),
          .beyond_seven = count("beyond_seven"),
          .widened = count("widened_tensors"),
          .beyond_limit = count("beyond_limit"),
          .undecided = count("undecided_tensors"),
          .squares = number(json.at("sum_of_squares")),
          .largest = number(json.at("largest")),
          .of_limit = number(json.at("worst_of_limit"))};
  std::uint64_t all = 0;
  for (const auto& [bin, counted] : json.at("slack").items())
    all += g.slack.at(std::stoul(bin)) = counted.get<std::uint64_t>();
  require(all == g.elements, "slack: counts ", all, " of ", g.elements, " elements");
  return g;
}

template <class X>
X known(const std::optional<X>& x, const std::string& name) {
  require(x.has_value(), name, ": unknown");
  return *x;
}

CalibrateOptions options_of(const Json& json) {
  const auto names = [&](const char* key) { return json.at(key).get<std::vector<std::string>>(); };
  CalibrateOptions options;
  options.mechanisms = names("mechanisms"), options.forms = names("forms"), options.variants = names("variants");
  for (const std::string& name : names("precisions")) options.precisions.push_back(known(format_from(name), name));
  for (const std::string& name : names("styles")) options.styles.push_back(known(style_from(name), name));
  options.shape = json.at("shape").get<std::string>();
  options.seeds = json.at("seeds").get<int>(), options.seed = json.at("seed").get<std::uint64_t>();
  require(options.seeds > 0, "seeds: expected 1 or more, got ", options.seeds);
  return options;
}

CalibrationRow row_of(const Json& json) {
  const auto word = [&](const char* key) { return json.at(key).get<std::string>(); };
  const KernelRoom* kernels = find_kernels(kernel_rooms(), word("mechanism"));
  require(kernels != nullptr, word("mechanism"), ": no kernels");
  const auto form = std::ranges::find_if(kernels->forms, [&](const auto& f) { return f.name == word("form"); });
  require(form != kernels->forms.end(), kernels->name, ": no form ", word("form"));
  CalibrationRow row{.room = kernels->name,
                     .form = form->name,
                     .variant = word("variant"),
                     .cases = json.at("cases").get<std::size_t>()};
  const auto fit = entry_named(std::array{Fit::same, Fit::wider, Fit::biased, Fit::other}, word("standard"));
  require(fit.has_value(), word("standard"), ": unknown standard");
  row.fit = *fit;
  for (const auto& [name, gauge] : json.at("precisions").items())
    row.by_precision[static_cast<std::size_t>(known(format_from(name), name))] = gauge_of(gauge);
  row.alarms = json.at("alarms").get<std::vector<std::string>>();
  return row;
}

}  // namespace

Calibration calibration_of(const std::string& contents, const std::string& path) {
  const Json json = parse_json(contents, path);
  const auto says = [&](const char* key, const Json& value) { return json.contains(key) && json[key] == value; };
  require(json.is_object() && says("format", "assay-calibration") && says("version", 2), path,
          ": no calibration of this version; `assay-lab calibrate --format json` writes them");
  try {
    Calibration c{.options = options_of(json.at("options")),
                  .cases = json.at("cases").get<std::size_t>(),
                  .asked = json.at("cases_asked").get<std::size_t>(),
                  .rows = {},
                  .unanswered = json.at("unanswered_cases").get<std::size_t>()};
    require(!json.contains("shard"), "is a share of a run; `assay-lab merge` makes the whole");
    require(c.cases == c.asked, c.cases, " of ", c.asked, " cases were run, and whole runs are merged");
    for (const Json& row : json.at("variants")) c.rows.push_back(row_of(row));
    return c;
  } catch (const std::exception& e) {  // of JSON, of numbers, of ours
    throw InputError(path + ": " + e.what());
  }
}

namespace {

bool same_kind(const CalibrationRow& a, const CalibrationRow& b) {
  return a.room == b.room && a.form == b.form && a.variant == b.variant && a.fit == b.fit;
}

/// The command of such a run without its seeds: the same for all runs of the same cases.
std::string cases_of(CalibrateOptions options) {
  options.seed = 0, options.seeds = 1;
  return options.command();
}

}  // namespace

std::string json_text(const Calibration& c) {
  Json rows = Json::array();
  for (const CalibrationRow& row : c.rows) {
    Json precisions = Json::object();
    for (const Format precision : case_precisions)
      if (const Gauge& g = row.by_precision[static_cast<std::size_t>(precision)]; g.tensors + g.undecided > 0)
        precisions[std::string(name_of(precision))] = json_of(g);
    rows.push_back({{"mechanism", row.room},
                    {"form", row.form},
                    {"variant", row.variant},
                    {"standard", name_of(row.fit)},
                    {"passed", row.passed()},
                    {"cases", row.cases},
                    {"all", json_of(row.whole())},
                    {"precisions", std::move(precisions)},
                    {"alarms", row.alarms}});
  }
  Json all = {{"format", "assay-calibration"},  {"version", 2},
              {"command", c.options.command()}, {"options", json_of(c.options)},
              {"passed", c.passed()},           {"cases", c.cases},
              {"cases_asked", c.asked},         {"unanswered_cases", c.unanswered},
              {"all", json_of(c.whole())},      {"variants", std::move(rows)}};
  if (c.options.parts > 1) all["shard"] = {{"part", c.options.part}, {"of", c.options.parts}, {"places", c.places}};
  return all.dump(2) + '\n';
}

Calibration merged(const std::vector<std::string>& paths) {
  struct Part {
    std::string path;
    Calibration calibration;
  };
  std::vector<Part> parts;
  for (const std::string& path : paths) parts.push_back({path, calibration_of(read_text(path), path)});
  std::ranges::stable_sort(
      parts, [](const Part& a, const Part& b) { return a.calibration.options.seed < b.calibration.options.seed; });
  Calibration all = parts.at(0).calibration;
  for (std::size_t p = 1; p < parts.size(); ++p) {
    const auto& [path, part] = parts[p];
    require(cases_of(part.options) == cases_of(all.options), path, ": other cases than in ", parts[0].path);
    const std::uint64_t next = all.options.seed + static_cast<std::uint64_t>(all.options.seeds);
    require(part.options.seed == next, path, ": begins with seed ", part.options.seed, " where ", next, " is next");
    require(std::equal(part.rows.begin(), part.rows.end(), all.rows.begin(), all.rows.end(), same_kind), path,
            ": other variants than in ", parts[0].path);
    for (std::size_t r = 0; r < all.rows.size(); ++r) {
      CalibrationRow& row = all.rows[r];
      const CalibrationRow& more = part.rows[r];
      row.cases += more.cases;
      for (std::size_t f = 0; f < row.by_precision.size(); ++f) row.by_precision[f].join(more.by_precision[f]);
      row.alarms.insert(row.alarms.end(), more.alarms.begin(), more.alarms.end());
    }
    all.options.seeds += part.options.seeds;
    all.cases += part.cases, all.asked += part.asked, all.unanswered += part.unanswered;
  }
  return all;
}

}  // namespace assay
