#include "arguments/listed_room.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "arguments/programs/library.hpp"
#include "language/answers/by_tier.hpp"
#include "language/program/builder.hpp"
#include "language/program/lists.hpp"
#include "language/room.hpp"

namespace assay::arguments {
namespace {

/// Gives the program an input that adds to the output of that name wherever the body reads it, zero where a case has
/// none: its gradient is that by what the room works out. Changes nothing where no output is called so.
void add_derived(language::Program& program, std::string_view name) {
  const std::optional<int> derived = program.output(name);
  if (!derived) return;
  const language::Block& body = *program.body;
  const language::Type type = body.type(*derived);
  std::vector<language::Type> params = body.params;
  language::Builder missing(params);
  const int zeros = missing.zeros(type);
  params.push_back(type);
  language::Builder out(std::move(params));
  std::vector<int> at = language::first_values(body.params.size());
  for (const language::Node& node : body.nodes) {
    const int v = out.append(node.op, language::mapped(node.args, at), node.attributes);
    const bool here = static_cast<int>(at.size()) == *derived;
    at.push_back(here ? out.append(language::Op::add, {v, body.first()}, {}) : v);
  }
  program.inputs.push_back({std::string(name), type, "real", std::move(missing).finish({zeros})});
  program.body = std::move(out).finish(language::mapped(body.results, at));
}

/// With its gradient, which is derived once; by what the room of these inputs works out, too.
const language::Mechanism& with_gradient(const language::Program& program,
                                         const std::vector<RoomFacts::Ranked>& inputs) {
  static std::mutex guard;
  static std::map<const language::Program*, std::unique_ptr<const language::Mechanism>> known;
  const std::lock_guard lock(guard);
  std::unique_ptr<const language::Mechanism>& one = known[&program];
  if (one) return *one;
  language::Program whole = program;
  for (const RoomFacts::Ranked& input : inputs)
    if (input.field.place == Field::Place::derived) add_derived(whole, input.field.name);
  one = std::make_unique<const language::Mechanism>(std::move(whole));
  return *one;
}

template <class X>
const BasicArray<X>* find(const BasicArrays<X>& arrays, std::string_view name) {
  const auto it = arrays.find(name);
  return it == arrays.end() ? nullptr : &it->second;
}

/// Whether the problem's arrays have heads in front: as many axes as the reference says, and one more.
template <class X>
bool has_heads(const std::vector<RoomFacts::Ranked>& inputs, const BasicProblem<X>& problem) {
  for (const RoomFacts::Ranked& input : inputs)
    if (const BasicArray<X>* array = find(problem.inputs, input.field.name);
        array != nullptr && input.rank > 0 && !input.field.broadcasts)
      return array->shape.size() == static_cast<std::size_t>(input.rank) + 1;
  return false;
}

/// Calls f with the program of the problem's settings and the problem, less the params and cotangents that the program
/// does not have; nothing if these settings were not traced.
template <class F>
auto by_program(const Room& room, const Problem& problem, F&& f) {
  const std::vector<RoomFacts::Ranked> all = room.inputs();
  const language::Program* const program = find_mechanism_program(room.name, settings_of(all, problem));
  std::optional<decltype(f(with_gradient(*program, all), problem))> result;
  if (program == nullptr) return result;
  Problem known = problem;
  std::erase_if(known.params, [&](const auto& param) {
    return !program->settings.contains(param.first) && program->input(param.first) == nullptr;
  });
  std::erase_if(known.cotangents, [&](const auto& cotangent) { return !program->output(cotangent.first); });
  return result = f(with_gradient(*program, all), known), result;
}

/// Without gradients of inputs that the problem leaves out and that have no value then.
template <class N, class X>
void leave_out_absent(const Room& room, const BasicProblem<X>& problem, BasicArrays<N>& gradients) {
  for (const RoomFacts::Ranked& input : room.inputs())
    if (input.field.missing == Field::Missing::absent && !problem.inputs.contains(input.field.name))
      if (const auto found = gradients.find(input.field.name); found != gradients.end()) gradients.erase(found);
}

}  // namespace

template <class X>
Params settings_of(const std::vector<RoomFacts::Ranked>& inputs, const BasicProblem<X>& problem) {
  Params settings = problem.params;
  settings["pairs"] = std::string(problem.params.contains("window") ? "newest" : "all");
  for (const RoomFacts::Ranked& input : inputs) {
    const BasicArray<X>* array = find(problem.inputs, input.field.name);
    if (!input.field.broadcasts || array == nullptr) continue;
    const std::size_t axes = array->shape.size() - (has_heads(inputs, problem) && !array->shape.empty() ? 1 : 0);
    settings["ridge"] = std::string(axes == 0 ? "" : axes == 1 ? "T" : "T K");
  }
  return settings;
}
template Params settings_of(const std::vector<RoomFacts::Ranked>& inputs, const Problem& problem);

template <class X>
const language::Mechanism& ListedRoom::program_of(const BasicProblem<X>& problem) const {
  const std::vector<RoomFacts::Ranked> all = inputs();
  return with_gradient(mechanism_program(name, settings_of(all, problem)), all);
}

Decimals ListedRoom::decimals(const BasicProblem<std::string>& problem, const DecimalOptions& options) const {
  admit(problem);
  Decimals result = language::decimals(program_of(problem), problem, options);
  leave_out_absent(*this, problem, result.gradients);
  std::erase_if(result.bounds, [&](const auto& bound) {
    return bound.first.starts_with("d_") && !result.gradients.contains(bound.first.substr(2));
  });
  if (prints_value_by_key(problem)) assay::detail::transpose(result.outputs.find("final_state")->second);
  Decimals of_rows = rows(problem, options);
  result.outputs.merge(of_rows.outputs), result.bounds.merge(of_rows.bounds);
  return result;
}

BasicAnswer<HiLo> ListedRoom::values(const Problem& problem, Tier tier) const {
  if (words_of(tier) > 0)
    if (const auto pairs = in_words(problem, {words_of(tier), 1})) return assay::detail::pairs_of(*pairs);
  admit(problem);
  BasicAnswer<HiLo> result = language::values(program_of(problem), problem, tier);
  leave_out_absent(*this, problem, result.gradients);
  return result;
}

std::optional<BasicAnswer<Enclosed>> ListedRoom::enclosed(const Problem& problem) const {
  admit(problem);
  auto result = language::enclosed(program_of(problem), problem);
  if (result) leave_out_absent(*this, problem, result->gradients);
  return result;
}

std::optional<BasicAnswer<Enclosed>> ListedRoom::in_words(const Problem& problem, const WordEffort& effort) const {
  if (const auto found = admitted_by_engine(problem, effort)) return assay::detail::word_pairs(*found, effort.threads);
  auto result = language::in_words(program_of(problem), problem, effort);
  if (result) leave_out_absent(*this, problem, result->gradients);
  return result;
}

std::optional<Answer> ListedRoom::shapes(const Problem& problem) const {
  admit(problem);
  Answer result = language::shapes(program_of(problem), problem);
  leave_out_absent(*this, problem, result.gradients);
  return result;
}

Answer ListedRoom::emulated(const Problem& problem) const {
  admit(problem);
  Answer result = language::emulated(program_of(problem), problem);
  leave_out_absent(*this, problem, result.gradients);
  return result;
}

std::optional<Arrays> ListedRoom::term_sizes(const Problem& problem, const HeldIn& numbers, int threads) const {
  admit(problem);
  return language::term_sizes(program_of(problem), problem, numbers, threads);
}

std::unique_ptr<Trajectory> ListedRoom::trajectory(Tier tier) const {
  if (carried_names(*this).empty()) return nullptr;
  const auto program = [this](const Problem& segment) -> const language::Mechanism& {
    admit(segment);
    return program_of(segment);
  };
  return language::trajectory(program, tier);
}

std::optional<Answer> emulated_by_program(const Room& room, const Problem& problem, const Answer& handed_on) {
  std::optional<Answer> found = by_program(room, problem, language::emulated);
  if (!found) return found;
  found->outputs.insert(handed_on.outputs.begin(), handed_on.outputs.end());
  leave_out_absent(room, problem, found->gradients);
  for (const auto& [name, more] : handed_on.gradients) {
    std::vector<double>& sum = found->gradients.at(name).data;
    std::ranges::transform(sum, more.data, sum.begin(), std::plus<>());
  }
  return found;
}
std::optional<Arrays> term_sizes_by_program(const Room& room, const Problem& problem, const Answer& handed_on,
                                            const HeldIn& numbers, int threads) {
  std::optional<Arrays> found =
      by_program(room, problem, [&](const language::Mechanism& program, const Problem& known) {
        return language::term_sizes(program, known, numbers, threads);
      });
  if (!found) return found;
  // What is handed on alone is exact.
  for (const auto& [name, copy] : handed_on.outputs)
    found->try_emplace(name, Array{copy.shape, std::vector<double>(copy.count())});
  for (const auto& [name, more] : handed_on.gradients) {
    std::vector<double>& sizes = found->at("d_" + name).data;
    std::ranges::transform(sizes, more.data, sizes.begin(),
                           [](double size, double x) { return size > 0 ? std::max(size, std::fabs(x)) : 0; });
  }
  return found;
}

BasicArrays<HiLo> ListedRoom::slopes(const Problem& problem, const Arrays& tangent) const {
  admit(problem);
  return language::slopes(program_of(problem), problem, tangent);
}

}  // namespace assay::arguments
