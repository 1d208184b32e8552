#include "language/equal.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "language/room.hpp"
#include "reference/core/error.hpp"

namespace assay::language {
namespace {

const Input* find_input(const Program& program, std::string_view name) {
  const auto found =
      std::find_if(program.inputs.begin(), program.inputs.end(), [&](const Input& i) { return i.name == name; });
  return found == program.inputs.end() ? nullptr : &*found;
}

/// The written length of the chunks in which the form has a sequence; 0 if it has it as the program does.
int chunk_of(const Type& type, const Type& form, const auto& refuse) {
  const std::vector<Dim>&a = type.axes, &b = form.axes;
  if (a.size() == b.size() && type.kind == form.kind) return 0;
  const bool split = !a.empty() && b.size() == a.size() + 1 && !b[0].name.empty() && b[1].name.empty() &&
                     std::equal(a.begin() + 1, a.end(), b.begin() + 2);
  if (!split) refuse();
  return b[1].written;
}

/// [lead, T, ...] as [lead, N, chunk, ...].
Array split(const Array& array, std::size_t lead, int chunk) {
  const int tokens = array.shape[lead], chunks = (tokens + chunk - 1) / chunk;
  Array out;
  out.shape = array.shape;
  out.shape[lead] = chunks;
  out.shape.insert(out.shape.begin() + static_cast<std::ptrdiff_t>(lead) + 1, chunk);
  out.data.assign(out.count(), 0);
  const std::size_t blocks = lead > 0 ? static_cast<std::size_t>(array.shape[0]) : 1;
  const std::size_t from = blocks > 0 ? array.count() / blocks : 0, to = blocks > 0 ? out.count() / blocks : 0;
  for (std::size_t b = 0; b < blocks; ++b)
    std::copy_n(array.data.begin() + static_cast<std::ptrdiff_t>(b * from), from,
                out.data.begin() + static_cast<std::ptrdiff_t>(b * to));
  return out;
}

/// Number i of an array of that shape in the form's array, which may come in chunks with some padding.
struct Places {
  std::size_t block = 0, form_block = 0;

  Places(const std::vector<int>& shape, const std::vector<int>& form, bool heads) {
    const auto count = [&](const std::vector<int>& of) {
      std::size_t n = 1;
      for (std::size_t r = heads ? 1 : 0; r < of.size(); ++r) n *= static_cast<std::size_t>(of[r]);
      return n;
    };
    block = count(shape), form_block = count(form);
  }
  std::size_t operator()(std::size_t i) const { return i / block * form_block + i % block; }
};

Distance distance(const std::string& name, const BasicArray<Enclosed>& a, const BasicArray<Enclosed>& b, bool heads) {
  Distance found{name, 0, 0, false, {}, 0, 0};
  const Places place(a.shape, b.shape, heads);
  std::size_t worst = 0;
  double worst_excess = -1;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    const Enclosed &x = a.data[i], &y = b.data[place(i)];
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
  found.first = a.data[worst].value.hi, found.second = b.data[place(worst)].value.hi;
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
    require(find_input(program, input.name) != nullptr || input.missing, form.name, " wants ", input.name, ", which ",
            program.name, " has not");
  for (const auto& [name, value] : problem.params)
    if (find_input(form, name) != nullptr || form.settings.contains(name)) out.params.emplace(name, value);
  const auto put = [&](const std::string& name, const Array& array, const Type& type, const Type& to, Arrays& arrays) {
    const int chunk = chunk_of(type, to, [&] {
      throw InputError(text(form.name, ": ", name, " is [", text_of(to), "] where ", program.name, " has [",
                            text_of(type),
                            "]; expected the same axes, or tokens in chunks of a written length, as in \"N 16 K\""));
    });
    arrays.emplace(name, chunk > 0 ? split(array, array.shape.size() - type.axes.size(), chunk) : array);
  };
  for (const auto& [name, array] : problem.inputs) {
    const Input *input = find_input(program, name), *to = find_input(form, name);
    if (to == nullptr)
      require(input->missing != nullptr, form.name, " lacks ", name, ", which ", program.name, " must have");
    else
      put(name, array, input->type, to->type, out.inputs);
  }
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const std::string& name = program.outputs[i];
    const auto at = std::find(form.outputs.begin(), form.outputs.end(), name);
    require(at != form.outputs.end(), form.name, " lacks the output ", name, " of ", program.name);
    const auto cotangent = problem.cotangents.find(name);
    if (cotangent == problem.cotangents.end()) continue;
    const Type& to = form.body->result_type(static_cast<std::size_t>(at - form.outputs.begin()));
    put(name, cotangent->second, program.body->result_type(i), to, out.cotangents);
  }
  return out;
}

std::vector<Distance> distances(const Room& program, const Room& form, const Problem& problem) {
  const Mechanism &a = *find_mechanism(program.name), &b = *find_mechanism(form.name);
  Problem of_form = problem_of_form(a.program, b.program, problem), of_program = problem;
  of_form.mechanism = form.name, of_program.mechanism = program.name;
  std::erase_if(of_program.inputs, [&](const auto& input) { return find_input(b.program, input.first) == nullptr; });
  const BasicAnswer<Enclosed> first = enclosed(program, a.program, of_program),
                              second = enclosed(form, b.program, of_form);
  const Posed<double> posed(a, of_program);
  std::vector<Distance> list;
  for (std::size_t i = 0; i < a.program.outputs.size(); ++i) {
    const std::string& name = a.program.outputs[i];
    const BasicArray<Enclosed>& array = first.outputs.at(name);
    list.push_back(distance(name, array, second.outputs.at(name),
                            array.shape.size() > a.program.body->result_type(i).axes.size()));
  }
  for (const Input& input : a.program.inputs) {
    const auto x = first.gradients.find(input.name), y = second.gradients.find(input.name);
    if (x != first.gradients.end() && y != second.gradients.end())
      list.push_back(
          distance("d_" + input.name, x->second, y->second, x->second.shape.size() > input.type.axes.size()));
  }
  return list;
}

}  // namespace assay::language
