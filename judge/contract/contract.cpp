#include "judge/contract/contract.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "files/case_file.hpp"
#include "files/did_you_mean.hpp"
#include "files/input_file.hpp"
#include "files/names.hpp"
#include "oracles/core/room.hpp"
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
  const auto* const it = std::ranges::find_if(groups, [&](const SiteGroup& g) { return g.name == name; });
  return it == std::end(groups) ? nullptr : it;
}

/// The site of the powers of two that scale operands of 8 bits. A contract that names it `exact` has none.
constexpr const char* descale_site = "descale";

/// A name out of a file as a message shows it.
std::string shown(const std::string& name) { return excerpt(name, 40); }

/// The sites that a rule speaks of.
Names members(const Contract::Rule& rule, const tile::SiteTable& sites) {
  if (!rule.beside.empty() && sites.find(rule.beside) < 0) return {};
  if (const SiteGroup* group = find_group(rule.site)) return group->members(sites);
  return sites.find(rule.site) >= 0 ? Names{rule.site} : Names{};
}

std::string joined(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : " and ") + word;
  return list;
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
  constexpr Format bf16 = Format::bf16;
  all.push_back({.name = "bf16_state",
                 .summary = "bf16, and the state that is carried from chunk to chunk is kept in bf16, too",
                 .rules = {{"state", bf16}}});
  all.push_back({.name = "bf16_state_per_token",
                 .summary = "as bf16_state, rounded after every token, as recurrent kernels store it",
                 .products = 1,
                 // Programs whose chunks come together as sums have no such state: they end in another site.
                 .rules = {{"state", bf16}, {"final", bf16}}});
  all.push_back({.name = "e4m3_unscaled",
                 .summary = "e4m3, and operands are rounded as they are, not as multiples of units of their heads: "
                            "beyond 448 they saturate, below 2^-10 they vanish",
                 .precision = Format::e4m3,
                 .rules = {{descale_site, Format::exact}}});
  for (Contract& contract : library_contracts()) all.push_back(std::move(contract));
  for (Contract& contract : block_contracts()) all.push_back(std::move(contract));
  return all;
}

// ---- JSON

/// The string under `name` in a contract's object, "" where there is none.
std::string text_at(const Json& object, const char* name, const std::string& source, bool required) {
  const auto it = object.find(name);
  if (it == object.end()) {
    require(!required, source, ": no ", name);
    return "";
  }
  require(it->is_string(), source, ": ", name, ": expected a string");
  return it->get<std::string>();
}

/// The sites of softmax attention whose numbers may be multiples of scales of blocks.
constexpr std::string_view sites_of_blocks[] = {"Q", "K", "V", "P", "dS"};

/// Refuses blocks that no kernel has there.
void check_blocks(const Contract::Rule& rule, const std::string& where) {
  if (rule.blocks.none()) return;
  require(std::find(std::begin(sites_of_blocks), std::end(sites_of_blocks), rule.site) != std::end(sites_of_blocks),
          where, ": blocks are of the sites Q, K, V, P and dS of softmax attention");
  require(!rule.blocks.centred || rule.site == "K", where,
          ": only keys may be centred: what is taken off all of them changes no weight");
}

/// The rules that `key` of a contract's object holds.
std::vector<Contract::Rule> rules_from(const Json& sites, const char* key, const std::string& source) {
  const bool required = std::string_view(key) == "sites";
  require(sites.is_object(), source, ": ", key, ": expected an object of formats");
  std::vector<Contract::Rule> rules;
  for (const auto& [site, value] : sites.items()) {
    require(value.is_string(), source, ": ", key, ".", shown(site), ": expected the name of a format");
    const std::optional<BlockFormat> format = block_format_from(value.get<std::string>());
    require(format.has_value(), source, ": ", key, ".", shown(site), ": there is no format ",
            shown(value.get<std::string>()), "; there are ", names_in(name_list(all_formats)),
            ", and blocks such as e2m1/1x16:e4m3 (docs/contracts.md)");
    rules.push_back(
        {.site = site, .format = format->format, .required = required, .fixed = true, .blocks = format->blocks});
    check_blocks(rules.back(), text(source, ": ", key, ".", shown(site)));
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

/// All sites alike, or an object of modes by site or group.
void add_rounding(Contract& contract, const Json& value, const std::string& source) {
  require(value.is_string() || value.is_object(), source, ": rounding: expected a mode, or an object of modes by site");
  if (value.is_string()) {
    contract.rounding = rounding_from(value.get<std::string>(), source);
    return;
  }
  for (const auto& [site, mode] : value.items()) {
    require(mode.is_string(), source, ": rounding.", shown(site), ": expected nearest_even or toward_zero");
    std::erase(contract.towards_zero, site);
    if (rounding_from(mode.get<std::string>(), source) == Rounding::toward_zero) contract.towards_zero.push_back(site);
  }
}

/// A list of different names that is not empty.
std::vector<std::string> names_at(const Json& object, const char* key, const std::string& source) {
  const Json& list = object.at(key);
  require(list.is_array() && !list.empty(), source, ": ", key, ": expected a list of names");
  std::vector<std::string> names;
  for (const Json& entry : list) {
    require(entry.is_string(), source, ": ", key, ": expected a list of names");
    names.push_back(entry.get<std::string>());
    require(std::count(names.begin(), names.end(), names.back()) == 1, source, ": ", key, ": ", shown(names.back()),
            " is there twice");
  }
  return names;
}

Accumulation accumulation_from(const std::string& name, const std::string& source) {
  for (const Accumulation way : all_accumulations)
    if (name == name_of(way)) return way;
  throw InputError(text(source, ": accumulation: expected exact_blocks, cut_off or one_by_one, got ", shown(name)));
}

bool is_input(std::string_view name) {
  for (const Room* room : rooms())
    for (const RoomFacts::Ranked& ranked : room->inputs())
      if (ranked.field.name == name && ranked.rank > 0) return true;
  return false;
}

/// The contract of a name, or of NAME/PRECISION.
std::optional<Contract> known_contract(const std::string& name) {
  if (const Contract* contract = find_contract(name)) return *contract;
  const std::size_t slash = name.rfind('/');
  if (slash == std::string::npos) return std::nullopt;
  const Contract* contract = find_contract(name.substr(0, slash));
  const std::optional<Format> precision = format_from(name.substr(slash + 1));
  if (contract == nullptr || !contract->follows || !precision) return std::nullopt;
  Contract fixed = contract->in(*precision);
  const bool is_asked_for = *precision == contract->precision || fixed.precision != contract->precision;
  if (!is_asked_for || *precision == Format::tf32) return std::nullopt;
  fixed.name = name, fixed.follows = false;
  return fixed;
}

std::string known_names() {
  return names_in(named_contracts(), [](const Contract& contract) { return contract.name; });
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
  if (!follows || !(wide ? of_fp32.has_value() : case_precision == Format::fp16)) return contract;
  contract.precision = wide ? *of_fp32 : Format::fp16;
  for (Rule& rule : contract.rules)
    if (!rule.fixed && rule.format == precision) rule.format = wide && rule.stored ? Format::fp32 : contract.precision;
  // Tensor cores cut off the operands of a product in tf32; nothing rounds them before (docs/contracts.md).
  if (contract.precision == Format::tf32) contract.towards_zero.emplace_back("operands");
  return contract;
}

bool Contract::has_blocks() const {
  return std::any_of(rules.begin(), rules.end(), [](const Rule& rule) { return !rule.blocks.none(); });
}

std::vector<Accumulation> Contract::accumulations(const tile::SiteTable& sites) const {
  if (!accumulation.empty()) return accumulation;
  const Policy own = policy(sites);
  if (own.products == 1) return {Accumulation::one_by_one};
  // A contract that says how many products are summed before they are rounded is kept to it; and where a state is
  // narrower than other sums, one that rounds it at every product has another contract.
  Format widest = Format::bf16, narrowest = Format::fp64;
  for (int i = 0; i < own.sites.size; ++i) {
    const auto& [site, role, format, blocks] = own.sites.entries[i];
    if (role != tile::Role::accumulator) continue;
    if (info(format).mantissa_bits > info(widest).mantissa_bits) widest = format;
    if (info(format).mantissa_bits < info(narrowest).mantissa_bits) narrowest = format;
  }
  if (products > 0 || info(narrowest).mantissa_bits < info(widest).mantissa_bits) return {Accumulation::exact_blocks};
  return {std::begin(all_accumulations), std::end(all_accumulations)};
}

std::vector<std::string_view> Contract::cut_off_sites(const tile::SiteTable& sites) const {
  Names names;
  for (const std::string& site : towards_zero)
    for (const std::string_view member : members({.site = site}, sites)) names.push_back(member);
  return names;
}

std::vector<std::string_view> Contract::factored(const tile::SiteTable& sites) const {
  Names names;
  for (const Factor& factor : factors)
    if (factor.beside.empty() || sites.find(factor.beside) >= 0) names.push_back(factor.input);
  return names;
}

std::vector<std::string> Contract::clauses() const {
  std::vector<std::string> list;
  if (products > 0) list.push_back(text(products, " products to a rounding"));
  if (rounding != Rounding::nearest_even) list.push_back(text("rounded ", name_of(rounding)));
  if (!towards_zero.empty()) list.push_back(joined(towards_zero) + " may be cut off");
  std::vector<std::string> inputs;
  for (const Factor& factor : factors) inputs.push_back(factor.input);
  if (!inputs.empty()) list.push_back("factors may be on " + joined(inputs));
  if (per_query_head) list.emplace_back("gradients of shared heads stored per query head");
  if (!accumulation.empty()) {
    std::vector<std::string> ways;
    for (const Accumulation way : accumulation) ways.emplace_back(name_of(way));
    list.push_back("sums by " + joined(ways));
  }
  return list;
}

namespace {

/// The part of a contract that a kernel with these sites lacks: "no site m", or "".
std::string missing(const Contract& contract, const tile::SiteTable& sites) {
  if (contract.has_blocks() && (sites.find("P") < 0 || sites.find(descale_site) < 0)) return "no operands in blocks";
  // Sites first: what is missing of those says more than that there is no state.
  for (const bool group : {false, true})
    for (const Contract::Rule& rule : contract.rules)
      if (rule.required && (find_group(rule.site) != nullptr) == group && members(rule, sites).empty())
        return text("no ", group ? "" : "site ", shown(rule.site));
  const bool none = std::all_of(contract.rules.begin(), contract.rules.end(),
                                [&](const Contract::Rule& r) { return members(r, sites).empty(); });
  return none && !contract.rules.empty() ? "none of its sites" : "";
}

}  // namespace

std::string Contract::obstacle(const tile::SiteTable& sites) const {
  const std::string lacks = missing(*this, sites);
  if (lacks.empty()) return "";
  // A contract with its own rules is answered with the kernel's sites, a named one with the others that fit.
  std::string fit;
  for (const Contract& other : named_contracts())
    if (!other.rules.empty() && missing(other, sites).empty()) fit += (fit.empty() ? "" : ", ") + other.name;
  return text("contract ", name, ": the kernel has ", lacks, "; ",
              find_contract(name) == nullptr || fit.empty() ? text("its sites are ", listed(sites))
                                                            : text("contracts that fit it are ", fit));
}

Policy Contract::policy(const tile::SiteTable& sites) const {
  const std::string why = obstacle(sites);
  if (!why.empty()) throw InputError(why);
  Policy policy = Policy::of(sites, precision);
  for (const Rule& rule : rules)
    for (const std::string_view site : members(rule, sites))
      policy.sites = policy.sites.with(site, rule.format, rule.blocks);
  for (const Rule& rule : rules)
    if (rule.site == descale_site && rule.format == Format::exact && policy.sites.find(descale_site) >= 0)
      policy.sites = policy.sites.without(descale_site);
  policy.rounding = rounding;
  if (products > 0) policy.products = products;
  if (accumulation == std::vector{Accumulation::one_by_one}) policy.products = 1;
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
  constexpr std::string_view known[] = {"name",     "description", "base",         "sites",   "optional_sites",
                                        "rounding", "products",    "accumulation", "factors", "per_query_head"};
  for (const auto& [key, value] : object.items())
    require(std::find(std::begin(known), std::end(known), key) != std::end(known), source, ": ", shown(key),
            ": a contract has name, description, base, sites, optional_sites, rounding, products, accumulation, "
            "factors and "
            "per_query_head");
  const std::string name = text_at(object, "name", source, true), base = text_at(object, "base", source, true);
  // Names are words of reports, of CSV and of command lines.
  require(!name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), is_of_a_name), source,
          ": name: expected at most 64 letters, digits and any of _ - . + /, got ", shown(name));
  require(find_contract(name) == nullptr, source, ": name: there is a contract ", name, " already");
  std::optional<Contract> known_base = known_contract(base);
  require(known_base.has_value(), source, ": base: there is no contract ", shown(base), "; there are ", known_names());
  Contract contract = *std::move(known_base);
  contract.name = name, contract.file = source;
  contract.summary = text_at(object, "description", source, false);
  std::replace_if(
      contract.summary.begin(), contract.summary.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; },
      ' ');
  add_rules(contract, object, source);
  if (const auto rounding = object.find("rounding"); rounding != object.end())
    add_rounding(contract, *rounding, source);
  if (const auto products = object.find("products"); products != object.end()) {
    require(products->is_number_integer() && *products >= 1 && *products <= 1024, source,
            ": products: expected an integer from 1 to 1024");
    contract.products = products->get<int>();
  }
  if (const auto per_head = object.find("per_query_head"); per_head != object.end()) {
    require(per_head->is_boolean(), source, ": per_query_head: expected true or false");
    contract.per_query_head = per_head->get<bool>();
  }
  if (object.contains("accumulation")) {
    contract.accumulation.clear();
    for (const std::string& name_of_way : names_at(object, "accumulation", source))
      contract.accumulation.push_back(accumulation_from(name_of_way, source));
  }
  if (object.contains("factors")) {
    contract.factors.clear();
    for (const std::string& input : names_at(object, "factors", source)) {
      require(is_input(input), source, ": factors: no mechanism has an input ", shown(input));
      contract.factors.push_back({input});
    }
  }
  return contract;
}

Contract contract_from(const std::string& name_or_file) {
  if (std::optional<Contract> contract = known_contract(name_or_file)) return *std::move(contract);
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
