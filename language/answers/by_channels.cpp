#include "language/answers/by_channels.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "language/evaluate/side_by_side.hpp"
#include "oracles/multiword/pack.hpp"

namespace assay::language {
namespace {

constexpr std::string_view channels = "V";
constexpr int most_words = 4;

long count_in(const Type& type) {
  return std::count_if(type.axes.begin(), type.axes.end(), [](const Dim& dim) { return dim.name == channels; });
}
/// Where a type has its channels, from the end; -1 if it has none.
int place_in(const Type& type) {
  for (std::size_t a = 0; a < type.axes.size(); ++a)
    if (type.axes[a].name == channels) return static_cast<int>(type.axes.size() - 1 - a);
  return -1;
}

/// Whether channel i of what a node makes is made of channels i alone.
bool keeps_apart(const Block& block, const Node& node);

/// Whether every value of the block has the channels once at most, and no channel reads another.
bool are_apart(const Block& block) {
  const auto once = [](const Type& type) { return count_in(type) <= 1; };
  return std::all_of(block.params.begin(), block.params.end(), once) &&
         std::all_of(block.nodes.begin(), block.nodes.end(), [&](const Node& node) {
           return std::all_of(node.types.begin(), node.types.end(), once) && keeps_apart(block, node);
         });
}

bool keeps_apart(const Block& block, const Node& node) {
  const auto type = [&](std::size_t i) -> const Type& { return block.type(node.args[i]); };
  const bool reads = std::any_of(node.args.begin(), node.args.end(), [&](int v) {
    const auto types = block.types(v);
    return std::any_of(types.begin(), types.end(), [](const Type& t) { return count_in(t) > 0; });
  });
  switch (node.op) {
    case Op::size:
    case Op::iota:
      return node.attributes.dim.name != channels;
    case Op::sum:
    case Op::contract:
      return !reads || count_in(node.types[0]) == 1;
    case Op::softmax:
    case Op::logsumexp:
      return !reads || type(0).axes.back().name != channels;
    case Op::solve:
      return type(0).axes.back().name != channels;
    case Op::shift:
    case Op::cumsum:
      return !reads || type(0).axes.front().name != channels;
    case Op::scan: {
      const Type& row = type(static_cast<std::size_t>(node.attributes.carry));
      return row.axes[0].name != channels && are_apart(*node.attributes.body);
    }
    default:
      return true;
  }
}

/// Where steps only add up, tokens take the empty lanes, and do less.
bool goes_step_by_step(const Block& block) {
  return std::any_of(block.nodes.begin(), block.nodes.end(), [](const Node& node) {
    return node.op == Op::scan && !adds_up(*node.attributes.body, node.attributes.carry);
  });
}

bool is_of_channels(const Program& program) {
  if (!goes_step_by_step(*program.body) || !are_apart(*program.body)) return false;
  for (std::size_t o = 0; o < program.outputs.size(); ++o)
    if (count_in(program.body->result_type(o)) != 1) return false;
  return std::all_of(program.inputs.begin(), program.inputs.end(), [](const Input& input) {
    return count_in(input.type) <= 1 && (!input.missing || are_apart(*input.missing));
  });
}

/// Heads times groups of channels in front, each with its share of the channels, which `inner` numbers follow.
template <class N>
BasicArray<N> cut(const BasicArray<N>& array, int groups, int place) {
  BasicArray<N> out;
  out.shape = array.shape;
  int& all = out.shape[out.shape.size() - 1 - static_cast<std::size_t>(place)];
  const auto share = static_cast<std::size_t>(all / groups);
  std::size_t inner = 1;
  for (std::size_t r = out.shape.size() - static_cast<std::size_t>(place); r < out.shape.size(); ++r)
    inner *= static_cast<std::size_t>(out.shape[r]);
  const std::size_t heads = static_cast<std::size_t>(out.shape[0]), head = array.data.size() / heads,
                    line = share * inner;
  all = static_cast<int>(share), out.shape[0] *= groups;
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t g = 0; g < static_cast<std::size_t>(groups); ++g)
      for (std::size_t at = g * line; at < head; at += line * static_cast<std::size_t>(groups)) {
        const auto from = array.data.begin() + static_cast<std::ptrdiff_t>(h * head + at);
        out.data.insert(out.data.end(), from, from + static_cast<std::ptrdiff_t>(line));
      }
  return out;
}

/// Undoes `cut`.
template <class N>
void join(BasicArray<N>& array, int groups, int place) {
  const BasicArray<N> parts = std::exchange(array, {});
  array.shape = parts.shape, array.shape[0] /= groups;
  int& all = array.shape[array.shape.size() - 1 - static_cast<std::size_t>(place)];
  std::size_t line = static_cast<std::size_t>(all);
  all *= groups;
  for (std::size_t r = array.shape.size() - static_cast<std::size_t>(place); r < array.shape.size(); ++r)
    line *= static_cast<std::size_t>(array.shape[r]);
  const std::size_t part = parts.data.size() / static_cast<std::size_t>(parts.shape[0]),
                    lines = line > 0 ? part / line : 0;
  for (std::size_t h = 0; h < static_cast<std::size_t>(array.shape[0]); ++h)
    for (std::size_t n = 0; n < lines; ++n)
      for (std::size_t g = 0; g < static_cast<std::size_t>(groups); ++g) {
        const auto from = parts.data.begin() +
                          static_cast<std::ptrdiff_t>((h * static_cast<std::size_t>(groups) + g) * part + n * line);
        array.data.insert(array.data.end(), from, from + static_cast<std::ptrdiff_t>(line));
      }
}

/// The sums of what the parts of every head have.
void add_parts(BasicArray<WordBall>& array, int groups) {
  const BasicArray<WordBall> parts = std::exchange(array, {});
  array.shape = parts.shape, array.shape[0] /= groups;
  const std::size_t size = parts.data.size() / static_cast<std::size_t>(parts.shape[0]);
  for (std::size_t h = 0; h < static_cast<std::size_t>(array.shape[0]); ++h)
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t first = h * static_cast<std::size_t>(groups) * size + i;
      WordBall sum = parts.data[first];
      for (std::size_t g = 1; g < static_cast<std::size_t>(groups); ++g)
        sum = add(most_words, sum, parts.data[first + g * size]);
      array.data.push_back(sum);
    }
}

}  // namespace

std::optional<ByChannels> by_channels(const Mechanism& mechanism, const Problem& problem) {
  const Program& program = mechanism.program;
  int heads = 0, length = 0;
  std::set<std::string> missing;
  for (const Input& input : program.inputs) {
    const auto given = problem.inputs.find(input.name);
    const int place = place_in(input.type);
    if (given == problem.inputs.end()) {
      if (place < 0 && input.gradient) missing.insert(input.name);
      continue;
    }
    const std::vector<int>& shape = given->second.shape;
    if (shape.size() != input.type.axes.size() + 1) {
      if (place >= 0) return std::nullopt;
      continue;
    }
    heads = std::max(heads, shape[0]);
    if (place >= 0) length = shape[shape.size() - 1 - static_cast<std::size_t>(place)];
  }
  if (heads == 0 || length == 0 || !is_of_channels(program)) return std::nullopt;
  int groups = 1;
  while (2 * groups * heads <= words::pack_size && length % (2 * groups) == 0) groups *= 2;
  if (groups == 1) return std::nullopt;
  ByChannels result{groups, problem, std::move(missing)};
  for (const Input& input : program.inputs) {
    const auto given = result.parts.inputs.find(input.name);
    if (const int place = place_in(input.type); place >= 0 && given != result.parts.inputs.end()) {
      if (given->second.shape[0] != heads) return std::nullopt;  // shared by heads that go apart
      given->second = cut(given->second, groups, place);
    }
  }
  for (std::size_t o = 0; o < program.outputs.size(); ++o)
    if (const auto given = result.parts.cotangents.find(program.outputs[o]); given != result.parts.cotangents.end())
      given->second = cut(given->second, groups, place_in(program.body->result_type(o)));
  return result;
}

void join_channels(const Mechanism& mechanism, const ByChannels& apart, BasicAnswer<WordBall>& answer) {
  const int groups = apart.groups;
  const Program& program = mechanism.program;
  for (std::size_t o = 0; o < program.outputs.size(); ++o)
    join(answer.outputs.at(program.outputs[o]), groups, place_in(program.body->result_type(o)));
  for (const Input& input : program.inputs) {
    const auto found = answer.gradients.find(input.name);
    if (found == answer.gradients.end()) continue;
    const int place = place_in(input.type);
    if (place >= 0) join(found->second, groups, place);
    if (place < 0 && apart.missing.contains(input.name)) add_parts(found->second, groups);
  }
}

}  // namespace assay::language
