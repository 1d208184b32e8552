#pragma once
// The flags that describe a seeded case, as every verb spells them.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "oracles/core/room.hpp"
#include "reference/core/format.hpp"
#include "reference/core/inputs.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name
class App;
class Validator;
}  // namespace CLI

namespace assay {

/// The formats that inputs are rounded to, and that a contract is known for.
inline constexpr Format case_precisions[] = {Format::fp64, Format::fp32, Format::tf32, Format::bf16,
                                             Format::fp16, Format::e4m3, Format::e5m2};

/// What was typed.
struct CaseFlags {
  std::string style{name_of(Style::normal)};
  std::uint64_t seed = 0;
  std::vector<std::string> params;
};

/// Adds --style, --seed and --param.
void add_case_flags(CLI::App& app, CaseFlags& flags);

/// Adds --contract NAME|FILE.json, which excludes a --precision added before; `what` says what for.
void add_contract_flag(CLI::App& app, std::string& contract, const std::string& what);

/// Adds --false-alarms RATE.
void add_false_alarms_flag(CLI::App& app, double& rate);

/// Refuses what is none of these names, and says which of them may have been meant.
CLI::Validator one_of(const std::vector<std::string>& names);

/// Refuses what is no number from `low` to `high`. CLI::Range takes NaN.
std::function<std::string(const std::string&)> number_in(double low, double high);
/// Seconds that a limit may be of.
inline constexpr double shortest_limit = 1e-3, longest_limit = 1e7;
/// Seconds after which no more work begins: the first piece of it does in any case.
inline constexpr double shortest_effort = 1e-9;

/// The settings typed. Throws InputError unless each is NAME=VALUE.
Params params_of(const CaseFlags& flags);

/// The settings and numbers that the mechanism has.
std::vector<std::string> params_known_to(const Room& room);
/// Whether the mechanism has a setting or a number of that name.
bool takes(const Room& room, std::string_view param);

/// Throws InputError if the room knows no such setting or does not take its value. One token of `shape` is tried.
void refuse_params(const Room& room, const Params& params, Shape shape);

/// Whether a list that a flag has filled asks for `entry`: a list that nobody has filled asks for all.
template <class List, class Entry>
bool asks_for(const List& list, const Entry& entry) {
  return list.empty() || std::find(list.begin(), list.end(), entry) != list.end();
}

/// Their names, for one_of.
template <class List>
std::vector<std::string> name_list(const List& list) {
  std::vector<std::string> names;
  for (const auto& entry : list) names.emplace_back(name_of(entry));
  return names;
}

/// Their names in one line, for messages.
template <class List, class Name>
std::string names_in(const List& list, Name name) {
  std::string names;
  for (const auto& entry : list) names += (names.empty() ? "" : ", ") + std::string(name(entry));
  return names;
}

/// The room called `name`. Throws InputError that begins with `flag` and lists those that exist.
const Room& room_named(std::string_view name, std::string_view flag);

}  // namespace assay
