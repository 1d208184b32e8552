// Answers to JSON cases with arguments: files/case_file.hpp declares them.
#include <algorithm>
#include <optional>
#include <string>

#include "arguments/folded.hpp"
#include "arguments/programs/families.hpp"
#include "arguments/registry.hpp"
#include "files/case_file.hpp"
#include "language/answers/decimals.hpp"

namespace assay::arguments {
namespace {

void undefine(BasicArray<Cell>& array, const std::vector<bool>& defined) {
  for (std::size_t i = 0; i < array.data.size(); ++i)
    if (!defined[i]) array.data[i] = {"", Cell::Kind::undefined};
}

/// Sets to undefined what no piece says: outputs of rows outside of every sequence, and gradients of numbers that are
/// no sequence's. The lse of a row that sees nothing is -inf.
void finish(const Plan& plan, Decimals& answer) {
  for (auto& [name, array] : answer.outputs) undefine(array, answered_numbers(plan, name));
  for (auto& [name, array] : answer.gradients)
    if (plan.padded.contains(name)) undefine(array, numbers_of_pieces(plan, name));
  const auto empty = answer.outputs.find("empty");
  if (empty == answer.outputs.end()) return;
  std::vector<Cell>& lse = answer.outputs.at("lse").data;
  for (std::size_t i = 0; i < lse.size(); ++i) {
    const Cell& one = empty->second.data[i];
    if (one.kind == Cell::Kind::decimal && !one.text.starts_with("0")) lse[i].text = "-inf";
  }
  answer.outputs.erase(empty);
  answer.bounds.erase("empty");
}

/// A ridge of zero leaves a matrix that may have no inverse.
bool may_be_singular(const Plan& plan) {
  const auto lambda = plan.inputs.find("lambda");
  return lambda != plan.inputs.end() && std::any_of(lambda->second.data.begin(), lambda->second.data.end(),
                                                    [](const std::string& x) { return sign_of(x) == 0; });
}

Decimals decimals(const Folded& folded, const DecimalOptions& options) {
  const bool gradients = folded.has_cotangents();
  if (!options.tier || *options.tier == Tier::ball || words_of(*options.tier) > 0)
    return language::detail::proven(folded, gradients, options.digits);
  return assay::detail::with_scalar(*options.tier, [&]<class S>(const S&) {
    return assay::detail::printed(answer<S>(folded, gradients), options.digits);
  });
}

Decimals answered(const Given& given, const Facts& facts, const DecimalOptions& options) {
  admit_names(given, facts);
  if (facts.family == Family::quantizer) return quantized(given, options.digits);
  const Plan plan = plan_of(given, facts);
  admit_numbers(plan);
  try {
    Decimals answer = decimals(Folded(plan), options);
    finish(plan, answer);
    return answer;
  } catch (const Refusal& refusal) {
    if (refusal.status() != Status::nonfinite || !may_be_singular(plan)) throw;
    throw Refusal(Status::singular, refusal.row(),
                  text("lambda: is zero where keys leave its matrix singular: ", refusal.what()));
  }
}

}  // namespace

std::optional<Decimals> answer_with_arguments(const Case& c, const DecimalOptions& options) {
  if (c.problem.id.empty() || c.problem.mechanism.empty()) return std::nullopt;
  std::optional<Given> given;
  Facts facts;
  try {
    given.emplace(c.record), facts = facts_of(given->mechanism());
  } catch (const InputError&) {  // who answers plain cases says why
    return std::nullopt;
  }
  const auto is_said = [&](Part part) {
    return std::ranges::any_of(given->names(name_of(part)),
                               [&](const std::string& name) { return is_argument(facts, part, name); });
  };
  const bool has_arguments = facts.room == nullptr
                                 ? facts.family != Family::other
                                 : is_said(Part::params) || is_said(Part::inputs) || is_said(Part::cotangents);
  if (!has_arguments) return std::nullopt;
  return answered(*given, facts, options);
}

}  // namespace assay::arguments
