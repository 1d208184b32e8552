#include "language/evaluate/fused.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "language/evaluate/side_by_side.hpp"
#include "language/program/builder.hpp"
#include "language/program/lists.hpp"

namespace assay::language {
namespace {

/// Which values are made of value v.
std::vector<char> made_of(const Block& block, int v) {
  std::vector<char> made(index(values_of(block)), 0);
  made[index(v)] = 1;
  for (int w = std::max(v + 1, block.first()); w < static_cast<int>(made.size()); ++w)
    for (const int a : block.node(w)->args) made[index(w)] |= made[index(a)];
  return made;
}

const Dim& axis_of(const Block& block, const Node& scan) {
  return block.type(scan.args[index(scan.attributes.carry)]).axes[0];
}

/// A map, and the scan that takes it in.
struct Pair {
  int map, scan;
};

std::optional<Pair> found_in(const Block& block) {
  std::vector<int> scans;
  for (int v = block.first(); v < values_of(block); ++v)
    if (const Node& node = *block.node(v); node.op == Op::scan && adds_up(*node.attributes.body, node.attributes.carry))
      scans.push_back(v);
  for (const int map : scans) {
    if (block.node(map)->attributes.carry > 0) continue;
    for (const int scan : scans) {
      if (scan == map || axis_of(block, *block.node(scan)) != axis_of(block, *block.node(map))) continue;
      if (made_of(block, map)[index(scan)] == 0 && made_of(block, scan)[index(map)] == 0) return Pair{map, scan};
    }
  }
  return std::nullopt;
}

/// Operands of two scans, each once, and where each of the second's is.
struct Operands {
  std::vector<int> all, of_second;

  Operands(std::vector<int> first, const std::vector<int>& second) : all(std::move(first)) {
    for (const int v : second) {
      const auto known = std::find(all.begin(), all.end(), v);
      of_second.push_back(static_cast<int>(known - all.begin()));
      if (known == all.end()) all.push_back(v);
    }
  }
};

/// The nodes of a step in another, whose parameters are at `at`; its results there.
std::vector<int> taken_in(const Block& step, std::vector<int> at, Builder& out) {
  for (const Node& node : step.nodes) at.push_back(out.emit(node.op, mapped(node.args, at), node.attributes));
  return mapped(step.results, at);
}

/// Both scans as one: the operands it has in `block`, and what it says.
std::pair<std::vector<int>, Attributes> joined(const Block& block, const Node& scan, const Node& map) {
  const auto part = [](const Node& node, int from, int count) {
    return std::vector<int>(node.args.begin() + from, node.args.begin() + from + count);
  };
  const int carry = scan.attributes.carry, own = carry + scan.attributes.xs;
  const int outer = static_cast<int>(scan.args.size()) - own,
            map_outer = static_cast<int>(map.args.size()) - map.attributes.xs;
  const Operands rows(part(scan, carry, scan.attributes.xs), part(map, 0, map.attributes.xs)),
      values(part(scan, own, outer), part(map, map.attributes.xs, map_outer));
  std::vector<int> args = part(scan, 0, carry);
  args.insert(args.end(), rows.all.begin(), rows.all.end());
  const int first_value = static_cast<int>(args.size());
  args.insert(args.end(), values.all.begin(), values.all.end());

  std::vector<Type> params;
  for (int i = 0; i < static_cast<int>(args.size()); ++i) {
    Type type = block.type(args[index(i)]);
    if (i >= carry && i < first_value) type.axes.erase(type.axes.begin());
    params.push_back(std::move(type));
  }
  Builder step(params);
  std::vector<int> at = first_values(index(own)), of_map;
  for (int i = 0; i < outer; ++i) at.push_back(first_value + i);
  for (const int i : rows.of_second) of_map.push_back(carry + i);
  for (const int i : values.of_second) of_map.push_back(first_value + i);
  std::vector<int> results = taken_in(*scan.attributes.body, std::move(at), step);
  for (const int r : taken_in(*map.attributes.body, std::move(of_map), step)) results.push_back(r);
  Attributes attributes = scan.attributes;
  attributes.xs = static_cast<int>(rows.all.size());
  attributes.body = std::move(step).finish(std::move(results));
  return {std::move(args), std::move(attributes)};
}

/// The block with the pair as one scan, which stands where all that either reads is there.
std::shared_ptr<const Block> with(const Block& block, const Pair& pair) {
  const int first = std::min(pair.map, pair.scan), second = std::max(pair.map, pair.scan),
            before_map = static_cast<int>(block.node(pair.scan)->types.size());
  const std::vector<char> late = made_of(block, first);
  Builder out(block.params);
  std::vector<int> at = first_values(block.params.size());
  at.resize(late.size(), -1);
  const auto write = [&](int v) {
    const Node& node = *block.node(v);
    Attributes attributes = node.attributes;
    if (node.op == Op::get && node.args[0] == pair.map) attributes.i += before_map;
    at[index(v)] = out.emit(node.op, mapped(node.args, at), std::move(attributes));
  };
  for (int v = block.first(); v < second; ++v)
    if (late[index(v)] == 0) write(v);
  auto [args, attributes] = joined(block, *block.node(pair.scan), *block.node(pair.map));
  at[index(first)] = at[index(second)] = out.emit(Op::scan, mapped(args, at), std::move(attributes));
  for (int v = first + 1; v < static_cast<int>(late.size()); ++v)
    if (v != second && at[index(v)] < 0) write(v);
  return std::move(out).finish(mapped(block.results, at));
}

}  // namespace

std::shared_ptr<const Block> fused(std::shared_ptr<const Block> block) {
  while (const std::optional<Pair> pair = found_in(*block)) block = with(*block, *pair);
  return block;
}

}  // namespace assay::language
