#include "arguments/programs/join.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "language/program/builder.hpp"
#include "language/program/lists.hpp"
#include "reference/core/error.hpp"

namespace assay::arguments {

const std::string& called(const std::string& name, const Names& names) {
  const auto found = names.find(name);
  return found == names.end() ? name : found->second;
}

namespace {

using language::Attributes;
using language::Block;
using language::Builder;
using language::Dim;
using language::Input;
using language::mapped;
using language::Node;
using language::Op;
using language::Program;
using language::Type;

Dim renamed(Dim dim, const Names& axes) {
  dim.name = called(dim.name, axes);
  return dim;
}

Type renamed(Type type, const Names& axes) {
  for (Dim& dim : type.axes) dim = renamed(dim, axes);
  return type;
}

std::shared_ptr<const Block> renamed(const Block& block, const Names& axes);

Attributes renamed(Attributes attributes, const Names& axes) {
  attributes.dim = renamed(attributes.dim, axes);
  if (attributes.body) attributes.body = renamed(*attributes.body, axes);
  return attributes;
}

/// The nodes of `block` after those of `out`; `at`: where its values are, parameters first.
void copy(const Block& block, const Names& axes, std::vector<int>& at, Builder& out) {
  for (const Node& node : block.nodes)
    at.push_back(out.emit(node.op, mapped(node.args, at), renamed(node.attributes, axes)));
}

std::shared_ptr<const Block> renamed(const Block& block, const Names& axes) {
  std::vector<Type> params;
  for (const Type& type : block.params) params.push_back(renamed(type, axes));
  std::vector<int> at = language::first_values(params.size());
  Builder out(std::move(params));
  copy(block, axes, at, out);
  return std::move(out).finish(mapped(block.results, at));
}

std::vector<Type> types_of(const std::vector<Input>& inputs) {
  std::vector<Type> types;
  types.reserve(inputs.size());
  for (const Input& input : inputs) types.push_back(input.type);
  return types;
}

int position(const std::vector<Input>& inputs, std::string_view name) {
  const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const Input& i) { return i.name == name; });
  return found == inputs.end() ? -1 : static_cast<int>(found - inputs.begin());
}

/// The default of input `i` of a program, where `before` are the inputs that come first in the whole.
std::shared_ptr<const Block> missing_of(const Program& program, std::size_t i, const Names& in, const Names& axes,
                                        const std::vector<Input>& before) {
  const Block& block = *program.inputs[i].missing;
  std::vector<int> at;
  for (std::size_t b = 0; b < block.params.size(); ++b)
    at.push_back(position(before, called(program.inputs[b].name, in)));
  Builder out(types_of(before));
  copy(block, axes, at, out);
  return language::canonical(*std::move(out).finish(mapped(block.results, at)));
}

}  // namespace

Join& Join::then(const Program& program, Names in, Names out, Names axes) {
  steps_.push_back({&program, std::move(in), std::move(out), std::move(axes)});
  return *this;
}

Program Join::program(const std::string& name, const std::vector<std::string>& outputs) const {
  Program whole;
  whole.name = name;
  std::set<std::string, std::less<>> made;
  for (const Step& step : steps_) {
    for (std::size_t i = 0; i < step.program->inputs.size(); ++i) {
      Input input = step.program->inputs[i];
      input.name = called(input.name, step.in);
      input.type = renamed(input.type, step.axes);
      if (made.contains(input.name) || position(whole.inputs, input.name) >= 0) continue;
      if (input.missing) input.missing = missing_of(*step.program, i, step.in, step.axes, whole.inputs);
      whole.inputs.push_back(std::move(input));
    }
    for (const std::string& output : step.program->outputs) made.insert(called(output, step.out));
  }
  Builder body(types_of(whole.inputs));
  std::map<std::string, int, std::less<>> values;
  for (std::size_t i = 0; i < whole.inputs.size(); ++i) values[whole.inputs[i].name] = static_cast<int>(i);
  for (const Step& step : steps_) {
    std::vector<int> at;
    for (const Input& input : step.program->inputs) at.push_back(values.at(called(input.name, step.in)));
    copy(*step.program->body, step.axes, at, body);
    const std::vector<int> results = mapped(step.program->body->results, at);
    for (std::size_t r = 0; r < results.size(); ++r) values[called(step.program->outputs[r], step.out)] = results[r];
  }
  whole.outputs = outputs;
  std::sort(whole.outputs.begin(), whole.outputs.end());
  std::vector<int> results;
  for (const std::string& output : whole.outputs) {
    require(values.contains(output), name, ": no part of it puts out ", output);
    results.push_back(values.at(output));
  }
  whole.body = language::canonical(*std::move(body).finish(std::move(results)));
  return whole;
}

Program with_states(const Program& program) {
  const std::optional<int> last = program.output("final_state");
  require(last.has_value(), program.name, ": has no final_state");
  const Block& block = *program.body;
  const Node* get = block.node(*last);
  const Node* scan = get == nullptr || get->op != Op::get ? nullptr : block.node(get->args[0]);
  require(scan != nullptr && get->attributes.i < scan->attributes.carry, program.name,
          ": its final_state is not the last state of a scan");
  std::vector<int> at = language::first_values(block.params.size());
  Builder out(block.params);
  int states = -1;
  for (const Node& node : block.nodes) {
    Attributes attributes = node.attributes;
    if (&node == scan) {
      Block step = *attributes.body;
      step.results.push_back(get->attributes.i);  // the state that comes in is a row, too
      attributes.body = renamed(step, {});
    }
    at.push_back(out.emit(node.op, mapped(node.args, at), attributes));
    if (&node != scan) continue;
    states = out.emit(Op::get, {at.back()}, {.i = static_cast<int>(attributes.body->results.size()) - 1});
  }
  std::vector<int> results = mapped(block.results, at);
  results.push_back(states);
  Program more = program;
  more.outputs.emplace_back("states");
  more.body = std::move(out).finish(std::move(results));
  return more;
}

}  // namespace assay::arguments
