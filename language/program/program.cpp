#include "language/program/program.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "reference/core/sha256.hpp"

namespace assay::language {
namespace {

constexpr std::array<std::string_view, op_count> op_names = {
    "const", "int",   "size",    "iota",     "real",     "pow",    "not",     "select",    "expand", "transpose",
    "index", "shift", "sum",     "cumsum",   "contract", "scan",   "get",     "neg",       "exp",    "log",
    "sqrt",  "tanh",  "sigmoid", "softplus", "abs",      "detach", "add",     "sub",       "mul",    "div",
    "max",   "lt",    "le",      "eq",       "and",      "or",     "softmax", "logsumexp", "round",  "solve"};

/// Those of reference/core/field.hpp, and two that are none of a room.
constexpr std::string_view domains[] = {
    "query",          "key",         "value",       "probe",      "state",    "write_strength",
    "log_decay",      "bandwidth",   "scale",       "ridge",      "gain",     "gradient_weight",
    "decay_fraction", "regularizer", "decay_floor", "normalizer", "logit",    "layer_input",
    "weight",         "temperature", "log_floor",   "real",       "cotangent"};

bool has(Op op, const Block& block) {
  return std::any_of(block.nodes.begin(), block.nodes.end(), [op](const Node& node) {
    return node.op == op || (node.op == Op::scan && has(op, *node.attributes.body));
  });
}
bool has(Op op, const Program& program) {
  return has(op, *program.body) || std::any_of(program.inputs.begin(), program.inputs.end(),
                                               [op](const Input& in) { return in.missing && has(op, *in.missing); });
}

}  // namespace

std::string text_of(const Dim& dim) { return dim.name.empty() ? std::to_string(dim.written) : dim.name; }

std::string text_of(const Type& type) {
  constexpr std::string_view kinds[] = {"real", "int", "bool"};
  std::string out(kinds[static_cast<int>(type.kind)]);
  for (const Dim& dim : type.axes) out += ' ' + text_of(dim);
  return out;
}

bool has_axes(const Type& type, std::initializer_list<std::string_view> names) {
  return std::ranges::equal(type.axes, names, {}, &Dim::name);
}

std::string_view name_of(Op op) { return op_names[static_cast<std::size_t>(op)]; }

std::optional<Op> op_from(std::string_view name) {
  const auto* const found = std::find(op_names.begin(), op_names.end(), name);
  return found == op_names.end() ? std::nullopt : std::optional(static_cast<Op>(found - op_names.begin()));
}

bool is_domain(std::string_view name) { return std::ranges::find(domains, name) != std::end(domains); }

std::string spelled(const Setting& setting, std::string_view nothing) {
  if (const bool* truth = std::get_if<bool>(&setting)) return *truth ? "true" : "false";
  if (const std::int64_t* number = std::get_if<std::int64_t>(&setting)) return std::to_string(*number);
  const std::string* words = std::get_if<std::string>(&setting);
  return words != nullptr ? *words : std::string(nothing);
}

const Input* Program::input(std::string_view of) const {
  const auto found = std::ranges::find(inputs, of, &Input::name);
  return found == inputs.end() ? nullptr : &*found;
}

std::optional<int> Program::output(std::string_view of) const {
  const auto found = std::ranges::find(outputs, of);
  return found == outputs.end() ? std::nullopt
                                : std::optional(body->results[static_cast<std::size_t>(found - outputs.begin())]);
}

int Program::version() const { return has(Op::solve, *this) ? 3 : has(Op::round, *this) ? 2 : 1; }

std::string Program::text() const {
  std::string out = "{\"body\":" + body->text + ",\"format\":\"assay-mechanism\",\"inputs\":[";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Input& in = inputs[i];
    out += std::string(i > 0 ? "," : "") + "{\"default\":" + (in.missing ? in.missing->text : "null") +
           ",\"domain\":\"" + in.domain + "\",\"gradient\":" + (in.gradient ? "true" : "false") + ",\"name\":\"" +
           in.name + "\",\"type\":\"" + text_of(in.type) + "\"}";
  }
  out += "],\"outputs\":[";
  for (std::size_t i = 0; i < outputs.size(); ++i) out += (i > 0 ? ",\"" : "\"") + outputs[i] + '"';
  return out + "],\"version\":" + std::to_string(version()) + '}';
}

std::string Program::digest() const { return Sha256().update(text()).hex(); }

}  // namespace assay::language
