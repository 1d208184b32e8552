// assay list: what this build knows.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <ostream>

#include "files/case_file.hpp"
#include "files/layout.hpp"
#include "files/names.hpp"
#include "judge/contract/contract.hpp"
#include "judge/forms/sequential.hpp"
#include "kernels/core/kernel_room.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/error.hpp"
#include "reference/core/format.hpp"
#include "reference/core/inputs.hpp"
#include "tools/print/table.hpp"
#include "tools/verbs/command.hpp"

namespace assay {
namespace list_verb {
namespace {

std::vector<const KernelForm*> forms_of_room(const Room& room) {
  const KernelRoom* kernels = find_kernels(kernel_rooms(), room.name);
  return kernels == nullptr ? std::vector<const KernelForm*>() : forms_of(*kernels);
}

Json tensors(const std::vector<RoomFacts::Ranked>& list, Field::Place place) {
  Json object = Json::object();
  for (const RoomFacts::Ranked& ranked : list)
    if (ranked.field.place == place) object[std::string(ranked.field.name)] = axes_in_problem(ranked, ranked.rank);
  return object;
}

template <class Entries>
Json named_summaries(const Entries& entries) {
  Json list = Json::array();
  for (const auto& entry : entries) list.push_back({{"name", name_of(entry)}, {"summary", summary_of(entry)}});
  return list;
}

/// Accumulations of the first kernel that it fits: docs/contracts.md tells what depends on a kernel's sites.
Json ways_of(const Contract& contract) {
  Json ways = Json::array();
  for (const KernelRoom* room : kernel_rooms())
    for (const KernelForm& form : room->forms) {
      if (!ways.empty() || !contract.obstacle(form.sites).empty()) continue;
      for (const Accumulation way : contract.accumulations(form.sites)) ways.push_back(name_of(way));
    }
  return ways;
}

Json inputs_of(const Contract& contract) {
  Json inputs = Json::array();
  for (const Contract::Factor& factor : contract.factors)
    if (std::find(inputs.begin(), inputs.end(), factor.input) == inputs.end()) inputs.push_back(factor.input);
  return inputs;
}

Json contracts() {
  Json list = Json::array();
  for (const Contract& contract : named_contracts()) {
    Json sites = Json::object();
    for (const Contract::Rule& rule : contract.rules) sites[rule.site] = name_of(rule.format, rule.blocks);
    Json kernels = Json::array();
    for (const KernelRoom* room : kernel_rooms())
      for (const KernelForm* form : forms_of(*room))
        if (contract.obstacle(form->sites).empty()) kernels.push_back(text(room->name, ":", form->name));
    list.push_back({{"name", contract.name},
                    {"summary", contract.summary},
                    {"kernels", std::move(kernels)},
                    {"precision", name_of(contract.precision)},
                    {"sites", std::move(sites)},
                    {"products", contract.products},
                    {"follows", contract.follows},
                    {"accumulation", ways_of(contract)},
                    {"towards_zero", contract.towards_zero},
                    {"factors", inputs_of(contract)},
                    {"per_query_head", contract.per_query_head},
                    {"sources", contract.sources}});
  }
  return list;
}

Json groups() {
  Json list = Json::array();
  for (const SiteGroup& group : site_groups()) list.push_back({{"name", group.name}, {"summary", group.summary}});
  return list;
}

Json as_json() {
  Json mechanisms = Json::array();
  for (const Room* room : rooms()) {
    Json forms = Json::array();
    for (const KernelForm* form : forms_of_room(*room))
      forms.push_back({{"name", form->name},
                       {"summary", form->summary},
                       {"gradients", form->has_gradients},
                       {"unstable", form->unstable}});
    Json params = tensors(room->inputs(), Field::Place::param);
    for (const std::string_view option : room->options) params[std::string(option)] = "option";
    mechanisms.push_back({{"name", room->name},
                          {"summary", room->summary},
                          {"params", std::move(params)},
                          {"inputs", tensors(room->inputs(), Field::Place::input)},
                          {"outputs", tensors(room->outputs(), Field::Place::input)},
                          {"forms", std::move(forms)}});
  }
  return {{"mechanisms", std::move(mechanisms)},
          {"tiers", named_summaries(all_tiers)},
          {"precisions", name_list(all_formats)},
          {"contracts", contracts()},
          {"site_groups", groups()},
          {"styles", named_summaries(all_styles)}};
}

std::string table_of(const std::string& head, const Json& list) {
  Table table = Table().words({head, "summary"});
  for (const Json& entry : list) table.rows.push_back({entry["name"], entry["summary"]});
  return table.text();
}

void print_contracts(std::ostream& out, const Json& everything) {
  std::size_t forms = 0;
  for (const KernelRoom* room : kernel_rooms()) forms += forms_of(*room).size();
  Table table = Table().words({"contract", "of kernels", "sums", "summary"});
  for (const Json& contract : everything["contracts"]) {
    const Json& kernels = contract["kernels"];
    std::string ways;
    for (const Json& way : contract["accumulation"]) ways += (ways.empty() ? "" : ", ") + way.get<std::string>();
    table.rows.push_back({contract["name"], kernels.size() == forms ? "all" : text(kernels.size(), " of ", forms), ways,
                          contract["summary"]});
  }
  out << table.text() << '\n' << table_of("sites", everything["site_groups"]);
}

void print_tables(std::ostream& out, const Json& everything) {
  Json forms = Json::array();
  for (const Json& mechanism : everything["mechanisms"])
    for (const Json& form : mechanism["forms"]) {
      const auto summary = form["summary"].get<std::string>(), unstable = form["unstable"].get<std::string>();
      forms.push_back({{"name", mechanism["name"].get<std::string>() + ":" + form["name"].get<std::string>()},
                       {"summary", unstable.empty() ? summary : summary + "; UNSTABLE: " + unstable}});
    }
  out << table_of("mechanism", everything["mechanisms"]) << '\n' << table_of("form", forms) << '\n';
  out << table_of("oracle tier", everything["tiers"]) << '\n' << table_of("input style", everything["styles"]) << '\n';
  out << "precision\n";
  for (const Json& precision : everything["precisions"]) out << precision.get<std::string>() << '\n';
  out << '\n';
  print_contracts(out, everything);
}

std::function<int(Console&)> add(CLI::App& app) {
  auto format = std::make_shared<std::string>("table");
  auto what = std::make_shared<std::string>();
  app.add_option("kind", *what, "list only these: contracts")->check(CLI::IsMember({"contracts"}));
  app.add_option("--format", *format, "table or json")->check(CLI::IsMember({"table", "json"}))->capture_default_str();
  return [format, what](Console& console) {
    const Json everything = what->empty() ? as_json() : Json{{"contracts", contracts()}, {"site_groups", groups()}};
    if (*format == "json")
      console.out << everything.dump(2) << '\n';
    else if (!what->empty())
      print_contracts(console.out, everything);
    else
      print_tables(console.out, everything);
    return static_cast<int>(exit_passed);
  };
}

}  // namespace
}  // namespace list_verb

const Command commands::list = {"list", "list mechanisms, forms, tiers, precisions, styles and contracts",
                                list_verb::add};

}  // namespace assay
