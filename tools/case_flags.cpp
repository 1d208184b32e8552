#include "tools/case_flags.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "reference/core/error.hpp"

namespace assay {

bool takes(const Room& room, std::string_view param) {
  const auto inputs = room.inputs();
  return std::find(room.options.begin(), room.options.end(), param) != room.options.end() ||
         std::any_of(inputs.begin(), inputs.end(), [&](const RoomFacts::Ranked& r) {
           return r.field.place == Field::Place::param && r.field.name == param;
         });
}

void add_case_flags(CLI::App& app, CaseFlags& flags) {
  app.add_option("--style", flags.style, "how the inputs are distributed")
      ->check(CLI::IsMember(name_list(all_styles)))
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "of the inputs")->capture_default_str();
  app.add_option("--param", flags.params, "a setting of the mechanism, NAME=VALUE; may be given several times")
      ->allow_extra_args(false);
}

void add_contract_flag(CLI::App& app, std::string& contract, const std::string& what) {
  app.add_option("--contract", contract,
                 what +
                     ": a name that `assay list contracts` knows, or a JSON file (docs/contracts.md); it says which "
                     "precision")
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

std::function<std::string(const std::string&)> number_in(double low, double high) {
  return [=](const std::string& typed) {
    double value = 0;
    const bool fits = CLI::detail::lexical_cast(typed, value) && value >= low && value <= high;
    return fits ? std::string() : text("expected a number from ", low, " to ", high, ", got ", typed);
  };
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
  for (const auto& [name, value] : params) require(takes(room, name), "--param: ", room.name, " has no ", name);
  shape.seq_len = 1, shape.query_len = 0;
  try {
    room.values(room.make({.mechanism = std::string(room.name), .shape = shape, .params = params}), Tier::fp64);
  } catch (const InputError& e) {
    throw InputError(text("--param: ", room.name, ": ", e.what()));
  }
}

const Room& room_named(std::string_view name, std::string_view flag) {
  const Room* room = find_room(name);
  require(room != nullptr, flag, ": there is no ", name, "; there are ",
          names_in(rooms(), [](const Room* r) { return r->name; }));
  return *room;
}

}  // namespace assay
