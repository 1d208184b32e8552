// assay merge: puts the shares of a run together.
#include "tools/verbs/merge.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <memory>

#include "files/input_file.hpp"
#include "reference/core/error.hpp"
#include "tools/print/escape.hpp"
#include "tools/verbs/command.hpp"

namespace assay {
namespace {

constexpr std::size_t most_parts = 100000;

/// The name of the list that has the rows of a page.
std::string_view list_of(const Json& page) {
  return page.contains("mutants") ? "mutants" : page.contains("variants") ? "variants" : "rows";
}

/// The page without the facts that differ from share to share.
Json common_of(Json page) {
  for (const char* own : {"shard", "passed", "rows", "mutants", "healthy_runs", "rules", "rules_on_held_out",
                          "variants", "all", "cases", "cases_asked", "unanswered_cases"})
    page.erase(own);
  return page;
}

void require_share(const Json& page, const std::string& name) {
  const bool is_page = page.is_object() && page.contains(list_of(page)) && page.at(list_of(page)).is_array() &&
                       page.contains("command") && (page.contains("passed") || page.contains("rules"));
  require(is_page, name, ": no page of assay's in JSON");
  const bool has_shard = page.contains("shard") && page.at("shard").is_object();
  require(has_shard, name, ": no share of a run; --shard 1/4 makes one");
  const Json& shard = page.at("shard");
  const auto counts = [](const Json& x) { return x.is_number_unsigned() && x.get<std::size_t>() <= most_parts; };
  bool whole = counts(shard.value("part", Json())) && counts(shard.value("of", Json())) &&
               shard.value("places", Json()).is_array();
  whole = whole && shard.at("places").size() == page.at(list_of(page)).size() && shard.at("part") >= 1 &&
          shard.at("part") <= shard.at("of");
  for (const Json& place : whole ? shard.at("places") : Json::array()) whole = whole && place.is_number_unsigned();
  require(whole, name, ": shard: expected a part, of how many, and a place for each row");
}

}  // namespace

std::pair<int, int> shard_from(const std::string& words) {
  const char *begin = words.data(), *end = begin + words.size();
  int part = 0, parts = 0;
  const auto [slash, first] = std::from_chars(begin, end, part);
  const bool has_both = first == std::errc() && slash != end && *slash == '/';
  const auto [rest, second] = has_both ? std::from_chars(slash + 1, end, parts) : std::from_chars_result{begin, first};
  const bool holds = has_both && second == std::errc() && rest == end && part >= 1 && part <= parts &&
                     static_cast<std::size_t>(parts) <= most_parts;
  require(holds, "--shard: expected 2/8, the second of eight shares, got ", words);
  return {part, parts};
}

void add_shard_flag(CLI::App& app, std::string& words) {
  app.add_option("--shard", words,
                 "2/8: the second of eight shares of the work; `assay merge` puts all of them together");
}

Json shard_facts(int part, int parts, const std::vector<std::size_t>& places) {
  return {{"part", part}, {"of", parts}, {"places", places}};
}

void require_whole(const std::vector<Json>& pages, const std::vector<std::string>& names) {
  require(!pages.empty(), "merge: expected the shares of a run, got none");
  for (std::size_t i = 0; i < pages.size(); ++i) require_share(pages[i], names[i]);
  const std::size_t parts = pages.front().at("shard").at("of").get<std::size_t>();
  std::vector<std::string> of_part(parts + 1);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    require(common_of(pages[i]) == common_of(pages.front()) && pages[i].at("shard").at("of") == parts, names[i],
            ": is of another run than ", names.front());
    std::string& name = of_part[pages[i].at("shard").at("part").get<std::size_t>()];
    require(name.empty(), names[i], ": is the same share as ", name);
    name = names[i];
  }
  for (std::size_t part = 1; part <= parts; ++part)
    require(!of_part[part].empty(), "merge: share ", part, " of ", parts, " is missing");
}

Json rows_in_order(std::vector<Json>& pages) {
  std::vector<std::pair<std::size_t, Json>> rows;
  for (Json& page : pages) {
    Json& own = page.at(list_of(page));
    for (std::size_t i = 0; i < own.size(); ++i)
      rows.emplace_back(page.at("shard").at("places")[i].get<std::size_t>(), std::move(own[i]));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Json list = Json::array();
  for (auto& [place, row] : rows) list.push_back(std::move(row));
  return list;
}

Json merged(std::vector<Json> pages, const std::vector<std::string>& names) {
  require_whole(pages, names);
  bool passed = true;
  for (const Json& page : pages) passed = passed && (page.at("passed") == true || page.at("rows").empty());
  Json list = rows_in_order(pages), whole = std::move(pages.front());
  whole.erase("shard");
  whole["passed"] = passed && !list.empty(), whole["rows"] = std::move(list);
  return whole;
}

std::function<int(Console&)> add_merge(CLI::App& app, std::string_view run, const Merge& merge) {
  auto files = std::make_shared<std::vector<std::string>>();
  auto output = std::make_shared<std::string>("-");
  app.add_option("files", *files,
                 text("all shares of one run of ", run, ", as --shard 1/4 --format json has made them, in any order"))
      ->required();
  app.add_option("-o,--output", *output, "where the whole goes; - is standard output")->capture_default_str();
  return [files, output, merge](Console& console) {
    OutputFile file(*output, console.out, *files);
    std::vector<Json> pages;
    for (const std::string& name : *files) pages.push_back(parse_json(read_text(name), name));
    const auto [whole, passed] = merge(std::move(pages), *files);
    file.commit(whole);
    return passed ? exit_passed : exit_failed;
  };
}

namespace merge_verb {
namespace {

std::pair<std::string, bool> merge_rows(std::vector<Json> pages, const std::vector<std::string>& names) {
  require(list_of(pages.front()) == "rows", names.front(),
          ": is a share of assay-lab's: assay-lab merge makes the whole");
  const Json whole = merged(std::move(pages), names);
  return {json_page(whole), whole.at("passed") == true};
}

std::function<int(Console&)> add(CLI::App& app) { return add_merge(app, "report", merge_rows); }

}  // namespace
}  // namespace merge_verb

const Command commands::merge = {"merge", "put the shares of a run together, as one process would have made it",
                                 merge_verb::add};

}  // namespace assay
