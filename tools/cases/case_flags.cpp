#include "tools/cases/case_flags.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

#include "arguments/drawn_case.hpp"
#include "arguments/registry.hpp"
#include "files/did_you_mean.hpp"
#include "reference/core/error.hpp"

namespace assay {

std::vector<std::string> params_known_to(const Room& room) {
  std::vector<std::string> names(room.options.begin(), room.options.end());
  for (const RoomFacts::Ranked& r : room.inputs())
    if (r.field.place == Field::Place::param) names.emplace_back(r.field.name);
  return names;
}

bool takes(const Room& room, std::string_view param) {
  const std::vector<std::string> names = params_known_to(room);
  return std::find(names.begin(), names.end(), param) != names.end();
}

CLI::Validator one_of(const std::vector<std::string>& names) {
  return {[=](const std::string& typed) {
            if (std::find(names.begin(), names.end(), typed) != names.end()) return std::string();
            return there_is_no(typed, names);
          },
          "{" + CLI::detail::join(names, ",") + "}"};
}

void add_choice_flag(CLI::App& app, const std::string& flag, std::string& word, const std::string& help,
                     const std::vector<std::string>& words) {
  app.add_option(flag, word, help)->check(one_of(words))->capture_default_str();
}

CLI::Option* add_list_flag(CLI::App& app, const std::string& flag, std::vector<std::string>& names,
                           const std::string& help) {
  return app.add_option(flag, names, help)->delimiter(',')->allow_extra_args(false);
}

void add_threads_flag(CLI::App& app, int& threads) {
  app.add_option("--threads", threads, "0 is all cores; the results do not depend on it")
      ->check(whole_in(0, 1024))
      ->capture_default_str();
}

void add_case_flags(CLI::App& app, CaseFlags& flags, const std::vector<std::string>& more_styles) {
  std::vector<std::string> styles = name_list(all_styles);
  styles.insert(styles.end(), more_styles.begin(), more_styles.end());
  add_choice_flag(app, "--style", flags.style, "how the inputs are distributed", styles);
  app.add_option("--seed", flags.seed, "of the inputs")->check(any_seed())->capture_default_str();
  app.add_option("--param", flags.params, "a setting of the mechanism, NAME=VALUE; may be given several times")
      ->allow_extra_args(false);
}

void add_argument_flags(CLI::App& app, CaseFlags& flags, std::vector<std::string>& with, std::string& layout) {
  std::vector<std::string> styles;
  for (const arguments::ArgumentStyle& style : arguments::argument_styles()) styles.emplace_back(style.name);
  add_case_flags(app, flags, styles);
  app.add_option("--with", with,
                 "an argument that is a tensor (docs/arguments.md), NAME or NAME=NUMBERS: sink, bias, "
                 "cu_seqlens=0,5,5,64; may be given several times. Those that are settings are --param")
      ->allow_extra_args(false);
  add_choice_flag(app, "--layout", layout, "how rows lie: [B, T, H, d], [B, H, T, d], or packed [T, H, d]",
                  {"bthd", "bhtd", "thd"});
}

void add_mechanism_flag(CLI::App& app, std::string& mechanism) {
  app.add_option(
      "--mechanism", mechanism,
      "the mechanism in place of the case's: a name of `assay list`, or a program's file, gdn2.json or gdn2.py");
}

void add_contract_flag(CLI::App& app, std::string& contract, const std::string& what) {
  app.add_option(
         "--contract", contract,
         what + ": a name of `assay list contracts`, or a JSON file (docs/contracts.md); the contract has a precision")
      ->excludes("--precision");
}

void add_false_alarms_flag(CLI::App& app, double& rate) {
  app.add_option("--false-alarms", rate, "probability that correct kernels fail, in any tensor of all that is judged")
      ->check([](const std::string& typed) {
        double value = 0;
        const bool fits = CLI::detail::lexical_cast(typed, value) && value >= 1e-16 && value <= 0.1;
        return fits ? std::string() : "expected a probability of 1e-16 to 0.1, got " + typed;
      })
      ->capture_default_str();
}

void add_judge_flag(CLI::App& app, std::string& where) {
  add_choice_flag(
      app, "--judge", where,
      "where truth and the draws are computed that say how far a correct kernel may be off: auto is the GPU "
      "if this build has "
      "kernels for it, one is there and the case is worth it; the verdicts do not depend on it",
      {"auto", "cpu", "gpu"});
}

std::function<std::string(const std::string&)> number_in(double low, double high) {
  return [=](const std::string& typed) {
    double value = 0;
    const bool fits = CLI::detail::lexical_cast(typed, value) && value >= low && value <= high;
    return fits ? std::string() : text("expected a number from ", low, " to ", high, ", got ", typed);
  };
}

CLI::Validator whole_in(std::int64_t low, std::int64_t high) {
  const std::string range = text(low, " to ", high);
  return {[=](const std::string& typed) {
            std::int64_t value = 0;
            const bool fits = CLI::detail::lexical_cast(typed, value) && value >= low && value <= high;
            return fits ? std::string() : text("expected a whole number from ", range, ", got ", typed);
          },
          range};
}

CLI::Validator any_seed() {
  return {[](const std::string& typed) {
            std::uint64_t seed = 0;
            const char* const end = typed.data() + typed.size();
            const auto [stop, error] = std::from_chars(typed.data(), end, seed);
            if (error == std::errc{} && stop == end) return std::string();
            return text("expected a whole number from 0 to ", std::numeric_limits<std::uint64_t>::max(), ", got ",
                        typed);
          },
          ""};
}

Params params_of(const CaseFlags& flags) {
  Params params;
  for (const std::string& flag : flags.params) {
    auto [name, value] = param_from(flag);
    params.insert_or_assign(std::move(name), std::move(value));
  }
  return params;
}

void refuse_params(const Room& room, const Params& params, Shape shape) {
  if (params.empty()) return;
  const std::vector<std::string> names = params_known_to(room);
  std::vector<std::string> known = names;  // and what kernels take beside these
  for (const arguments::Argument& argument : arguments::all_arguments()) {
    known.emplace_back(argument.name);
    require(
        takes(room, argument.name) || !params.contains(argument.name), "--param: ", argument.name,
        " is an argument (docs/arguments.md): `assay case`, `check`, `report` and `suite` take it, and nothing else");
  }
  for (const auto& [name, value] : params)
    require(takes(room, name), "--param: ", room.name, " has no ", name, did_you_mean(name, known),
            names.empty() ? ", and no other" : "; it has ", names_in(names));
  shape.seq_len = 1, shape.query_len = 0;
  try {
    room.values(room.make({.mechanism = std::string(room.name), .shape = shape, .params = params}), Tier::fp64);
  } catch (const InputError& e) {
    throw InputError(text("--param: ", room.name, ": ", e.what()));
  }
}

}  // namespace assay
