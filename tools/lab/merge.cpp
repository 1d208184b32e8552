// assay-lab merge: puts the shares of `mutants` and `calibrate` together.
#include "tools/verbs/merge.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "files/input_file.hpp"
#include "reference/core/error.hpp"
#include "tools/lab/lab.hpp"
#include "tools/pages/calibration.hpp"

namespace assay {
namespace {

/// As `assay-lab mutants` does: every planted mutant that shows is killed, and no healthy kernel is rejected.
bool has_passed(const Json& page) {
  for (const Json& mutant : page.at("mutants"))
    if (mutant.at("held_out") == false && mutant.at("shown") > 0 && mutant.at("killed") == false) return false;
  return page.at("rules").at(0).at("false_alarms") == 0;
}

/// Counts the rules' finds among those mutants. A rule's cases are by its number.
void count_kills(Json& rules, const Json& mutants, bool held_out) {
  double shown = 0;
  for (const Json& mutant : mutants)
    if (mutant.at("held_out") == held_out) shown += mutant.at("shown").get<int>();
  for (std::size_t rule = 0; rule < rules.size(); ++rule) {
    int killed = 0;
    double cases = 0;
    for (const Json& mutant : mutants) {
      if (mutant.at("held_out") != held_out) continue;
      const int of_rule = mutant.at("cases_killed_by_rule").at(rule).get<int>();
      killed += of_rule > 0 ? 1 : 0, cases += of_rule;
    }
    rules[rule]["killed"] = killed, rules[rule]["share_of_cases"] = shown > 0 ? cases / shown : 0;
  }
}

}  // namespace

Calibration merged_calibration(std::vector<Json> pages, const std::vector<std::string>& names) {
  require_whole(pages, names);
  try {
    Json list = rows_in_order(pages), whole = pages.front();
    for (std::size_t i = 1; i < pages.size(); ++i)
      for (const char* count : {"cases", "cases_asked", "unanswered_cases"})
        whole[count] = whole.at(count).get<std::size_t>() + pages[i].at(count).get<std::size_t>();
    whole.erase("shard"), whole["variants"] = std::move(list);
    return calibration_of(whole.dump(), names.front());
  } catch (const Json::exception&) {
    throw InputError(names.front() + ": no share of `assay-lab calibrate`");
  }
}

Json merged_mutants(std::vector<Json> pages, const std::vector<std::string>& names) {
  require_whole(pages, names);
  try {
    Json list = rows_in_order(pages), whole = pages.front();
    for (std::size_t i = 1; i < pages.size(); ++i) {
      whole["healthy_runs"] = whole.at("healthy_runs").get<int>() + pages[i].at("healthy_runs").get<int>();
      for (const char* rules : {"rules", "rules_on_held_out"})
        for (std::size_t rule = 0; rule < whole.at(rules).size(); ++rule) {
          Json& alarms = whole.at(rules)[rule].at("false_alarms");
          alarms = alarms.get<int>() + pages[i].at(rules).at(rule).at("false_alarms").get<int>();
        }
    }
    count_kills(whole.at("rules"), list, false), count_kills(whole.at("rules_on_held_out"), list, true);
    const bool holds_out =
        std::any_of(list.begin(), list.end(), [](const Json& m) { return m.at("held_out") == true; });
    if (!holds_out) whole.erase("rules_on_held_out");
    whole.erase("shard"), whole["mutants"] = std::move(list);
    return whole;
  } catch (const Json::exception&) {
    throw InputError(names.front() + ": no share of `assay-lab mutants`");
  }
}

namespace merge_of_lab_verb {
namespace {

std::pair<std::string, bool> merge_shares(std::vector<Json> pages, const std::vector<std::string>& names) {
  if (pages.front().contains("variants")) {
    const Calibration whole = merged_calibration(std::move(pages), names);
    return {print(whole, TableFormat::json), whole.passed()};
  }
  require(pages.front().contains("mutants"), names.front(),
          ": no share of assay-lab's; assay merge makes the whole of others");
  const Json whole = merged_mutants(std::move(pages), names);
  return {whole.dump(2) + '\n', has_passed(whole)};
}

std::function<int(Console&)> add(CLI::App& app) { return add_merge(app, "mutants or calibrate", merge_shares); }

}  // namespace
}  // namespace merge_of_lab_verb

const Command commands::merge_of_lab = {"merge", "put the shares of mutants or calibrate together",
                                        merge_of_lab_verb::add};

}  // namespace assay
