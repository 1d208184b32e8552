#include "tools/cases/suite_cases.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "arguments/programs/library.hpp"
#include "files/case_file.hpp"

namespace assay {
namespace {

SuiteCase case_from(const Json& json) {
  return {{json.at("shape"), *style_from(json.at("style").get<std::string>()), params_from(json),
           json.value("fill", Fill())},
          json.at("shows"),
          json.at("by_contract")};
}
Json written(const SuiteCase& one) {
  Json json = {{"shape", one.inputs.shape}, {"style", name_of(one.inputs.style)}};
  if (!one.inputs.params.empty()) json["params"] = json_of(one.inputs.params);
  if (!one.inputs.fill.empty()) json["fill"] = one.inputs.fill;
  json["shows"] = one.shows, json["by_contract"] = one.by_contract;
  return json;
}

Suite suite_from(const Json& json) {
  Suite suite;
  json.at("mechanism").get_to(suite.mechanism);
  suite.faults = json.at("faults"), suite.shown = json.at("shown"), suite.by_contract = json.at("by_contract");
  for (const Json& one : json.at("cases")) suite.cases.push_back(case_from(one));
  for (const Json& spot : json.at("blind_spots"))
    suite.blind_spots.push_back({spot.at("name"), spot.at("shown"), spot.at("by_contract")});
  json.at("unseen").get_to(suite.unseen);
  for (const Json& one : json.at("with_settings")) suite.with_settings.push_back(case_from(one));
  suite.shown_with_settings = json.at("shown_with_settings");
  return suite;
}
Json written(const Suite& suite) {
  const auto list = [](const auto& items, const auto& json) {
    Json all = Json::array();
    for (const auto& item : items) all.push_back(json(item));
    return all;
  };
  const auto of_case = [](const SuiteCase& one) { return written(one); };
  const auto of_spot = [](const SuiteBlindSpot& s) {
    return Json{{"name", s.name}, {"shown", s.shown}, {"by_contract", s.by_contract}};
  };
  return {{"mechanism", suite.mechanism},
          {"faults", suite.faults},
          {"shown", suite.shown},
          {"by_contract", suite.by_contract},
          {"cases", list(suite.cases, of_case)},
          {"blind_spots", list(suite.blind_spots, of_spot)},
          {"unseen", suite.unseen},
          {"with_settings", list(suite.with_settings, of_case)},
          {"shown_with_settings", suite.shown_with_settings}};
}

}  // namespace

Shape SuiteCandidate::extents(int dims) const {
  constexpr std::string_view odd = ",odd";
  std::string_view others = shape;
  if (!others.ends_with(odd)) return shape_from(fmt::format("{},{},{}", others, dims, dims));
  others.remove_suffix(odd.size());
  return shape_from(fmt::format("{},{},{}", others, std::max(1, dims - 1), dims / 2 + 1));
}

const std::vector<Suite>& suites() {
  static const std::vector<Suite> all = [] {
    std::vector<Suite> read;
    for (const Json& json : Json::parse(arguments::embedded_text("tools", "suites"))) read.push_back(suite_from(json));
    return read;
  }();
  return all;
}

const Suite* find_suite(std::string_view mechanism) {
  const auto it = std::ranges::find(suites(), mechanism, &Suite::mechanism);
  return it == suites().end() ? nullptr : &*it;
}

std::string json_of(const std::vector<Suite>& suites) {
  std::string text;
  for (const Suite& suite : suites) text += (text.empty() ? "" : ",\n") + written(suite).dump();
  return "[\n" + text + "\n]\n";
}

}  // namespace assay
