#include "language/equal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "language/room.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

/// The written length of the chunks in which the form has that sequence; 0 if it has it as the program does.
int chunk_of(const Program& program, const Program& form, const std::string& name, const Type& type, const Type& to) {
  const std::vector<Dim>&a = type.axes, &b = to.axes;
  if (a.size() == b.size() && type.kind == to.kind) return 0;
  const bool split = !a.empty() && b.size() == a.size() + 1 && !b[0].name.empty() && b[1].name.empty() &&
                     std::equal(a.begin() + 1, a.end(), b.begin() + 2);
  require(split, form.name, ": ", name, " is [", text_of(to), "] where ", program.name, " has [", text_of(type),
          "]; expected the same axes, or tokens in chunks of a written length, as in \"N 16 K\"");
  return b[1].written;
}

/// The numbers of every head in that shape, as many as it has room for; zeros in what room is left.
template <class N>
BasicArray<N> refilled(const BasicArray<N>& array, std::size_t lead, std::vector<int> shape) {
  BasicArray<N> out(std::move(shape));
  const std::size_t blocks = lead > 0 ? static_cast<std::size_t>(array.shape[0]) : 1;
  const std::size_t from = blocks > 0 ? array.count() / blocks : 0, to = blocks > 0 ? out.count() / blocks : 0;
  for (std::size_t b = 0; b < blocks; ++b)
    std::copy_n(array.data.begin() + static_cast<std::ptrdiff_t>(b * from), std::min(from, to),
                out.data.begin() + static_cast<std::ptrdiff_t>(b * to));
  return out;
}

/// [lead, T, ...] as [lead, N, chunk, ...].
Array split(const Array& array, std::size_t lead, int chunk) {
  std::vector<int> shape = array.shape;
  shape[lead] = (shape[lead] + chunk - 1) / chunk;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(lead) + 1, chunk);
  return refilled(array, lead, std::move(shape));
}

/// [lead, N, chunk, ...] as [lead, tokens, ...].
template <class N>
BasicArray<N> joined(const BasicArray<N>& array, std::size_t lead, int tokens) {
  std::vector<int> shape = array.shape;
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(lead));
  shape[lead] = tokens;
  return refilled(array, lead, std::move(shape));
}

Distance distance(const std::string& name, const BasicArray<Enclosed>& a, const BasicArray<Enclosed>& b) {
  Distance found{name, 0, 0, false, {}, 0, 0};
  require(a.shape == b.shape, name, ": the two answer it in different shapes");
  std::size_t worst = 0;
  double worst_excess = -1;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    const Enclosed &x = a.data[i], &y = b.data[i];
    found.largest = std::max({found.largest, std::fabs(x.value.hi), std::fabs(y.value.hi)});
    // Pairs are subtracted with an error below 2^-52 of the difference and 2^-105 of the numbers.
    const double off = std::fabs((x.value.hi - y.value.hi) + (x.value.lo - y.value.lo));
    const double error = 0x1p-50 * off + 0x1p-104 * std::max(std::fabs(x.value.hi), std::fabs(y.value.hi));
    const double known = x.bound + y.bound + error;
    found.bound = std::max(found.bound, off + known);
    found.differs = found.differs || !(off <= known);
    if (!(off - known <= worst_excess) || i == 0) worst_excess = off - known, worst = i;
  }
  if (a.data.empty()) return found;
  found.first = a.data[worst].value.hi, found.second = b.data[worst].value.hi;
  for (std::size_t r = a.shape.size(), rest = worst; r-- > 0; rest /= static_cast<std::size_t>(a.shape[r]))
    found.place.insert(found.place.begin(), static_cast<int>(rest % static_cast<std::size_t>(a.shape[r])));
  return found;
}

BasicAnswer<Enclosed> enclosed(const Room& room, const Program& program, const Problem& problem) {
  auto answer = room.enclosed(problem);
  require(answer.has_value(), program.name,
          ": no enclosure decides a comparison of equal numbers; another --seed may do");
  return std::move(*answer);
}

}  // namespace

Problem problem_of_form(const Program& program, const Program& form, const Problem& problem) {
  Problem out{problem.id, "", {}, {}, {}};
  for (const Input& input : form.inputs)
    require(program.input(input.name) != nullptr || input.missing, form.name, " wants ", input.name, ", which ",
            program.name, " has not");
  for (const auto& [name, value] : problem.params)
    if (form.input(name) != nullptr || form.settings.contains(name)) out.params.emplace(name, value);
  const auto put = [&](const std::string& name, const Array& array, const Type& type, const Type& to, Arrays& arrays) {
    const int chunk = chunk_of(program, form, name, type, to);
    arrays.emplace(name, chunk > 0 ? split(array, array.shape.size() - type.axes.size(), chunk) : array);
  };
  for (const auto& [name, array] : problem.inputs) {
    const Input *input = program.input(name), *to = form.input(name);
    if (to == nullptr)
      require(input->missing != nullptr, form.name, " lacks ", name, ", which ", program.name, " must have");
    else
      put(name, array, input->type, to->type, out.inputs);
  }
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const std::string& name = program.outputs[i];
    const std::optional<int> at = form.output(name);
    require(at.has_value(), form.name, " lacks the output ", name, " of ", program.name);
    const auto cotangent = problem.cotangents.find(name);
    if (cotangent == problem.cotangents.end()) continue;
    put(name, cotangent->second, program.body->result_type(i), form.body->type(*at), out.cotangents);
  }
  return out;
}

template <class N>
BasicAnswer<N> answer_of_program(const Mechanism& program, const Mechanism& form, const Problem& problem,
                                 BasicAnswer<N> of_form) {
  std::optional<Posed<double>> posed;
  const auto put_together = [&](const std::string& name, const Type& type, const Type& to, BasicArrays<N>& arrays) {
    const auto found = arrays.find(name);
    if (found == arrays.end() || chunk_of(program.program, form.program, name, type, to) == 0) return;
    if (!posed) posed.emplace(program, problem);
    const auto tokens = posed->sizes().find(type.axes[0].name);
    found->second = joined(found->second, found->second.shape.size() - to.axes.size(),
                           tokens == posed->sizes().end() ? 0 : tokens->second);
  };
  for (std::size_t i = 0; i < program.program.outputs.size(); ++i) {
    const std::string& name = program.program.outputs[i];
    const std::optional<int> at = form.program.output(name);
    require(at.has_value(), form.program.name, " lacks the output ", name, " of ", program.program.name);
    put_together(name, program.program.body->result_type(i), form.program.body->type(*at), of_form.outputs);
  }
  for (const Input& input : program.program.inputs)
    if (const Input* to = form.program.input(input.name))
      put_together(input.name, input.type, to->type, of_form.gradients);
  return of_form;
}

template BasicAnswer<double> answer_of_program(const Mechanism&, const Mechanism&, const Problem&, BasicAnswer<double>);
template BasicAnswer<Enclosed> answer_of_program(const Mechanism&, const Mechanism&, const Problem&,
                                                 BasicAnswer<Enclosed>);

std::vector<Distance> distances(const Room& program, const Room& form, const Problem& problem) {
  const Mechanism &a = program_of(program), &b = program_of(form);
  Problem of_form = problem_of_form(a.program, b.program, problem), of_program = problem;
  of_form.mechanism = form.name, of_program.mechanism = program.name;
  std::erase_if(of_program.inputs, [&](const auto& input) { return b.program.input(input.first) == nullptr; });
  const BasicAnswer<Enclosed> first = enclosed(program, a.program, of_program);
  const BasicAnswer<Enclosed> second = answer_of_program(a, b, of_program, enclosed(form, b.program, of_form));
  std::vector<Distance> list;
  for (const std::string& name : a.program.outputs)
    list.push_back(distance(name, first.outputs.at(name), second.outputs.at(name)));
  for (const Input& input : a.program.inputs) {
    const auto x = first.gradients.find(input.name), y = second.gradients.find(input.name);
    if (x != first.gradients.end() && y != second.gradients.end())
      list.push_back(distance("d_" + input.name, x->second, y->second));
  }
  return list;
}

std::vector<Distance> distances(const Oracle& truth, const Mechanism& program, const Room& form, const Problem& problem,
                                int threads) {
  const Mechanism& b = program_of(form);
  Problem of_form = problem_of_form(program.program, b.program, problem);
  of_form.mechanism = form.name;
  std::optional<BasicAnswer<Enclosed>> known = form.in_words(of_form, {2, threads});
  if (!known) known = enclosed(form, b.program, of_form);
  const BasicAnswer<Enclosed> second = answer_of_program(program, b, problem, std::move(*known));
  std::vector<Distance> list;
  for (const auto& [name, tensor] : truth.tensors) {
    const bool gradient = !second.outputs.contains(name);
    const auto& arrays = gradient ? second.gradients : second.outputs;
    const auto found = arrays.find(gradient ? name.substr(2) : name);
    if (gradient && b.program.input(name.substr(2)) == nullptr) continue;  // it is not asked for
    require(found != arrays.end(), b.program.name, " lacks ", name, ", which ", program.program.name, " answers");
    BasicArray<Enclosed> first(tensor.shape);
    for (std::size_t i = 0; i < first.data.size(); ++i) first.data[i] = {tensor.value[i], tensor.bound[i]};
    list.push_back(distance(name, first, found->second));
  }
  return list;
}

Outcome outcome_of(const Distance& d) {
  if (d.differs) return Outcome::different;
  // Underflows count as nothing in a tensor of zeros.
  return d.bound <= word_target * std::max(d.largest, 0x1p-900) ? Outcome::equal : Outcome::unknown;
}

std::string words_of(const Distance& d) {
  std::string place;
  for (const int i : d.place) place += fmt::format("[{}]", i);
  switch (outcome_of(d)) {
    case Outcome::different:
      return fmt::format("DIFFERENT: {} is {:.9g} and {:.9g}", place, d.first, d.second);
    case Outcome::unknown:
      return fmt::format("NOT PROVEN: {} may differ by {:.1e}", place, d.bound);
    case Outcome::equal:
      break;
  }
  if (d.largest == 0) return "equal: zeros";
  if (d.bound == 0) return "equal, bit for bit";
  return fmt::format("equal: no number differs by more than 2^{:.0f} of the largest",
                     std::ceil(std::log2(d.bound / d.largest)));
}

}  // namespace assay::language
