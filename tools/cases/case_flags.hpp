#pragma once
// The flags that describe a seeded case, as every verb spells them.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "files/names.hpp"
#include "files/problem_file.hpp"
#include "oracles/core/room.hpp"
#include "reference/core/inputs.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's own name
class App;
class Option;
class Validator;
}  // namespace CLI

namespace assay {

/// The flags as typed.
struct CaseFlags {
  std::string style{name_of(Style::normal)};
  std::uint64_t seed = 0;
  std::vector<std::string> params;
};

/// Adds --style, --seed and --param; `more_styles`: those beside the ones of all mechanisms.
void add_case_flags(CLI::App& app, CaseFlags& flags, const std::vector<std::string>& more_styles = {});

/// As above, with the styles of arguments (docs/arguments.md), --with and --layout.
void add_argument_flags(CLI::App& app, CaseFlags& flags, std::vector<std::string>& with, std::string& layout);

/// Adds --mechanism NAME|FILE.json, for a case that names one itself.
void add_mechanism_flag(CLI::App& app, std::string& mechanism);

/// Adds --contract NAME|FILE.json, which excludes a --precision added before; `what` says what for.
void add_contract_flag(CLI::App& app, std::string& contract, const std::string& what);

/// Adds a flag that is one of these words, its default told.
void add_choice_flag(CLI::App& app, const std::string& flag, std::string& word, const std::string& help,
                     const std::vector<std::string>& words);
/// Adds a flag of names with commas between, which may be given several times.
CLI::Option* add_list_flag(CLI::App& app, const std::string& flag, std::vector<std::string>& names,
                           const std::string& help);
/// Adds --threads, of work whose results do not depend on it.
void add_threads_flag(CLI::App& app, int& threads);

/// Adds --false-alarms RATE.
void add_false_alarms_flag(CLI::App& app, double& rate);
/// --judge, as judge_on takes it.
void add_judge_flag(CLI::App& app, std::string& where);

/// Refuses what is none of these names, and says which of them may have been meant.
CLI::Validator one_of(const std::vector<std::string>& names);

/// Refuses what is no number from `low` to `high`. CLI::Range takes NaN.
std::function<std::string(const std::string&)> number_in(double low, double high);
/// Refuses what is no whole number from `low` to `high`. The words of CLI::Range depend on its version.
CLI::Validator whole_in(std::int64_t low, std::int64_t high);
/// Refuses what no seed holds: CLI11 takes -1 and 2^64 for the largest one.
CLI::Validator any_seed();
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

}  // namespace assay
