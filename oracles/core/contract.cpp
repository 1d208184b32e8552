#include "oracles/core/contract.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "oracles/core/case_file.hpp"
#include "oracles/core/did_you_mean.hpp"
#include "oracles/core/input_file.hpp"
#include "reference/core/error.hpp"

namespace assay {
namespace {

using Names = std::vector<std::string_view>;

template <tile::Role R>
Names of_role(const tile::SiteTable& sites) {
  Names names;
  for (int i = 0; i < sites.size; ++i)
    if (sites.entries[i].role == R) names.push_back(sites.entries[i].view());
  return names;
}

/// S and, of a rule with momentum, M. Kernels with a running maximum call their scores S.
Names carried(const tile::SiteTable& sites) {
  const auto has = [&](std::string_view name) { return sites.find(name) >= 0; };
  if (!has("S") || has("m")) return {};
  return has("M0") ? Names{"S", "M"} : Names{"S"};
}

constexpr SiteGroup groups[] = {
    {"state", "what is carried from one chunk of tokens to the next", carried},
    {"operands", "what enters products or memory in the precision", of_role<tile::Role::operand>},
    {"gates", "decays, step sizes, scales, statistics of rows", of_role<tile::Role::gate>},
    {"accumulators", "sums and what is computed from them", of_role<tile::Role::accumulator>},
    {"outputs", "what leaves the kernel", of_role<tile::Role::output>},
};

const SiteGroup* find_group(std::string_view name) {
  const auto* const it =
      std::find_if(std::begin(groups), std::end(groups), [&](const SiteGroup& g) { return g.name == name; });
  return it == std::end(groups) ? nullptr : it;
}

/// Of the powers of two that operands of 8 bits are multiples of. A contract that names it `exact` has none.
constexpr const char* descale_site = "descale";

/// A name out of a file as a message shows it.
std::string shown(const std::string& name) { return excerpt(name, 40); }

/// The sites that a rule speaks of.
Names members(const Contract::Rule& rule, const tile::SiteTable& sites) {
  if (!rule.beside.empty() && sites.find(rule.beside) < 0) return {};
  if (const SiteGroup* group = find_group(rule.site)) return group->members(sites);
  return sites.find(rule.site) >= 0 ? Names{rule.site} : Names{};
}

std::string listed(const tile::SiteTable& sites) {
  std::string names;
  for (int i = 0; i < sites.size; ++i) names += (i > 0 ? ", " : "") + std::string(sites.entries[i].view());
  return names;
}

std::vector<Contract> make_named() {
  std::vector<Contract> all;
  for (const Format precision : all_formats)
    if (precision != Format::exact) all.push_back(Contract::of(precision));
  constexpr Format bf16 = Format::bf16, fp32 = Format::fp32;
  all.push_back({.name = "bf16_state",
                 .summary = "bf16, and the state that is carried from chunk to chunk is kept in bf16, too",
                 .rules = {{"state", bf16}}});
  all.push_back({.name = "bf16_state_per_token",
                 .summary = "as bf16_state, rounded after every token, as recurrent kernels store it",
                 .products = 1,
                 // Programs whose chunks come together as sums have no such state: they end in another site.
                 .rules = {{"state", bf16}, {"final", bf16}}});
  all.push_back({.name = "flash_attention",
                 .summary = "FlashAttention-2 and 3: P and dS in bf16 for the products, statistics and sums in fp32, D "
                            "from the o that was stored",
                 .follows = true,
                 .rules = {{"P", bf16},
                           {"S", fp32},
                           {"m", fp32},
                           {"l", fp32},
                           {"O", fp32},
                           {"lse", fp32, false},
                           {"Oin", bf16, false, "", true},
                           {"delta", fp32, false},
                           {"dS", bf16, false},
                           {"dQ", fp32, false},
                           {"dK", fp32, false},
                           {"dV", fp32, false}}});
  all.push_back({.name = "fla",
                 .summary = "flash-linear-attention: the state sums in fp32 and is stored in bf16, and so are the "
                            "inverse, the values of the rule, and the parts of gradients",
                 .follows = true,
                 // It has kernels of all families: what a form lacks is not asked of it.
                 .rules = {{"state", fp32, false},
                           {"Sc", bf16, false},
                           {"P", bf16, false},
                           {"dS", bf16, false, "m"},
                           {"H", bf16, false},
                           {"Tc", bf16, false},
                           {"W", bf16, false, "Uc"},
                           {"U", bf16, false, "Uc"},
                           {"dU", bf16, false, "Uc"},
                           {"part", bf16, false, "", true}}});
  all.push_back({.name = "e4m3_unscaled",
                 .summary = "e4m3, and operands are rounded as they are, not as multiples of units of their heads: "
                            "beyond 448 they saturate, below 2^-10 they vanish",
                 .precision = Format::e4m3,
                 .rules = {{descale_site, Format::exact}}});
  return all;
}

// ---- JSON

/// What `name` holds in a contract's object, a string.
std::string text_at(const Json& object, const char* name, const std::string& source, bool required) {
  const auto it = object.find(name);
  if (it == object.end()) {
    require(!required, source, ": no ", name);
    return "";
  }
  require(it->is_string(), source, ": ", name, ": expected a string");
  return it->get<std::string>();
}

std::string format_names() {
  std::string names;
  for (const Format format : all_formats) names += (names.empty() ? "" : ", ") + std::string(name_of(format));
  return names;
}

/// What one of its keys holds.
std::vector<Contract::Rule> rules_from(const Json& sites, const char* key, const std::string& source) {
  const bool required = std::string_view(key) == "sites";
  require(sites.is_object(), source, ": ", key, ": expected an object of formats");
  std::vector<Contract::Rule> rules;
  for (const auto& [site, value] : sites.items()) {
    require(value.is_string(), source, ": ", key, ".", shown(site), ": expected the name of a format");
    const std::optional<Format> format = format_from(value.get<std::string>());
    require(format.has_value(), source, ": ", key, ".", shown(site), ": there is no format ",
            shown(value.get<std::string>()), "; there are ", format_names());
    rules.push_back({.site = site, .format = *format, .required = required, .fixed = true});
  }
  return rules;
}

/// Those of its two keys; what a kernel may lack goes first, so that a group of it overrides no site.
void add_rules(Contract& contract, const Json& object, const std::string& source) {
  std::vector<Contract::Rule> of_groups, of_sites;
  for (const char* key : {"optional_sites", "sites"}) {
    const auto sites = object.find(key);
    if (sites == object.end()) continue;
    for (Contract::Rule& rule : rules_from(*sites, key, source)) {
      if (const auto other = object.find("optional_sites"); rule.required && other != object.end())
        require(!other->contains(rule.site), source, ": ", shown(rule.site), ": in sites and in optional_sites");
      (find_group(rule.site) != nullptr ? of_groups : of_sites).push_back(std::move(rule));
    }
  }
  contract.rules.insert(contract.rules.end(), of_groups.begin(), of_groups.end());
  contract.rules.insert(contract.rules.end(), of_sites.begin(), of_sites.end());
}

bool is_of_a_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-.+/").find(c) != std::string_view::npos;
}

Rounding rounding_from(const std::string& name, const std::string& source) {
  // The random ones are the judge's own way to learn how far a kernel spreads.
  for (const Rounding rounding : {Rounding::nearest_even, Rounding::toward_zero})
    if (name == name_of(rounding)) return rounding;
  throw InputError(text(source, ": rounding: expected nearest_even or toward_zero, got ", shown(name)));
}

std::string known_names() {
  std::string names;
  for (const Contract& contract : named_contracts()) names += (names.empty() ? "" : ", ") + contract.name;
  return names;
}

}  // namespace

Contract Contract::of(Format precision) {
  const std::string name = name_of(precision);
  const char* rest = precision == Format::fp64   ? "everything in fp64"
                     : precision == Format::fp32 ? "everything in fp32"
                     : precision == Format::tf32 ? "operands in tf32, the rest in fp32"
                     : precision == Format::bf16 || precision == Format::fp16
                         ? "operands and outputs; sums, state, gates "
                           "and statistics in fp32"
                         : "operands; outputs in bf16; sums, state, "
                           "gates and statistics in fp32";
  return {.name = name, .summary = rest, .precision = precision};
}

Contract Contract::in(Format case_precision) const {
  Contract contract = *this;
  const bool wide = case_precision == Format::fp32 || case_precision == Format::tf32;
  if (!follows || !(wide || case_precision == Format::fp16)) return contract;
  contract.precision = wide ? Format::tf32 : Format::fp16;
  for (Rule& rule : contract.rules)
    if (!rule.fixed && rule.format == precision) rule.format = wide && rule.stored ? Format::fp32 : contract.precision;
  return contract;
}

std::string Contract::obstacle(const tile::SiteTable& sites) const {
  // Sites first: what is missing of those says more than that there is no state.
  for (const bool group : {false, true})
    for (const Rule& rule : rules)
      if (rule.required && (find_group(rule.site) != nullptr) == group && members(rule, sites).empty())
        return text("contract ", name, ": the kernel has no ", group ? "" : "site ", shown(rule.site),
                    "; its sites are ", listed(sites));
  if (!rules.empty() &&
      std::all_of(rules.begin(), rules.end(), [&](const Rule& r) { return members(r, sites).empty(); }))
    return text("contract ", name, ": the kernel has none of its sites; its sites are ", listed(sites));
  return "";
}

Policy Contract::policy(const tile::SiteTable& sites) const {
  const std::string why = obstacle(sites);
  if (!why.empty()) throw InputError(why);
  Policy policy = Policy::of(sites, precision);
  for (const Rule& rule : rules)
    for (const std::string_view site : members(rule, sites)) policy.sites = policy.sites.with(site, rule.format);
  for (const Rule& rule : rules)
    if (rule.site == descale_site && rule.format == Format::exact && policy.sites.find(descale_site) >= 0)
      policy.sites = policy.sites.without(descale_site);
  policy.rounding = rounding;
  if (products > 0) policy.products = products;
  return policy;
}

std::span<const SiteGroup> site_groups() { return groups; }

std::span<const Contract> named_contracts() {
  static const std::vector<Contract> all = make_named();
  return all;
}

const Contract* find_contract(std::string_view name) {
  for (const Contract& contract : named_contracts())
    if (contract.name == name) return &contract;
  return nullptr;
}

Contract parse_contract(const std::string& text, const std::string& source) {
  const Json object = parse_json(text, source);
  require(object.is_object(), source, ": expected an object with a name, a base and sites");
  constexpr std::string_view known[] = {"name",           "description", "base",    "sites",
                                        "optional_sites", "rounding",    "products"};
  for (const auto& [key, value] : object.items())
    require(std::find(std::begin(known), std::end(known), key) != std::end(known), source, ": ", shown(key),
            ": a contract has name, description, base, sites, optional_sites, rounding and products");
  const std::string name = text_at(object, "name", source, true), base = text_at(object, "base", source, true);
  // Names are words of reports, of CSV and of command lines.
  require(!name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), is_of_a_name), source,
          ": name: expected at most 64 letters, digits and any of _ - . + /, got ", shown(name));
  require(find_contract(name) == nullptr, source, ": name: there is a contract ", name, " already");
  const Contract* known_base = find_contract(base);
  require(known_base != nullptr, source, ": base: there is no contract ", shown(base), "; there are ", known_names());
  Contract contract = *known_base;
  contract.name = name, contract.file = source;
  contract.summary = text_at(object, "description", source, false);
  std::replace_if(
      contract.summary.begin(), contract.summary.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; },
      ' ');
  add_rules(contract, object, source);
  if (object.contains("rounding")) contract.rounding = rounding_from(text_at(object, "rounding", source, true), source);
  if (const auto products = object.find("products"); products != object.end()) {
    require(products->is_number_integer() && *products >= 1 && *products <= 1024, source,
            ": products: expected an integer from 1 to 1024");
    contract.products = products->get<int>();
  }
  return contract;
}

Contract contract_from(const std::string& name_or_file) {
  if (const Contract* contract = find_contract(name_or_file)) return *contract;
  std::error_code unknown;
  std::vector<std::string> names;
  for (const Contract& contract : named_contracts()) names.push_back(contract.name);
  require(std::filesystem::exists(name_or_file, unknown) && !std::filesystem::is_directory(name_or_file, unknown),
          "--contract: there is no ", name_or_file, did_you_mean(name_or_file, names), "; there are ", known_names(),
          ", and files (docs/contracts.md)");
  std::string text = read_text(name_or_file);
  require(!text.empty(), name_or_file, ": not a contract: it is empty");
  Contract contract = parse_contract(text, name_or_file);
  contract.json = std::move(text);
  return contract;
}

}  // namespace assay
